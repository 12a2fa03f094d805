package tokenissuer

import "context"

// TokenRequest is a request to the token endpoint (RFC 6749 §3.2), read once at the door.
type TokenRequest struct {
	GrantType GrantType
	Client    ClientAuthentication
	// Scope is the parameter as it was sent; each grant reads it by its own rules.
	Scope string
}

// exchanges are the grant types that the token endpoint serves, each in the file of its name.
var exchanges = map[GrantType]func(*Issuer, context.Context, *Client, TokenRequest) (Grant, error){
	ClientCredentials: (*Issuer).exchangeClientCredentials,
}

// ServedGrants lists the grant types that Exchange knows, for the metadata (RFC 8414 §2).
func ServedGrants() []GrantType {
	var served []GrantType
	for _, g := range knownGrants {
		if _, ok := exchanges[g]; ok {
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
	exchange, known := exchanges[r.GrantType]
	if !known {
		return Tokens{}, nil, NewError(UnsupportedGrantType, "grant_type_unknown")
	}
	// 2. The client proves who it is.
	client, err := is.AuthenticateClient(ctx, r.Client)
	if err != nil {
		return Tokens{}, nil, err
	}
	// 3. The client may use the grant.
	if !client.MayUse(r.GrantType) {
		return Tokens{}, client, NewError(UnauthorizedClient, "grant_not_allowed")
	}
	// 4. The grant itself: its parameters, what it proves, its scopes.
	grant, err := exchange(is, ctx, client, r)
	if err != nil {
		return Tokens{}, client, err
	}
	// 5. The tokens.
	tokens, err := is.Issue(grant)
	return tokens, client, err
}
