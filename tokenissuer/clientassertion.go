package tokenissuer

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/assertion"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/attempts"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TokenPath is the path of the token endpoint below the issuer.
const TokenPath = "/oauth/token"

// strangersLimit bounds the assertions of a client that made itself known: each good one is a record in the store.
var strangersLimit = attempts.Limit{Failures: 600, Window: time.Minute}

// clientOfAssertion returns the client that has signed the assertion of a request (RFC 7523 §2.2). A failure is counted as one of a
// secret is, for the client that the assertion names.
func (c Clients) clientOfAssertion(ctx context.Context, a *ClientAuthentication) (*store.Client, error) {
	now := c.records.Now()
	said, refusal := assertion.ReadClient(a.Assertion)
	id := a.PublicID
	if refusal == nil {
		id = said.ID
	}
	if err := c.limits.CheckClient(ctx, id, a.Address, now); err != nil {
		return nil, err
	}
	if refusal == nil {
		var client *store.Client
		if client, refusal = c.verifyAssertion(ctx, said, a, now); refusal == nil {
			return client, nil
		}
	}
	if oauth.AsError(refusal).Code != oauth.InvalidClient {
		return nil, refusal
	}
	_, unknown := c.records.Directory.Client(ctx, id)
	counted := c.countFailure(ctx, id, unknown == nil, a.Address, now)
	if oauth.AsError(counted).Code == oauth.RateLimited {
		return nil, counted
	}
	return nil, oauth.AsError(refusal).WithCause(errors.Join(errors.Unwrap(counted), errors.Unwrap(refusal)))
}

// verifyAssertion holds an assertion against its claims, the client's keys and the assertions that were used before, in that order. The
// jti is used up last, when everything else is good: nobody but the client can use it up.
func (c Clients) verifyAssertion(ctx context.Context, said *assertion.Client, a *ClientAuthentication, now time.Time) (*store.Client, error) {
	if a.PublicID != "" && a.PublicID != said.ID {
		return nil, oauth.NewError(oauth.InvalidClient, "client_id_mismatch")
	}
	if err := said.Check(c.settings.assertionAudiences(), now); err != nil {
		return nil, err
	}
	client := c.knownClient(said.ID, now)
	err := c.signedBy(ctx, client, said, a.Address)
	if err != nil && oauth.AsError(err).Code == oauth.InvalidClient {
		// What is remembered decides no refusal: the client may have got another key.
		if client, err = c.registered(ctx, said.ID, a.Address); err != nil {
			return nil, err
		}
		err = c.signedBy(ctx, client, said, a.Address)
	}
	if err != nil {
		return nil, err
	}
	if client.Origin != store.FromOperator {
		bucket := attempts.Bucket{Name: "assertions\x00" + client.ID, Limit: strangersLimit}
		if err := c.limits.Reserve(ctx, c.limits.Limited(bucket), "assertions_throttled", now); err != nil {
			return nil, err
		}
	}
	fresh, err := c.records.UseOnce(ctx, "client assertion", client.ID, said.JTI, said.Expires)
	if err != nil {
		return nil, err
	}
	if !fresh {
		return nil, assertion.ErrUsed
	}
	c.records.Authenticated.Remember(client, now)
	return client, nil
}

// signedBy returns nil if the client may prove who it is by an assertion, and has signed this one.
func (c Clients) signedBy(ctx context.Context, client *store.Client, said *assertion.Client, source string) error {
	if client.Disabled || !client.SignsAssertions() || c.records.ClientKeys == nil {
		return oauth.NewError(oauth.InvalidClient, "client_authentication_failed")
	}
	kid, algorithm := said.Key()
	key, err := c.records.ClientKeys.Find(ctx, client, source, kid, algorithm)
	if err != nil {
		return err
	}
	return said.Verify(key)
}

// assertionAudiences are what aud may be in an assertion that a client makes: the issuer and, for clients that follow RFC 7523 to the
// letter of 2015, the token endpoint.
func (se *Settings) assertionAudiences() []string {
	if se.StrictAssertions {
		return []string{se.URL}
	}
	return []string{se.URL, strings.TrimSuffix(se.URL, "/") + TokenPath}
}

// UseOnce notes, for all nodes and durably, that somebody's id of a kind was used, and reports whether it had not been. It is kept until
// then at least. Whatever the owner and the id are, what is kept is a digest of both.
func (k *Records) UseOnce(ctx context.Context, kind, owner, id string, until time.Time) (fresh bool, err error) {
	named := sha256.Sum256([]byte(owner))
	digest := sha256.Sum256([]byte(kind + "\x00" + string(named[:]) + id))
	outcome, err := k.Store.DecideRequest(ctx, base64.RawURLEncoding.EncodeToString(digest[:]), until.Add(store.RevocationMargin))
	if err != nil {
		return false, err
	}
	return outcome == store.Done, nil
}
