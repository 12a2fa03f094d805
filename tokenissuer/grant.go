package tokenissuer

import (
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// Grant is what a grant type has proved: the input of Issue. It is never stored.
type Grant struct {
	Type   oauth.GrantType
	Client *store.Client
	// User is for whom the token acts; nil makes a server token.
	User   *store.User
	Scopes oauth.Scopes
	// Audience are the resources that the access token is for (RFC 8707); empty: the issuer's own audience.
	Audience []string
	// FamilyID names the token family; empty on a server token.
	FamilyID string
	// Generation numbers the refresh token that goes with the access token; 0: none does.
	Generation int64
	// Actor is who obtained the token for the user, when it was somebody else.
	Actor store.Actor
	// AuthTime is when the user last proved a password; zero on a server token.
	AuthTime time.Time
	// Lifetime overrides the lifetime of the grant type; zero keeps it.
	Lifetime time.Duration

	// exchanged is the access token that is exchanged for another; nil: none is.
	exchanged *token.AccessToken
	// born is when the token's family was: see newSignIn.
	born time.Time
	// nonce, sessionID and claims and proof are those of the ID token; see store.TokenFamily.
	nonce, sessionID, claims string
	proof                    store.Proof

	// repetition is filled by the time at which consume is done; nil: the grant uses no refresh token.
	repetition *repetition
	// consume is the durable step on which the tokens depend; nil: none. It runs while they are signed, and nobody sees
	// them unless it succeeds.
	consume func() error
}
