package tokenissuer

import (
	"context"
	"errors"
)

// TokenRequest is a request to the token endpoint (RFC 6749 §3.2), read once at the door. Members that its grant type
// does not know are ignored.
type TokenRequest struct {
	GrantType GrantType
	Client    ClientAuthentication
	// Scope is the parameter as it was sent; each grant reads it by its own rules.
	Scope string

	// Code, RedirectURI and CodeVerifier are those of RFC 6749 §4.1.3 and RFC 7636 §4.5.
	Code         Secret
	RedirectURI  string
	CodeVerifier Secret
	// RefreshToken is that of RFC 6749 §6.
	RefreshToken Secret
	// UserAgent is the header as it was sent.
	UserAgent string
	// Email, or Username in its place, and Password are those of RFC 6749 §4.3.2.
	Email    string
	Username string
	Password Secret
}

// exchanges are the grant types that the token endpoint serves, each in the file of its name.
var exchanges = map[GrantType]func(*Issuer, context.Context, *Client, TokenRequest) (Grant, error){
	ClientCredentials: (*Issuer).exchangeClientCredentials,
	AuthorizationCode: (*Issuer).exchangeAuthorizationCode,
	RefreshTokenGrant: (*Issuer).exchangeRefreshToken,
	PasswordGrant:     (*Issuer).exchangePassword,
}

// serves tells whether Exchange knows the grant type.
func (is *Issuer) serves(g GrantType) bool {
	return exchanges[g] != nil && (g != PasswordGrant || is.PasswordGrant != nil)
}

// ServedGrants lists the grant types that Exchange knows, for the metadata (RFC 8414 §2).
func (is *Issuer) ServedGrants() []GrantType {
	var served []GrantType
	for _, g := range knownGrants {
		if is.serves(g) {
			served = append(served, g)
		}
	}
	return served
}

// Exchange is the token endpoint's walk (RFC 6749 §3.2). The order is a safeguard: nothing about a grant is said to
// somebody who has not proved which client they are.
func (is *Issuer) Exchange(ctx context.Context, r TokenRequest) (Tokens, *Client, error) {
	// 1. The grant type is present and known.
	if r.GrantType == "" {
		return Tokens{}, nil, MissingParameter("grant_type")
	}
	if !is.serves(r.GrantType) {
		return Tokens{}, nil, NewError(UnsupportedGrantType, "grant_type_unknown")
	}
	// 2. The client proves who it is.
	client, err := is.exchangingClient(ctx, r)
	if err != nil {
		return Tokens{}, nil, err
	}
	// 3. The client may use the grant.
	if !is.mayExchange(client, r.GrantType) {
		return Tokens{}, client, NewError(UnauthorizedClient, "grant_not_allowed")
	}
	// 4. The grant itself: its parameters, what it proves, its scopes.
	grant, err := exchanges[r.GrantType](is, ctx, client, r)
	if err != nil {
		return Tokens{}, client, err
	}
	// 5. The tokens.
	tokens, err := is.Issue(grant)
	return tokens, client, err
}

// exchangingClient returns the client that the request proved to come from. The password grant needs none, and neither
// does refreshing a token that came to be without one; a client that is named must be right all the same.
func (is *Issuer) exchangingClient(ctx context.Context, r TokenRequest) (*Client, error) {
	client, err := is.AuthenticateClient(ctx, r.Client)
	if !errors.Is(err, errNoClient) {
		return client, err
	}
	switch r.GrantType {
	case PasswordGrant:
		return is.ownClient(), nil
	case RefreshTokenGrant:
		id, _, genuine := is.Master.readRefreshToken(r.RefreshToken)
		if !genuine {
			return nil, err
		}
		f, storeErr := is.Store.Family(ctx, id)
		if storeErr != nil && !errors.Is(storeErr, ErrNotFound) {
			return nil, Unavailable("store_unavailable", storeErr)
		}
		if storeErr == nil && f.ClientID == OwnClientID && (f.Origin != PasswordGrant || is.PasswordGrant != nil) {
			return is.ownClient(), nil
		}
	}
	return nil, err
}

// mayExchange tells whether the client may use the grant type. Our own client can do no more than what it is let in for.
func (is *Issuer) mayExchange(client *Client, g GrantType) bool {
	if client.ID == OwnClientID {
		return true
	}
	return client.MayUse(g) || g == RefreshTokenGrant && client.mayRefresh()
}
