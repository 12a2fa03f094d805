package registry

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/assertion"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/memory"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// ErrDeclared is returned for a change to what the configuration declares.
var ErrDeclared = errors.New("it is declared in the configuration: change it there")

// Registry changes at run time which clients, users and organisations exist. What the configuration declares it lists and
// leaves alone.
type Registry struct {
	Families *families.Families
	// Known are the issuer's clients, with the policy for them.
	Known *clients.Clients
	Roles store.RoleCatalogue
	// Hasher hashes new passwords.
	Hasher *passwords.Hasher
	// Usernames is told of every user who is changed.
	Usernames *token.UsernameCache
	Declared  store.StaticDirectory
	Stored    Store
}

// Store is what a registry asks of a store.
type Store interface {
	store.ClientStore
	store.UserStore
	store.IdentityStore
	store.DeclarationStore
	store.PersonalTokenStore
}

// Clients lists every client, by id.
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

// Client returns one client, or ErrNotFound.
func (g *Registry) Client(ctx context.Context, id string) (*store.Client, error) {
	return g.Families.Directory.Client(ctx, id)
}

// AddClient registers a client and returns its secret, which nobody can read again; a public client gets none here. An empty
// id is generated. ErrTaken when the id is in use.
func (g *Registry) AddClient(ctx context.Context, c store.Client) (*store.Client, oauth.Secret, error) {
	if c.ID == "" {
		c.ID = oauth.NewID()
	}
	c.SetDefaults()
	if g.isDeclared(c.ID) {
		return nil, oauth.Secret{}, store.ErrTaken
	}
	c.CreatedAt = g.Families.Now().Truncate(time.Microsecond)
	var secret oauth.Secret
	if !c.IsPublic() && !c.SignsAssertions() {
		secret = oauth.NewClientSecret()
		c.Secrets = []store.ClientSecret{{Digest: secret.Digest(), CreatedAt: c.CreatedAt}}
	}
	if err := g.checkClient(&c, &store.Client{}); err != nil {
		return nil, oauth.Secret{}, invalidInput{err}
	}
	if err := g.Stored.AddClient(ctx, &c); err != nil {
		return nil, oauth.Secret{}, err
	}
	g.Known.Authenticated.Forget(c.ID)
	g.Known.Origins.Forget()
	return &c, secret, nil
}

// checkClient refuses what cannot be registered. What the client has had before was registered by the rules of then.
func (g *Registry) checkClient(c, before *store.Client) error {
	gained := *c
	gained.RedirectURIs = without(c.RedirectURIs, before.RedirectURIs)
	gained.CORSOrigins = without(c.CORSOrigins, before.CORSOrigins)
	gained.Scopes = without(c.Scopes, before.Scopes)
	if err := gained.Validate(); err != nil {
		return err
	}
	if c.JWKS != before.JWKS {
		if err := assertion.CheckSet(c); err != nil {
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

// without returns the elements of list that others does not hold.
func without[S ~[]E, E comparable](list, others S) S {
	var rest S
	for _, element := range list {
		if !slices.Contains(others, element) {
			rest = append(rest, element)
		}
	}
	return rest
}

// isDeclared reports whether an id is a declared client's or user's, or our own.
func (g *Registry) isDeclared(id string) bool {
	return g.Declared.LookupClient(id) != nil || g.Declared.LookupUser(id) != nil || id == store.BuiltInClientID
}

// RotateSecret gives a client a further secret, a public one perhaps its first. The older ones stay good for overlap; 0 ends
// them now.
func (g *Registry) RotateSecret(ctx context.Context, id string, overlap time.Duration) (oauth.Secret, error) {
	client, err := g.changeable(ctx, id)
	switch {
	case err != nil:
		return oauth.Secret{}, err
	case client.SignsAssertions():
		return oauth.Secret{}, invalidInput{errors.New("the client proves who it is with a key of its own, and no secret is good for it")}
	}
	if client.Origin == store.FromMetadata {
		return oauth.Secret{}, invalidInput{errors.New("a client that describes itself in a document has no secret")}
	}
	if overlap < 0 {
		return oauth.Secret{}, invalidInput{errors.New("the overlap must not be negative")}
	}
	now := g.Families.Now()
	secret := oauth.NewClientSecret()
	err = g.Stored.RotateClientSecret(ctx, id, store.ClientSecret{Digest: secret.Digest(), CreatedAt: now}, now.Add(overlap))
	g.Known.Authenticated.Forget(id)
	if err != nil {
		return oauth.Secret{}, err
	}
	return secret, nil
}

// DisableClient refuses the client from now on, and revokes its tokens.
func (g *Registry) DisableClient(ctx context.Context, id string) error {
	return g.end(ctx, id, g.Stored.DisableClient)
}

// RemoveClient deletes the client, and revokes its tokens. Its id can be used again once its last token has expired.
func (g *Registry) RemoveClient(ctx context.Context, id string) error {
	return g.end(ctx, id, g.Stored.RemoveClient)
}

func (g *Registry) end(ctx context.Context, id string, step func(context.Context, string, store.Revocation) error) error {
	if _, err := g.changeable(ctx, id); err != nil {
		return err
	}
	tokens := g.Families.RevocationOf(store.RevokeClient, id)
	// A node that remembers the client serves it for a moment more. What it issues then is revoked as well.
	tokens.IssuedUntil = tokens.IssuedUntil.Add(memory.ClientCacheTTL + store.Leeway)
	err := step(ctx, id, tokens)
	g.Known.Authenticated.Forget(id)
	g.Known.Origins.Forget()
	if err != nil {
		return err
	}
	g.Families.Revocations.Add(tokens)
	return nil
}

// EnableClient lets a disabled client in again. Tokens issued before it was disabled, or within six seconds after, stay
// revoked.
func (g *Registry) EnableClient(ctx context.Context, id string) error {
	if _, err := g.changeable(ctx, id); err != nil {
		return err
	}
	return g.Stored.EnableClient(ctx, id)
}

// changeable returns a client that may be changed at run time.
func (g *Registry) changeable(ctx context.Context, id string) (*store.Client, error) {
	client, err := g.Client(ctx, id)
	if err == nil && client.Declared {
		return nil, ErrDeclared
	}
	return client, err
}

// MintableUser returns an active user by id or e-mail address, for whom an operator asks a token.
func (g *Registry) MintableUser(ctx context.Context, name string) (*store.User, error) {
	user, err := g.UserNamed(ctx, name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, invalidInput{fmt.Errorf("there is no user %q", name)}
	case err != nil:
		return nil, err
	case !user.IsActive():
		return nil, invalidInput{errors.New("the user is not active, or has neither a password nor an account at a provider")}
	}
	return user, nil
}

// MintableClient returns a client with the scopes that an operator asks a token for. A lifetime of 0 is the client's own.
func (g *Registry) MintableClient(ctx context.Context, id, scope string, lifetime time.Duration, allowed func(oauth.Scope) bool) (*store.Client, oauth.Scopes, error) {
	client, err := g.Client(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	if client.Disabled {
		return nil, nil, invalidInput{errors.New("the client is disabled")}
	}
	if lifetime != 0 && (lifetime < time.Second || lifetime > store.MaxLifetime) {
		return nil, nil, invalidInput{fmt.Errorf("a token can live from 1s to %s", store.FormatBound(store.MaxLifetime))}
	}
	scopes, err := g.Known.Scopes.Grantable(scope, client.Scopes, allowed)
	return client, scopes, err
}

// InvalidInput marks an error as the caller's mistake.
func InvalidInput(err error) error { return invalidInput{err} }

type invalidInput struct{ error }

func (e invalidInput) Unwrap() error { return e.error }

// InvalidInput marks the error for packages that do not import this one.
func (invalidInput) InvalidInput() {}

// IsInvalidInput reports whether an error of Registry is the caller's mistake.
func IsInvalidInput(err error) bool {
	var i invalidInput
	return errors.As(err, &i)
}
