package tokenissuer

import (
	"context"
	"errors"
	"reflect"
	"sync/atomic"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// ClientDocuments reads the documents in which clients describe themselves (OAuth Client ID Metadata Document).
type ClientDocuments interface {
	// Client returns the client that the document at a URL describes, without scopes. Source is where the request comes from, and known
	// says that a user has let the client in. The error is an *oauth.Error: invalid_request for a URL without a document that can be used,
	// temporarily_unavailable when nobody knows.
	Client(ctx context.Context, id, source string, known bool) (*store.Client, error)
}

// OpenClients are the clients that make themselves known, for whom nobody here vouches. The zero value lets none in, but those that have
// registered before.
type OpenClients struct {
	// Documents reads the documents of clients whose id is a URL; nil: there are no such clients.
	Documents ClientDocuments
	admitted  atomic.Pointer[Admitted]
}

// Admitted is which clients may make themselves known, and what they may hold.
type Admitted struct {
	// Documents admits clients with a metadata document.
	Documents bool
	// DocumentScopes and RegistrationScopes are what clients with a document and registered clients can be granted, beside public.
	DocumentScopes, RegistrationScopes oauth.Scopes
}

// Publish replaces who is admitted.
func (o *OpenClients) Publish(a Admitted) {
	a.DocumentScopes, a.RegistrationScopes = withPublic(a.DocumentScopes), withPublic(a.RegistrationScopes)
	o.admitted.Store(&a)
}

func withPublic(scopes oauth.Scopes) oauth.Scopes {
	if scopes.Has(oauth.ScopePublic) {
		return scopes
	}
	return append(oauth.Scopes{oauth.ScopePublic}, scopes...)
}

// Admitted returns who is admitted.
func (o *OpenClients) Admitted() Admitted {
	if a := o.admitted.Load(); a != nil {
		return *a
	}
	return Admitted{}
}

// ReadsDocuments reports whether clients may come with a metadata document.
func (o *OpenClients) ReadsDocuments() bool { return o.Documents != nil && o.Admitted().Documents }

// present returns a client that made itself known as it is now; stored is what is stored of it, nil: nothing. What a document says counts
// rather than what was stored of it, and what the operator admits now rather than what was admitted then. ErrNotFound when there is no
// such client any more.
func (o *OpenClients) present(ctx context.Context, id string, stored *store.Client, source string) (*store.Client, error) {
	switch {
	case stored != nil && stored.Disabled:
		return stored, nil
	case stored != nil && stored.Origin == store.FromRegistration:
		if allowed := o.Admitted().RegistrationScopes; len(allowed) > 0 {
			c := *stored
			c.Scopes = allowed
			return &c, nil
		}
		return stored, nil
	case oauth.IsClientURL(id) && o.Documents != nil && o.admitted.Load() == nil:
		return nil, oauth.Unavailable("routes_unknown", nil)
	case !oauth.IsClientURL(id) || !o.ReadsDocuments():
		return nil, store.ErrNotFound
	}
	described, err := o.Documents.Client(ctx, id, source, stored != nil)
	if err != nil {
		return nil, err
	}
	c := *described
	c.Scopes = o.Admitted().DocumentScopes
	if stored != nil {
		c.CreatedAt, c.LastUsedAt, c.Lifetimes = stored.CreatedAt, stored.LastUsedAt, stored.Lifetimes
	}
	return &c, nil
}

// visiting returns the client that an authorization request names, whether anybody has met it before or not.
func (is *Issuer) visiting(ctx context.Context, id, source string) (*store.Client, error) {
	client, err := is.Directory.Client(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return is.Open.present(ctx, id, nil, source)
	case err != nil || client.Origin == store.FromOperator:
		return client, err
	}
	return is.Open.present(ctx, id, client, source)
}

// admit keeps what a client says of itself of which a user has just approved, so that operators see it and can refuse it.
func (is *Issuer) admit(ctx context.Context, client *store.Client) error {
	if client.Origin != store.FromMetadata {
		return nil
	}
	stored, err := is.Directory.Client(ctx, client.ID)
	if errors.Is(err, store.ErrNotFound) {
		row := *client
		row.CreatedAt = is.Now()
		err = is.Store.AddClient(ctx, &row)
		is.Origins.Forget()
		if removed := (store.RemovedError{}); errors.As(err, &removed) {
			return clientRemoved(err)
		}
		if !errors.Is(err, store.ErrTaken) { // by another request of the same client
			return err
		}
		stored, err = is.Directory.Client(ctx, client.ID)
	}
	switch {
	case errors.Is(err, store.ErrNotFound): // removed since AddClient has found it
		return clientRemoved(err)
	case err != nil:
		return err
	case stored.Disabled:
		return oauth.NewError(oauth.Denied, "client_disabled")
	}
	described := *stored
	if described.Describe(client); reflect.DeepEqual(&described, stored) {
		return nil
	}
	// What is stored is for operators to look at: a failure does not fail the sign-in.
	_ = is.Store.ChangeClient(ctx, client.ID, func(c *store.Client) error {
		c.Describe(client)
		c.Scopes = client.Scopes
		return nil
	})
	is.Origins.Forget()
	return nil
}

func clientRemoved(cause error) error {
	return oauth.NewError(oauth.Denied, "client_removed").WithDescription("The operator has removed this client lately.").WithCause(cause)
}

// noteUse notes, once a day, that a client which made itself known has got a token. A failure is made up for by the next one.
func (is *Issuer) noteUse(ctx context.Context, client *store.Client) {
	if now := is.Now(); client.Origin != store.FromOperator && now.Sub(client.LastUsedAt) >= store.Day {
		_ = is.Store.TouchClient(ctx, client.ID, now)
	}
}
