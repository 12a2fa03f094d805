package registry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// ErrDeclared is returned for a change to what the configuration declares.
var ErrDeclared = errors.New("it is declared in the configuration: change it there")

// Registry is what an operator asks about clients and people together.
type Registry struct {
	Clients *Clients
	People  *People
}

// New returns a registry of what is declared and what is stored. Until UseStores is called, the stores may be nil.
func New(issuer *tokenissuer.Issuer, declared store.StaticDirectory, clients store.ClientStore, people PeopleStore) *Registry {
	return &Registry{Clients: &Clients{Issuer: issuer, Declared: declared, Stored: clients}, People: &People{Issuer: issuer, Declared: declared, Stored: people}}
}

// UseStores sets the stores of a registry that was made without them.
func (g *Registry) UseStores(clients store.ClientStore, people PeopleStore) {
	g.Clients.Stored, g.People.Stored = clients, people
}

// MintServerToken issues a token for a client without asking it, for the operator's own use. The scopes are held to the
// same rules as at the token endpoint. A lifetime of 0 is the client's own.
func (g *Registry) MintServerToken(ctx context.Context, clientID, scope string, lifetime time.Duration) (tokenissuer.Tokens, error) {
	client, scopes, err := g.mintable(ctx, clientID, scope, lifetime, func(s oauth.Scope) bool { return s.ServerTokens })
	if err != nil {
		return tokenissuer.Tokens{}, err
	}
	return g.Clients.Issuer.Issue(tokenissuer.Grant{Type: oauth.ClientCredentials, Client: client, Scopes: scopes, Lifetime: lifetime})
}

// MintUserToken is MintServerToken for a token that acts for a user. There is no refresh token.
func (g *Registry) MintUserToken(ctx context.Context, clientID, userID, scope string, lifetime time.Duration) (tokenissuer.Tokens, error) {
	client, scopes, err := g.mintable(ctx, clientID, scope, lifetime, oauth.AnyScope)
	if err != nil {
		return tokenissuer.Tokens{}, err
	}
	user, err := g.People.UserNamed(ctx, userID)
	if errors.Is(err, store.ErrNotFound) {
		return tokenissuer.Tokens{}, invalidInput{fmt.Errorf("there is no user %q", userID)}
	}
	if err != nil {
		return tokenissuer.Tokens{}, err
	}
	if !user.IsActive() {
		return tokenissuer.Tokens{}, invalidInput{errors.New("the user is not active, or has neither a password nor an account at a provider")}
	}
	return g.Clients.Issuer.IssueUnasked(ctx, client, user, scopes, lifetime)
}

// mintable checks what an operator asks a token for.
func (g *Registry) mintable(ctx context.Context, clientID, scope string, lifetime time.Duration, allowed func(oauth.Scope) bool) (*store.Client, oauth.Scopes, error) {
	client, err := g.Clients.Client(ctx, clientID)
	if err != nil {
		return nil, nil, err
	}
	if client.Disabled {
		return nil, nil, invalidInput{errors.New("the client is disabled")}
	}
	if lifetime != 0 && (lifetime < time.Second || lifetime > store.MaxLifetime) {
		return nil, nil, invalidInput{fmt.Errorf("a token can live from 1s to %s", store.FormatBound(store.MaxLifetime))}
	}
	scopes, err := g.Clients.Issuer.Scopes.Grantable(scope, client.Scopes, allowed)
	return client, scopes, err
}

// InvalidInput marks an error as the caller's mistake.
func InvalidInput(err error) error { return invalidInput{err} }

type invalidInput struct{ error }

func (e invalidInput) Unwrap() error { return e.error }

// IsInvalidInput reports whether an error of Registry is the caller's mistake.
func IsInvalidInput(err error) bool {
	var i invalidInput
	return errors.As(err, &i)
}
