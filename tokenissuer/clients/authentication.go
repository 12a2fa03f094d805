package clients

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Authentication is what a request presents to authenticate its client (RFC 6749 §2.3).
type Authentication struct {
	// Readings are the credentials, in the order to try them: an HTTP Basic header can be read in two ways.
	Readings []Credential
	// PublicID is the client_id of a request that presents no secret.
	PublicID string
	// Assertion is the JWT that the client has signed (RFC 7523 §2.2); empty: none. With one, PublicID is the client_id, which is optional.
	Assertion oauth.Secret
	// Address is where the request comes from, for counting failures.
	Address string
	// Malformed is the error of the presentation itself; nil: none. Authenticate returns it.
	Malformed error
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

// ErrMissing is the invalid_client of Authenticate for a request that names no client at all.
var ErrMissing error = oauth.NewError(oauth.InvalidClient, "client_credentials_missing")

// Authenticate returns the client of a request. An unknown client, a wrong secret and a disabled client are the same invalid_client.
//
// A client that has authenticated is remembered for a second, and a declared one is in memory, so that the usual request does not ask the
// store. A refusal is never decided from memory. It asks the directory once, whether the client exists or not: its timing does not reveal
// which, and a secret that another node has just made is accepted at once.
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
	return nil, c.countFailure(ctx, a.clientID(), known, a.Address, now)
}

// countFailure counts a failure and returns the refusal. The cause, for the audit log, names the client only if it exists: another id may
// be a secret in the wrong field.
func (c *Clients) countFailure(ctx context.Context, id string, known bool, address string, now time.Time) error {
	refusal := oauth.AsError(c.Limits.CountClientFailure(ctx, id, address, now))
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

// proven returns the client of the first reading that is right, trying memory before the directory. It returns nil when none is right, and
// then reports whether the client that the request claims exists.
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
		if proves(client, r, now) {
			if !client.IsPublic() {
				c.Authenticated.Remember(client, now)
			}
			return client, true, nil
		}
	}
	return nil, known, nil
}

// proves reports whether the credential is the client's. A public client need not present a secret, but one that it presents must be right.
// A client that signs assertions has no secret.
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
