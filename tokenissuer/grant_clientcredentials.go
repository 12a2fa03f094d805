package tokenissuer

import "context"

// exchangeClientCredentials is the client credentials grant (RFC 6749 §4.4): a confidential client asks for a token
// for itself. There is never a refresh token (§4.4.3), and only scopes that need no user.
func (is *Issuer) exchangeClientCredentials(_ context.Context, client *Client, r TokenRequest) (Grant, error) {
	if client.IsPublic() {
		return Grant{}, NewError(UnauthorizedClient, "client_is_public")
	}
	scopes, err := is.Scopes.grantable(r.Scope, client.Scopes, func(s Scope) bool { return s.ServerTokens })
	if err != nil {
		return Grant{}, err
	}
	return Grant{Type: ClientCredentials, Client: client, Scopes: scopes}, nil
}
