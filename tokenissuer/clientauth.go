package tokenissuer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/attempts"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// ClientAuthentication is what a request presents to prove which client it comes from (RFC 6749 §2.3).
type ClientAuthentication struct {
	// Readings are the credentials, in the order to try them: an HTTP Basic header can be read in two ways.
	Readings []ClientCredential
	// PublicID is the client_id of a request that presents no secret.
	PublicID string
	// Assertion is the JWT that the client has signed (RFC 7523 §2.2); empty: none. Then PublicID is the client_id, which may be left out.
	Assertion oauth.Secret
	// Address is where the request comes from, for counting failures.
	Address string
	// Malformed is what is wrong with the presentation itself; nil: nothing. It is judged where the client is.
	Malformed error
}

// ClientCredential is a client id with its secret.
type ClientCredential struct {
	ID     string
	Secret oauth.Secret
}

// clientID is the id that the request claims, for the audit log and for counting.
func (a *ClientAuthentication) clientID() string {
	if len(a.Readings) > 0 {
		return a.Readings[0].ID
	}
	return a.PublicID
}

// provesSomething reports whether the request presents more than an id.
func (a *ClientAuthentication) provesSomething() bool {
	return len(a.Readings) > 0 || !a.Assertion.IsEmpty() || a.Malformed != nil
}

// Clients are the clients that an issuer knows, declared, stored and its own.
type Clients struct {
	settings *Settings
	records  *Records
	limits   *attempts.Limits
	open     *OpenClients
}

// Clients returns the issuer's clients.
func (is *Issuer) Clients() Clients { return Clients{&is.Settings, &is.Records, &is.Limits, &is.Open} }

// errNoClient is the invalid_client for a request that names no client at all.
var errNoClient error = oauth.NewError(oauth.InvalidClient, "client_credentials_missing")

// AuthenticateClient returns the client that the request proved to come from. Unknown client, wrong secret and disabled
// client are one invalid_client.
//
// A client that succeeded is remembered for a second, and a declared one is known, so that the usual request asks no store.
// A refusal is never decided from memory: it always asks the directory once, whether the client exists or not, so its time
// tells nothing, and a secret that another node has just made is honoured at once.
func (c Clients) AuthenticateClient(ctx context.Context, a ClientAuthentication) (*store.Client, error) {
	if a.Malformed != nil {
		return nil, a.Malformed
	}
	if !a.Assertion.IsEmpty() {
		return c.clientOfAssertion(ctx, &a)
	}
	if len(a.Readings) == 0 && a.PublicID == "" {
		return nil, errNoClient
	}
	now := c.records.Now()
	if err := c.limits.CheckClient(ctx, a.clientID(), a.Address, now); err != nil {
		return nil, err
	}
	client, known, err := c.provenClient(ctx, &a, now)
	if err != nil || client != nil {
		return client, err
	}
	return nil, c.countFailure(ctx, a.clientID(), known, a.Address, now)
}

// countFailure counts a failure and returns the refusal. Its cause, for the audit log, names a client that exists: the id of no client
// may be a secret in the wrong field.
func (c Clients) countFailure(ctx context.Context, id string, known bool, address string, now time.Time) error {
	refusal := oauth.AsError(c.limits.CountClientFailure(ctx, id, address, now))
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

// provenClient tries every reading, first against memory and then against the directory. It returns nil when none is
// right, and then reports whether there is a client of the id that the request claims.
func (c Clients) provenClient(ctx context.Context, a *ClientAuthentication, now time.Time) (proven *store.Client, known bool, err error) {
	readings := a.Readings
	if len(readings) == 0 {
		readings = []ClientCredential{{ID: a.PublicID}}
	}
	for _, r := range readings {
		if client := c.knownClient(r.ID, now); proves(client, r, now) {
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
				c.records.Authenticated.Remember(client, now)
			}
			return client, true, nil
		}
	}
	return nil, known, nil
}

// registered returns the client of an id as it is now, or nobody. One that describes itself is asked about only where a user has let it
// in before: it can have neither a code nor a token else.
func (c Clients) registered(ctx context.Context, id, source string) (*store.Client, error) {
	client, err := c.records.Directory.Client(ctx, id)
	if err == nil && client.Origin != store.FromOperator {
		client, err = c.open.present(ctx, id, client, source)
	}
	var own *oauth.Error
	switch {
	case err == nil:
		return client, nil
	case errors.Is(err, store.ErrNotFound):
		return &nobody, nil
	case !errors.As(err, &own):
		return nil, err
	case own.Code == oauth.TemporarilyUnavailable:
		return nil, own
	}
	return &nobody, nil // its document is gone, or says something else
}

// knownClient returns a client for which nobody has to be asked, or nobody.
func (c Clients) knownClient(id string, now time.Time) *store.Client {
	if declared := c.settings.Declared.LookupClient(id); declared != nil {
		return declared
	}
	if client := c.records.Authenticated.Recall(id, now); client != nil {
		return client
	}
	return &nobody
}

// nobody stands in for a client that does not exist, so that the same work is done.
var nobody = store.Client{Type: store.ConfidentialClient, Disabled: true, Secrets: make([]store.ClientSecret, 1)}

// proves reports whether the credential is the client's. A public client need not present its secret, if it has one; what
// it presents must be right. One that signs assertions has no secret that is good.
func proves(client *store.Client, r ClientCredential, now time.Time) bool {
	matches := client.SecretMatches(r.Secret.Digest(), now)
	if client.Disabled || client.ID == store.BuiltInClientID || client.SignsAssertions() {
		return false
	}
	if r.Secret.IsEmpty() {
		return client.IsPublic()
	}
	return matches
}

// builtInClient may hold what acts for a user and what the operator adds. Other scopes are for the clients that have them.
func (se *Settings) builtInClient() *store.Client {
	scopes := oauth.Scopes{oauth.ScopeTrusted, oauth.ScopePublic}
	for _, name := range se.SessionScopes {
		if !scopes.Has(name) && !oauth.AsksForRefresh(name) {
			scopes = append(scopes, name)
		}
	}
	return &store.Client{ID: store.BuiltInClientID, Name: "Gatehouse", Type: store.PublicClient, Scopes: scopes, Declared: true}
}

// Find returns a client that may be our own. ErrNotFound when there is none.
func (c Clients) Find(ctx context.Context, id string) (*store.Client, error) {
	if id == store.BuiltInClientID {
		return c.settings.builtInClient(), nil
	}
	return c.records.Directory.Client(ctx, id)
}
