package clients

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Authentication holds what a request presents to authenticate its client (RFC 6749 §2.3).
type Authentication struct {
	// Readings are the possible credentials, in the order to try them. An HTTP Basic header has up to two readings.
	Readings []Credential
	// PublicID is the client_id of a request without a secret.
	PublicID string
	// Assertion is the JWT that the client signed (RFC 7523 §2.2), or empty. With an assertion, PublicID is the client_id, which is
	// optional.
	Assertion oauth.Secret
	// Address is the address that the request comes from. Failures are counted by it.
	Address string
	// Malformed is an error in the presentation itself, or nil. Authenticate returns it.
	Malformed error

	// counted reports that a failure was counted before a hash was computed.
	counted bool
}

// Credential is a client id with its secret.
type Credential struct {
	ID     string
	Secret oauth.Secret
}

// clientID returns the id that the request claims.
func (a *Authentication) clientID() string {
	if len(a.Readings) > 0 {
		return a.Readings[0].ID
	}
	return a.PublicID
}

// Proves reports whether the request presents more than an id.
func (a *Authentication) Proves() bool {
	return len(a.Readings) > 0 || !a.Assertion.IsEmpty() || a.Malformed != nil
}

// ErrMissing is the invalid_client that Authenticate returns for a request without any client id.
var ErrMissing error = oauth.NewError(oauth.InvalidClient, "client_credentials_missing")

// Authenticate returns the client of a request. It returns the same invalid_client for an unknown client, a wrong secret and a disabled
// client.
//
// It caches an authenticated client for a second, and declared clients are in memory, so most requests do not read the store. A cached
// client never decides a refusal. A refusal reads the directory once, whether or not the client exists, so that its timing does not reveal
// which. A secret that another node has just created is therefore accepted at once.
func (c *Clients) Authenticate(ctx context.Context, a Authentication) (*store.Client, error) {
	if a.Malformed != nil {
		return nil, a.Malformed
	}
	if !a.Assertion.IsEmpty() {
		return c.byAssertion(ctx, &a)
	}
	if len(a.Readings) == 0 && a.PublicID == "" {
		return nil, ErrMissing
	}
	now := c.Families.Now()
	if err := c.Limits.CheckClient(ctx, a.clientID(), a.Address, now); err != nil {
		return nil, err
	}
	client, known, err := c.proven(ctx, &a, now)
	if err != nil || client != nil {
		return client, err
	}
	if a.counted {
		return nil, refusedClient(oauth.NewError(oauth.InvalidClient, "client_authentication_failed"), a.clientID(), known)
	}
	return nil, c.countFailure(ctx, a.clientID(), known, a.Address, now)
}

// countFailure counts a failure and returns the refusal.
func (c *Clients) countFailure(ctx context.Context, id string, known bool, address string, now time.Time) error {
	return refusedClient(oauth.AsError(c.Limits.CountClientFailure(ctx, id, address, now)), id, known)
}

// refusedClient returns a refusal with its cause. The cause, for the audit log, names the client only if it exists, because an unknown id may be a
// secret in the wrong field.
func refusedClient(refusal *oauth.Error, id string, known bool) error {
	cause := fmt.Errorf("client %.64q", id)
	if !known {
		cause = errUnknownClient
	}
	if refusal.Code == oauth.RateLimited {
		return refusal
	}
	return refusal.WithCause(cause)
}

var errUnknownClient = errors.New("client unknown")

// proven returns the client of the first valid reading. It tries the cache before the directory. If no reading is valid, it returns nil,
// and known reports whether the claimed client exists.
func (c *Clients) proven(ctx context.Context, a *Authentication, now time.Time) (client *store.Client, known bool, err error) {
	readings := a.Readings
	if len(readings) == 0 {
		readings = []Credential{{ID: a.PublicID}}
	}
	for _, r := range readings {
		if client := c.known(r.ID); proves(client, r, now) {
			return client, true, nil
		}
	}
	for _, r := range readings {
		client, err := c.registered(ctx, r.ID, a.Address)
		if err != nil {
			return nil, false, err
		}
		known = known || client != &nobody && r.ID == a.clientID()
		proved := proves(client, r, now)
		if !proved && !r.Secret.IsEmpty() && hasLiveHash(client, now) {
			if proved, err = c.learn(ctx, a, client, r.Secret, now); err != nil {
				return nil, false, err
			}
		}
		if proved {
			if !client.IsPublic() {
				c.Authenticated.Remember(client, now)
			}
			return client, true, nil
		}
	}
	return nil, known, nil
}

// proves reports whether the credential is valid for the client. A public client need not present a secret, but a presented secret must be
// correct. A client that signs assertions has no secret.
func proves(client *store.Client, r Credential, now time.Time) bool {
	matches := client.SecretMatches(r.Secret.Digest(), now)
	if client.Disabled || client.ID == store.BuiltInClientID || client.SignsAssertions() {
		return false
	}
	if r.Secret.IsEmpty() {
		return client.IsPublic()
	}
	return matches
}

// learnTime bounds the verification of a hash, with the wait for its slot.
const learnTime = time.Minute

// learn reports whether a secret is one of the client's that only a bcrypt hash is known of, and then stores its digest. Requests that come
// with the same secret from the same address meanwhile share the result: after a move all of a client's may come at once, and each hash costs
// much.
func (c *Clients) learn(ctx context.Context, a *Authentication, client *store.Client, secret oauth.Secret, now time.Time) (bool, error) {
	if client.Disabled || client.SignsAssertions() {
		return false, nil
	}
	first, counted := false, a.counted
	digest := secret.Digest()
	verification := c.learning.DoChan(client.ID+"\x00"+a.Address+"\x00"+string(digest[:]), func() (any, error) {
		first = true
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), learnTime) // the first one may go, and the others stay
		defer cancel()
		return c.verifyHashes(ctx, Authentication{PublicID: a.clientID(), Address: a.Address, counted: counted}, client, secret, now)
	})
	select {
	case <-ctx.Done():
		return false, oauth.ErrHashingBusy.WithCause(ctx.Err())
	case result := <-verification:
		if result.Err != nil {
			return false, result.Err
		}
		proved := result.Val.(bool)
		a.counted = counted || first && !proved
		return proved, nil
	}
}

// verifyHashes is learn without the sharing. If the digest cannot be stored, the next use retries. It stays a hash if more bytes were sent than
// the hash proves. A hash is counted as a failure beforehand, unless one was already, and waits for a slot, as those of passwords do: one for
// each client and address.
func (c *Clients) verifyHashes(ctx context.Context, a Authentication, client *store.Client, secret oauth.Secret, now time.Time) (bool, error) {
	forgive := func() {}
	if !a.counted {
		var err error
		if forgive, err = c.Limits.ReserveClient(ctx, a.clientID(), a.Address, now); err != nil {
			return false, err
		}
	}
	leave, err := c.Hasher.Enter(ctx, passwords.Attempt{Account: "client\x00" + client.ID + "\x00" + a.Address, Address: a.Address, Learns: true})
	if err != nil {
		forgive()
		return false, err
	}
	defer leave()
	for _, s := range client.Secrets {
		if s.Hash.IsEmpty() || !s.IsLive(now) || !passwords.VerifyTruncated(secret, s.Hash) {
			continue
		}
		forgive()
		if !client.Declared && passwords.IsWhole(secret) {
			_ = c.Families.Store.ChangeClient(ctx, client.ID, store.LearnSecret(s.Hash, secret)) // see above
		}
		return true, nil
	}
	return false, nil
}

// hasLiveHash reports whether only a hash is known of a live secret of a client.
func hasLiveHash(c *store.Client, now time.Time) bool {
	return slices.ContainsFunc(c.Secrets, func(s store.ClientSecret) bool { return !s.Hash.IsEmpty() && s.IsLive(now) })
}
