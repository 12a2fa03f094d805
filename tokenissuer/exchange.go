package tokenissuer

import (
	"context"
	"errors"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TokenRequest is a request to the token endpoint (RFC 6749 §3.2), read once at the door. Members that its grant type
// does not know are ignored.
type TokenRequest struct {
	GrantType oauth.GrantType
	Client    ClientAuthentication
	// Scope is the parameter as it was sent; each grant reads it by its own rules.
	Scope string
	// Resources are the resources that the access token is to be for, as they were sent (RFC 8707 §2.2).
	Resources []string

	// Code, RedirectURI and CodeVerifier are those of RFC 6749 §4.1.3 and RFC 7636 §4.5.
	Code         oauth.Secret
	RedirectURI  string
	CodeVerifier oauth.Secret
	// RefreshToken is that of RFC 6749 §6.
	RefreshToken oauth.Secret
	// UserAgent is the header as it was sent.
	UserAgent string
	// Email, or Username in its place, and Password are those of RFC 6749 §4.3.2.
	Email    string
	Username string
	Password oauth.Secret
	// Assertion is that of RFC 7523 §2.1.
	Assertion oauth.Secret
	// Exchange are those of RFC 8693 §2.1.
	Exchange TokenExchange
}

// exchanges are the grant types that the token endpoint serves, each in the file of its name.
var exchanges = map[oauth.GrantType]func(*Issuer, context.Context, *store.Client, TokenRequest) (Grant, error){
	oauth.ClientCredentials: (*Issuer).exchangeClientCredentials,
	oauth.AuthorizationCode: (*Issuer).exchangeAuthorizationCode,
	oauth.RefreshTokenGrant: (*Issuer).exchangeRefreshToken,
	oauth.PasswordGrant:     (*Issuer).exchangePassword,
	oauth.TokenExchange:     (*Issuer).exchangeToken,
}

// serves reports whether Exchange knows the grant type.
func (se *Settings) serves(g oauth.GrantType) bool {
	if g == oauth.JWTBearer {
		return len(se.AcceptRules) > 0
	}
	return exchanges[g] != nil && (g != oauth.PasswordGrant || se.PasswordGrant != nil)
}

// ServedGrants lists the grant types that Exchange knows, for the metadata (RFC 8414 §2).
func (se *Settings) ServedGrants() []oauth.GrantType {
	var served []oauth.GrantType
	for _, g := range oauth.KnownGrants {
		if se.serves(g) {
			served = append(served, g)
		}
	}
	return served
}

// Exchange is the token endpoint's walk (RFC 6749 §3.2). The order is a safeguard: nothing about a grant is said to
// somebody who has not proved which client they are.
func (is *Issuer) Exchange(ctx context.Context, r TokenRequest) (Tokens, *store.Client, error) {
	// 1. The grant type is present and known.
	if r.GrantType == "" {
		return Tokens{}, nil, oauth.MissingParameter("grant_type")
	}
	if !is.serves(r.GrantType) {
		return Tokens{}, nil, oauth.NewError(oauth.UnsupportedGrantType, "grant_type_unknown")
	}
	if r.GrantType == oauth.JWTBearer {
		return is.exchangeAssertion(ctx, r)
	}
	// 2. The client proves who it is.
	client, err := is.exchangingClient(ctx, r)
	if err != nil {
		return Tokens{}, nil, err
	}
	// 3. The client may use the grant.
	if !is.mayExchange(client, r.GrantType) {
		return Tokens{}, client, oauth.NewError(oauth.UnauthorizedClient, "grant_not_allowed")
	}
	// 4. The grant itself: its parameters, what it proves, its scopes.
	grant, err := exchanges[r.GrantType](is, ctx, client, r)
	if err != nil {
		return Tokens{}, client, err
	}
	// 5. The tokens.
	tokens, err := is.Issue(grant)
	if err == nil {
		is.noteUse(ctx, client)
	}
	if grant.exchanged != nil {
		tokens.IssuedType = r.Exchange.issuedType()
	}
	return tokens, client, err
}

// exchangingClient returns the client that the request proved to come from. The password grant needs none, and neither
// does refreshing a token that came to be without one; a client that is named must be right all the same.
func (is *Issuer) exchangingClient(ctx context.Context, r TokenRequest) (*store.Client, error) {
	client, err := is.Clients().AuthenticateClient(ctx, r.Client)
	if !errors.Is(err, errNoClient) {
		return client, err
	}
	switch r.GrantType {
	case oauth.PasswordGrant:
		return is.builtInClient(), nil
	case oauth.RefreshTokenGrant:
		id, _, genuine := is.Master.ReadRefreshToken(r.RefreshToken)
		if !genuine {
			return nil, err
		}
		f, _ := is.remembered(id, genuine) // of which client it is never changes
		if f == nil {
			var storeErr error
			if f, storeErr = is.storedFamily(ctx, id, genuine); storeErr != nil {
				return nil, storeErr
			}
		}
		if f != nil && f.ClientID == store.BuiltInClientID && (f.Origin != oauth.PasswordGrant || is.PasswordGrant != nil) {
			return is.builtInClient(), nil
		}
	}
	return nil, err
}

// mayExchange reports whether the client may use the grant type. Our own client can do no more than what it is let in for.
func (se *Settings) mayExchange(client *store.Client, g oauth.GrantType) bool {
	if client.ID == store.BuiltInClientID {
		return true
	}
	if g == oauth.TokenExchange {
		return client.MayExchange()
	}
	return client.MayUse(g) || g == oauth.RefreshTokenGrant && client.MayRefresh()
}
