package tokenissuer

import (
	"context"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// exchangeClientCredentials is the client credentials grant (RFC 6749 §4.4): a confidential client asks for a token
// for itself. There is never a refresh token (§4.4.3), and only scopes that need no user.
func (is *Issuer) exchangeClientCredentials(_ context.Context, client *store.Client, r TokenRequest) (Grant, error) {
	if client.IsPublic() {
		return Grant{}, oauth.NewError(oauth.UnauthorizedClient, "client_is_public")
	}
	scopes, err := is.Scopes.Grantable(r.Scope, client.Scopes, func(s oauth.Scope) bool { return s.ServerTokens })
	if err != nil {
		return Grant{}, err
	}
	audience, err := is.Resources.Audience(r.Resources, nil)
	if err != nil {
		return Grant{}, err
	}
	return Grant{Type: oauth.ClientCredentials, Client: client, Scopes: scopes, Audience: audience}, nil
}
