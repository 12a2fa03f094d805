package issuer

import (
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// Grant is what a grant type has proved. It is the input of Minter.Issue and is never stored.
type Grant struct {
	Type   oauth.GrantType
	Client *store.Client
	// User is the user for whom the token acts; nil makes a server token.
	User   *store.User
	Scopes oauth.Scopes
	// Audience lists the resources that the access token is for (RFC 8707). If it is empty, the token is for the issuer's own audience.
	Audience []string
	// Family is the token family; nil on a server token.
	Family *store.TokenFamily
	// Generation numbers the refresh token issued with the access token. It is 0 if there is none.
	Generation int64
	// Lifetime overrides the lifetime of the grant type; zero keeps it.
	Lifetime time.Duration
	// Nonce is that of the authorization request, for the ID token.
	Nonce string
	// Exchanged is the access token that is exchanged. It is nil for other grants.
	Exchanged *token.AccessToken
	// Consume is the durable step on which the tokens depend, or nil. Unless it succeeds, the tokens are discarded.
	Consume func() (Repetition, error)
}

// Repetition describes the repeated use of a refresh token. The zero value describes a first use.
type Repetition struct {
	// Repeated reports that the presented refresh token was used before, and that its successor is returned again.
	Repeated bool
	// RepeatedFrom describes how the requester differs from the first one. It is empty if no difference is known.
	RepeatedFrom string
}

// Once returns a Grant.Consume for a step that is never a repetition.
func Once(step func() error) func() (Repetition, error) {
	return func() (Repetition, error) { return Repetition{}, step() }
}

// GrantOf returns the grant of a family, with the durable step on which it depends.
func (m *Minter) GrantOf(f *store.TokenFamily, client *store.Client, user *store.User, consume func() (Repetition, error)) Grant {
	return Grant{
		Type: f.Origin, Client: client, User: user, Scopes: f.Scopes, Audience: f.Audience, Family: f, Generation: f.Refresh.Generation,
		Lifetime: m.Families.TokenLifetime(f, client), Consume: consume,
	}
}

// ActorOf returns a client as the actor of a user (RFC 8693 §4.1).
func ActorOf(client *store.Client) store.Actor {
	return store.Actor{Subject: client.ID, ClientID: client.ID}
}
