package clients

import (
	"context"
	"errors"
	"reflect"
	"sync/atomic"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Documents fetches client metadata documents (OAuth Client ID Metadata Document).
type Documents interface {
	// Client returns the client described by the document at a URL, without scopes. source is the address that the request comes from.
	// known reports whether a user has approved the client before. The error is an *oauth.Error: invalid_request if there is no usable
	// document at the URL, or temporarily_unavailable if that cannot be determined.
	Client(ctx context.Context, id, source string, known bool) (*store.Client, error)
}

// Open admits clients that make themselves known, by a metadata document or by dynamic registration. The zero value admits only clients
// that registered before.
type Open struct {
	// Documents fetches the documents of clients whose id is a URL. If it is nil, there are no such clients.
	Documents Documents
	admitted  atomic.Pointer[Admitted]
}

// Admitted determines which clients may make themselves known, and their scopes.
type Admitted struct {
	// Documents admits clients with a metadata document.
	Documents bool
	// DocumentScopes and RegistrationScopes can be granted, in addition to public, to clients with a document and to registered clients.
	DocumentScopes, RegistrationScopes oauth.Scopes
}

// Publish sets which clients are admitted.
func (o *Open) Publish(a Admitted) {
	a.DocumentScopes, a.RegistrationScopes = withPublic(a.DocumentScopes), withPublic(a.RegistrationScopes)
	o.admitted.Store(&a)
}

func withPublic(scopes oauth.Scopes) oauth.Scopes {
	if scopes.Has(oauth.ScopePublic) {
		return scopes
	}
	return append(oauth.Scopes{oauth.ScopePublic}, scopes...)
}

// Admitted returns which clients are admitted.
func (o *Open) Admitted() Admitted {
	if a := o.admitted.Load(); a != nil {
		return *a
	}
	return Admitted{}
}

// ReadsDocuments reports whether clients may use a metadata document.
func (o *Open) ReadsDocuments() bool { return o.Documents != nil && o.Admitted().Documents }

// present returns the current state of a client that made itself known. stored is its record, or nil if it has none. The current document
// takes precedence over the record, and the operator's current settings over earlier ones. The error is store.ErrNotFound if the client no
// longer exists.
func (o *Open) present(ctx context.Context, id string, stored *store.Client, source string) (*store.Client, error) {
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

// Visiting returns the client of an authorization request, which may not be stored yet.
func (c *Clients) Visiting(ctx context.Context, id, source string) (*store.Client, error) {
	client, err := c.Families.Directory.Client(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return c.Open.present(ctx, id, nil, source)
	case err != nil || client.Origin == store.FromOperator:
		return client, err
	}
	return c.Open.present(ctx, id, client, source)
}

// Admit stores a client with a metadata document that a user has just approved. Operators can then list and disable it.
func (c *Clients) Admit(ctx context.Context, client *store.Client) error {
	if client.Origin != store.FromMetadata {
		return nil
	}
	stored, err := c.Families.Directory.Client(ctx, client.ID)
	if errors.Is(err, store.ErrNotFound) {
		row := *client
		row.CreatedAt = c.Families.Now()
		err = c.Families.Store.AddClient(ctx, &row)
		c.Origins.Forget()
		if removed := (store.RemovedError{}); errors.As(err, &removed) {
			return clientRemoved(err)
		}
		if !errors.Is(err, store.ErrTaken) { // added by a concurrent request of the same client
			return err
		}
		stored, err = c.Families.Directory.Client(ctx, client.ID)
	}
	switch {
	case errors.Is(err, store.ErrNotFound): // removed since AddClient found it
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
	// The record only informs operators, so an error does not fail the sign-in.
	_ = c.Families.Store.ChangeClient(ctx, client.ID, store.ClientChange{Edit: func(row *store.Client) error {
		row.Describe(client)
		row.Scopes = client.Scopes
		return nil
	}})
	c.Origins.Forget()
	return nil
}

func clientRemoved(cause error) error {
	return oauth.NewError(oauth.Denied, "client_removed").WithDescription("The operator has removed this client lately.").WithCause(cause)
}

// NoteUse records, once a day, that a client that made itself known got a token. If recording fails, the next use is recorded.
func (c *Clients) NoteUse(ctx context.Context, client *store.Client) {
	if now := c.Families.Now(); client.Origin != store.FromOperator && now.Sub(client.LastUsedAt) >= store.Day {
		_ = c.Families.Store.ChangeClient(ctx, client.ID, store.TouchClient(now))
	}
}
