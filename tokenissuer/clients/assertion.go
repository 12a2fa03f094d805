package clients

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/attempts"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TokenPath is the path of the token endpoint relative to the issuer.
const TokenPath = "/oauth/token"

// strangersLimit bounds the assertions of a client that made itself known, because each valid one adds a record to the store.
var strangersLimit = attempts.Limit{Failures: 600, Window: time.Minute}

// byAssertion returns the client that signed the assertion of a request (RFC 7523 §2.2). It counts a failure against the client that the
// assertion names, as for a wrong secret.
func (c *Clients) byAssertion(ctx context.Context, a *Authentication) (*store.Client, error) {
	now := c.Families.Now()
	said, refusal := ReadAssertion(a.Assertion)
	id := a.PublicID
	if refusal == nil {
		id = said.ID
	}
	if err := c.Limits.CheckClient(ctx, id, a.Address, now); err != nil {
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
	_, unknown := c.Families.Directory.Client(ctx, id)
	counted := c.countFailure(ctx, id, unknown == nil, a.Address, now)
	if oauth.AsError(counted).Code == oauth.RateLimited {
		return nil, counted
	}
	return nil, oauth.AsError(refusal).WithCause(errors.Join(errors.Unwrap(counted), errors.Unwrap(refusal)))
}

// verifyAssertion checks an assertion's claims, then its signature, then that it was not used before. The jti is marked as used last, so
// that only the client itself can do so.
func (c *Clients) verifyAssertion(ctx context.Context, said *Assertion, a *Authentication, now time.Time) (*store.Client, error) {
	if a.PublicID != "" && a.PublicID != said.ID {
		return nil, oauth.NewError(oauth.InvalidClient, "client_id_mismatch")
	}
	if err := said.Check(c.assertionAudiences(), now); err != nil {
		return nil, err
	}
	client := c.known(said.ID)
	err := c.signedBy(ctx, client, said, a.Address)
	if err != nil && oauth.AsError(err).Code == oauth.InvalidClient {
		// A cached client never decides a refusal: the client may have another key since.
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
		if err := c.Limits.Reserve(ctx, c.Limits.Limited(bucket), "assertions_throttled", now); err != nil {
			return nil, err
		}
	}
	fresh, err := c.Families.UseOnce(ctx, "client assertion", client.ID, said.JTI, said.Expires)
	if err != nil {
		return nil, err
	}
	if !fresh {
		return nil, ErrUsed
	}
	c.Authenticated.Remember(client, now)
	return client, nil
}

// signedBy returns nil if the client may authenticate by assertion and signed this one.
func (c *Clients) signedBy(ctx context.Context, client *store.Client, said *Assertion, source string) error {
	if client.Disabled || !client.SignsAssertions() || c.Keys == nil {
		return oauth.NewError(oauth.InvalidClient, "client_authentication_failed")
	}
	kid, algorithm := said.Key()
	key, err := c.Keys.Find(ctx, client, source, kid, algorithm)
	if err != nil {
		return err
	}
	return said.Verify(key)
}

// assertionAudiences returns the accepted values of aud in a client's assertion: the issuer and, for clients that follow RFC 7523 as
// published in 2015, the token endpoint.
func (p *Policy) assertionAudiences() []string {
	if p.StrictAssertions {
		return []string{p.URL}
	}
	return []string{p.URL, strings.TrimSuffix(p.URL, "/") + TokenPath}
}
