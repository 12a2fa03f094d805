package people

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Registry answers operators' requests that concern both clients and users.
type Registry struct {
	Clients *clients.Registry
	People  *Users
	// Links let people set passwords; nil: nobody signs in with a password of ours.
	Links *Links
}

// UseStores sets the stores of a registry that was created without them.
func (g *Registry) UseStores(clients store.ClientStore, people Store) {
	g.Clients.Stored, g.People.Stored = clients, people
}

// MintableUser returns an active user by id or e-mail address, for an operator's token.
func (g *Registry) MintableUser(ctx context.Context, name string) (*store.User, error) {
	user, err := g.People.UserNamed(ctx, name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, store.InvalidInput(fmt.Errorf("there is no user %q", name))
	case err != nil:
		return nil, err
	case !user.IsActive():
		return nil, store.InvalidInput(errors.New("the user is not active, or has neither a password nor an account at a provider"))
	}
	return user, nil
}

// MintableClient returns a client and the scopes of an operator's token for it. A lifetime of 0 means the client's own.
func (g *Registry) MintableClient(ctx context.Context, id, scope string, lifetime time.Duration, allowed func(oauth.Scope) bool) (*store.Client, oauth.Scopes, error) {
	client, err := g.Clients.Client(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	if client.Disabled {
		return nil, nil, store.InvalidInput(errors.New("the client is disabled"))
	}
	if lifetime != 0 && (lifetime < time.Second || lifetime > store.MaxLifetime) {
		return nil, nil, store.InvalidInput(fmt.Errorf("a token can live from 1s to %s", store.FormatBound(store.MaxLifetime)))
	}
	scopes, err := g.Clients.Known.Scopes.Grantable(scope, client.Scopes, allowed)
	return client, scopes, err
}
