package tokenissuer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ErrDeclared is returned for a change to what the configuration declares.
var ErrDeclared = errors.New("it is declared in the configuration: change it there")

// Registry changes at run time which clients exist. What the configuration declares it lists and leaves alone.
type Registry struct {
	Issuer   *Issuer
	Declared StaticDirectory
	Stored   ClientStore
}

// Clients lists every client, by id.
func (g *Registry) Clients(ctx context.Context) ([]*Client, error) {
	stored, err := g.Stored.Clients(ctx)
	if err != nil {
		return nil, err
	}
	list := g.Declared.Clients()
	for _, c := range stored {
		if _, shadowed := g.Declared.clients[c.ID]; !shadowed {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b *Client) int { return strings.Compare(a.ID, b.ID) })
	return list, nil
}

// Client returns one client, or ErrNotFound.
func (g *Registry) Client(ctx context.Context, id string) (*Client, error) {
	return g.Issuer.Directory.Client(ctx, id)
}

// AddClient registers a client and returns its secret, which nobody can read again; a public client has none. An empty
// id is generated. ErrTaken when the id is in use.
func (g *Registry) AddClient(ctx context.Context, c Client) (*Client, Secret, error) {
	if c.ID == "" {
		c.ID = NewID()
	}
	c.SetDefaults()
	if _, err := g.Declared.Client(ctx, c.ID); err == nil {
		return nil, Secret{}, ErrTaken
	}
	c.CreatedAt = g.Issuer.Now()
	var secret Secret
	if !c.IsPublic() {
		secret = NewClientSecret()
		c.Secrets = []ClientSecret{{Digest: secret.Digest(), CreatedAt: c.CreatedAt}}
	}
	if err := errors.Join(c.Validate(), g.Issuer.Scopes.Check(c.Scopes)); err != nil {
		return nil, Secret{}, invalidInput{err}
	}
	if err := g.Stored.AddClient(ctx, &c); err != nil {
		return nil, Secret{}, err
	}
	g.Issuer.Authenticated.Forget(c.ID)
	return &c, secret, nil
}

// RotateSecret gives a client a further secret. The older ones stay good for overlap; 0 ends them now.
func (g *Registry) RotateSecret(ctx context.Context, id string, overlap time.Duration) (Secret, error) {
	client, err := g.changeable(ctx, id)
	if err != nil {
		return Secret{}, err
	}
	if client.IsPublic() {
		return Secret{}, invalidInput{fmt.Errorf("a %s client has no secret", client.Type)}
	}
	if overlap < 0 {
		return Secret{}, invalidInput{errors.New("the overlap must not be negative")}
	}
	now := g.Issuer.Now()
	secret := NewClientSecret()
	err = g.Stored.RotateClientSecret(ctx, id, ClientSecret{Digest: secret.Digest(), CreatedAt: now}, now.Add(overlap))
	g.Issuer.Authenticated.Forget(id)
	if err != nil {
		return Secret{}, err
	}
	return secret, nil
}

// DisableClient refuses the client from now on, and revokes its tokens.
func (g *Registry) DisableClient(ctx context.Context, id string) error {
	return g.end(ctx, id, g.Stored.DisableClient)
}

// RemoveClient deletes the client, and revokes its tokens. Its id is never given to anybody else.
func (g *Registry) RemoveClient(ctx context.Context, id string) error {
	return g.end(ctx, id, g.Stored.RemoveClient)
}

func (g *Registry) end(ctx context.Context, id string, step func(context.Context, string, Revocation) error) error {
	if _, err := g.changeable(ctx, id); err != nil {
		return err
	}
	tokens := g.Issuer.RevocationOf(RevokeClient, id)
	// A node that remembers the client serves it for a moment more. What it issues then is revoked as well.
	tokens.IssuedUntil = tokens.IssuedUntil.Add(clientMemory + Leeway)
	err := step(ctx, id, tokens)
	g.Issuer.Authenticated.Forget(id)
	if err != nil {
		return err
	}
	g.Issuer.Revocations.Add(tokens)
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
func (g *Registry) changeable(ctx context.Context, id string) (*Client, error) {
	client, err := g.Client(ctx, id)
	if err == nil && client.Declared {
		return nil, ErrDeclared
	}
	return client, err
}

// MintServerToken issues a token for a client without asking it, for the operator's own use. The scopes are held to the
// same rules as at the token endpoint. A lifetime of 0 is the client's own.
func (g *Registry) MintServerToken(ctx context.Context, clientID, scope string, lifetime time.Duration) (Tokens, error) {
	client, err := g.Client(ctx, clientID)
	if err != nil {
		return Tokens{}, err
	}
	if client.Disabled {
		return Tokens{}, invalidInput{errors.New("the client is disabled")}
	}
	if err := (Lifetimes{ClientCredentials: lifetime}).Validate(); err != nil {
		return Tokens{}, invalidInput{err}
	}
	scopes, err := g.Issuer.Scopes.grantable(scope, client, func(s Scope) bool { return s.ServerTokens })
	if err != nil {
		return Tokens{}, err
	}
	return g.Issuer.Issue(Grant{Type: ClientCredentials, Client: client, Scopes: scopes, Lifetime: lifetime})
}

// InvalidInput marks an error as the caller's mistake.
func InvalidInput(err error) error { return invalidInput{err} }

type invalidInput struct{ error }

func (e invalidInput) Unwrap() error { return e.error }

// IsInvalidInput tells whether an error of Registry is the caller's mistake.
func IsInvalidInput(err error) bool {
	var i invalidInput
	return errors.As(err, &i)
}
