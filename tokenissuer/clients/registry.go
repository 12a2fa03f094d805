package clients

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Registry adds, changes and removes clients at run time. It lists declared clients, but does not change them.
type Registry struct {
	Families *families.Families
	// Known has the issuer's clients and its policy for them.
	Known    *Clients
	Declared store.StaticDirectory
	Stored   store.ClientStore
}

// Clients returns all clients, sorted by id.
func (g *Registry) Clients(ctx context.Context) ([]*store.Client, error) {
	stored, err := g.Stored.Clients(ctx)
	if err != nil {
		return nil, err
	}
	list := g.Declared.Clients()
	for _, c := range stored {
		if g.Declared.LookupClient(c.ID) == nil {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b *store.Client) int { return strings.Compare(a.ID, b.ID) })
	return list, nil
}

// FindClients returns a page of the clients that a query selects. Those that the configuration declares are all in the first page, before the
// others.
func (g *Registry) FindClients(ctx context.Context, q store.ClientQuery) (store.ClientPage, error) {
	page, err := g.Stored.FindClients(ctx, q)
	if err != nil {
		return store.ClientPage{}, err
	}
	page.Clients = slices.DeleteFunc(page.Clients, func(c *store.Client) bool { return g.Declared.LookupClient(c.ID) != nil })
	if q.After != (store.SearchPosition{}) {
		return page, nil
	}
	declared := slices.DeleteFunc(g.Declared.Clients(), func(c *store.Client) bool { return !q.Matches(c) })
	slices.SortFunc(declared, func(a, b *store.Client) int { return strings.Compare(a.ID, b.ID) })
	page.Clients = append(declared, page.Clients...)
	return page, nil
}

// Client returns one client, or store.ErrNotFound.
func (g *Registry) Client(ctx context.Context, id string) (*store.Client, error) {
	return g.Families.Directory.Client(ctx, id)
}

// Names returns the names of clients and users by id; ids are unique across both. Ids of nothing are left out. There are at most
// store.MaxPage ids.
func (g *Registry) Names(ctx context.Context, ids []string) (map[string]string, error) {
	names, err := g.Stored.Names(ctx, ids)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if u := g.Declared.LookupUser(id); u != nil {
			names[id] = cmp.Or(u.Name, u.Email)
		} else if c := g.Declared.LookupClient(id); c != nil {
			names[id] = c.Name
		}
	}
	return names, nil
}

// AddClient registers a client and returns its secret, which cannot be read again. A public client gets none. An empty id is replaced by a
// generated one. The error is store.ErrTaken if the id is in use.
func (g *Registry) AddClient(ctx context.Context, c store.Client) (*store.Client, oauth.Secret, error) {
	if c.ID == "" {
		c.ID = oauth.NewID()
	}
	c.SetDefaults()
	var secret oauth.Secret
	if !c.IsPublic() && !c.SignsAssertions() {
		secret = oauth.NewClientSecret()
		c.Secrets = []store.ClientSecret{{Digest: secret.Digest(), CreatedAt: g.Families.Now().Truncate(time.Microsecond)}}
	}
	if err := g.checkNew(&c); err != nil {
		return nil, oauth.Secret{}, err
	}
	if err := g.AddPrepared(ctx, &c); err != nil {
		return nil, oauth.Secret{}, err
	}
	return &c, secret, nil
}

// checkNew sets when a client is registered, and refuses one that cannot be.
func (g *Registry) checkNew(c *store.Client) error {
	if g.Declared.Declares(c.ID) {
		return store.ErrTaken
	}
	c.CreatedAt = g.Families.Now().Truncate(time.Microsecond)
	if err := g.checkClient(c, &store.Client{}); err != nil {
		return store.InvalidInput(err)
	}
	return nil
}

// CheckImport returns the error that AddPrepared would return for a client that comes from another server with its id and its secrets, and
// sets when it is registered.
func (g *Registry) CheckImport(c *store.Client) error { return g.checkNew(c) }

// AddPrepared registers a client that has been checked.
func (g *Registry) AddPrepared(ctx context.Context, c *store.Client) error {
	if err := g.Stored.AddClient(ctx, c); err != nil {
		return err
	}
	g.Known.Authenticated.Forget(c.ID)
	g.Known.Origins.Forget()
	return nil
}

// ChangeImported changes what the server that a client comes from has changed. No token ends. With dry it changes nothing, and returns the
// error that there would be.
func (g *Registry) ChangeImported(ctx context.Context, client *store.Client, dry bool, edit func(*store.Client)) error {
	checked := func(c *store.Client) error {
		before := *c
		edit(c)
		err := mayChange(c, &before)
		if err == nil {
			err = g.checkClient(c, &before)
		}
		if err != nil {
			return store.InvalidInput(err)
		}
		return nil
	}
	if dry {
		edited := *client
		return checked(&edited)
	}
	err := g.Stored.ChangeClient(ctx, client.ID, store.ClientChange{Edit: checked})
	g.Known.Authenticated.Forget(client.ID)
	g.Known.Origins.Forget()
	return err
}

// checkClient refuses invalid changes. It does not check what the client already had, which was valid when it was registered.
func (g *Registry) checkClient(c, before *store.Client) error {
	gained := *c
	gained.RedirectURIs = without(c.RedirectURIs, before.RedirectURIs)
	gained.CORSOrigins = without(c.CORSOrigins, before.CORSOrigins)
	gained.Scopes = without(c.Scopes, before.Scopes)
	if err := gained.Validate(); err != nil {
		return err
	}
	if c.JWKS != before.JWKS {
		if err := CheckKeySet(c); err != nil {
			return err
		}
	}
	if err := gained.CheckPlainHTTP(); err != nil {
		return err
	}
	if err := c.CheckReachable(); err != nil && before.CheckReachable() == nil {
		return err
	}
	if !g.Known.OpenID {
		if err := c.CheckWithoutOpenID(); err != nil && before.CheckWithoutOpenID() == nil {
			return err
		}
	}
	if !reflect.DeepEqual(c.Exchange, before.Exchange) {
		if err := g.Known.CheckExchange(c); err != nil {
			return err
		}
	}
	return g.Known.Scopes.Check(gained.Scopes)
}

// without returns the elements of list that are not in others.
func without[S ~[]E, E comparable](list, others S) S {
	var rest S
	for _, element := range list {
		if !slices.Contains(others, element) {
			rest = append(rest, element)
		}
	}
	return rest
}

// RotateSecret gives a client a further secret; for a public client it may be the first. Older secrets remain valid for overlap; 0 ends
// them now. An error of check, which gets the client as it is stored, aborts the change; check may be nil.
func (g *Registry) RotateSecret(ctx context.Context, id string, overlap time.Duration, check func(*store.Client) error) (oauth.Secret, error) {
	client, err := g.changeable(ctx, id)
	switch {
	case err != nil:
		return oauth.Secret{}, err
	case client.SignsAssertions():
		return oauth.Secret{}, store.InvalidInput(errors.New("the client proves who it is with a key of its own, and no secret is good for it"))
	}
	if client.Origin == store.FromMetadata {
		return oauth.Secret{}, store.InvalidInput(errors.New("a client that describes itself in a document has no secret"))
	}
	if overlap < 0 {
		return oauth.Secret{}, store.InvalidInput(errors.New("the overlap must not be negative"))
	}
	now := g.Families.Now()
	secret := oauth.NewClientSecret()
	change := store.RotateSecret(store.ClientSecret{Digest: secret.Digest(), CreatedAt: now}, now.Add(overlap))
	rotate := change.Edit
	change.Edit = func(c *store.Client) error {
		if check != nil {
			if err := check(c); err != nil {
				return err
			}
		}
		return rotate(c)
	}
	err = g.Stored.ChangeClient(ctx, id, change)
	g.Known.Authenticated.Forget(id)
	if err != nil {
		return oauth.Secret{}, err
	}
	return secret, nil
}

// DisableClient disables the client and revokes its tokens.
func (g *Registry) DisableClient(ctx context.Context, id string) error {
	return g.end(ctx, id, func(tokens store.Revocation) error {
		return g.Stored.ChangeClient(ctx, id, store.DisableClient(tokens))
	})
}

// RemoveClient removes the client and revokes its tokens. Its id can be reused once its last token has expired.
func (g *Registry) RemoveClient(ctx context.Context, id string) error {
	return g.end(ctx, id, func(tokens store.Revocation) error { return g.Stored.RemoveClient(ctx, id, tokens) })
}

func (g *Registry) end(ctx context.Context, id string, step func(tokens store.Revocation) error) error {
	if _, err := g.changeable(ctx, id); err != nil {
		return err
	}
	tokens := g.revocationOf(id)
	err := step(tokens)
	g.Known.Authenticated.Forget(id)
	g.Known.Origins.Forget()
	if err != nil {
		return err
	}
	g.Families.Revocations.Add(tokens)
	return nil
}

// revocationOf returns the revocation of a client's tokens. A node that has the client cached still serves it briefly. Tokens that it issues then
// are revoked as well.
func (g *Registry) revocationOf(id string) store.Revocation {
	tokens := g.Families.RevocationOf(store.RevokeClient, id)
	tokens.IssuedUntil = tokens.IssuedUntil.Add(CacheTTL + store.Leeway)
	return tokens
}

// EnableClient enables a disabled client. Tokens issued before it was disabled, or within six seconds after, stay revoked.
func (g *Registry) EnableClient(ctx context.Context, id string) error {
	if _, err := g.changeable(ctx, id); err != nil {
		return err
	}
	return g.Stored.ChangeClient(ctx, id, store.EnableClient())
}

// changeable returns a client that can be changed at run time.
func (g *Registry) changeable(ctx context.Context, id string) (*store.Client, error) {
	client, err := g.Client(ctx, id)
	if err == nil && client.Declared {
		return nil, store.ErrDeclared
	}
	return client, err
}

// UpdateClient calls change to edit a client, and checks the changed members by the rules of registration. No token ends: an access token
// keeps its scopes until it expires, and a refresh drops scopes that the client may no longer have. A confidential client stays
// confidential, because its codes and refresh tokens were issued to a client with a secret.
func (g *Registry) UpdateClient(ctx context.Context, id string, change func(*store.Client) error) (*store.Client, error) {
	if _, err := g.changeable(ctx, id); err != nil {
		return nil, err
	}
	var kept *store.Client // read only after the step has succeeded: without an answer it may still run
	err := g.Stored.ChangeClient(ctx, id, store.ClientChange{Edit: func(c *store.Client) error {
		before := *c
		kept = c
		for _, check := range []func() error{
			func() error { return change(c) }, func() error { return mayChange(c, &before) }, func() error { return g.checkClient(c, &before) },
		} {
			if err := check(); err != nil {
				return store.InvalidInput(err)
			}
		}
		return nil
	}})
	g.Known.Authenticated.Forget(id)
	g.Known.Origins.Forget()
	if err != nil {
		return nil, err
	}
	return kept, nil
}

// mayChange refuses changes that would not last, or that would vouch for a client that made itself known.
func mayChange(c, before *store.Client) error {
	kept := *c
	kept.Lifetimes = before.Lifetimes
	switch {
	case c.Origin == store.FromMetadata && !reflect.DeepEqual(&kept, before):
		return errors.New("the client describes itself at the URL that is its id: only its lifetimes can be changed here; disable it to keep it out")
	case c.Origin == store.FromRegistration && !reflect.DeepEqual(c.Scopes, before.Scopes):
		return errors.New("what clients can be granted that have registered themselves is in the configuration: `registration { scopes … }`")
	case c.Origin == store.FromRegistration && c.MayExchange():
		return errors.New("a client that has registered itself exchanges no tokens: register one of your own")
	case c.Origin == store.FromRegistration && c.FirstParty:
		return errors.New("a client that has registered itself cannot do without consent: register one of your own")
	case c.IsPublic() && !before.IsPublic():
		return errors.New("a confidential client cannot become a public one: what was issued to it needs its secret; register another client")
	case strings.TrimSpace(c.Name) == "" && c.Name != before.Name:
		return errors.New("a client needs a name: people see it when they are asked for their consent")
	}
	return nil
}
