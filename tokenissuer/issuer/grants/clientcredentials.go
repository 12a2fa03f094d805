package grants

import (
	"context"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// clientCredentials is the client credentials grant (RFC 6749 §4.4): a confidential client obtains a token for itself. It gives no refresh
// token (§4.4.3), and only scopes that need no user.
type clientCredentials struct{ rights }

func (g *clientCredentials) exchange(_ context.Context, client *store.Client, r Request) (issuer.Grant, error) {
	if client.IsPublic() {
		return issuer.Grant{}, oauth.NewError(oauth.UnauthorizedClient, "client_is_public")
	}
	scopes, err := g.scopes.Grantable(r.Scope, client.Scopes, func(s oauth.Scope) bool { return s.ServerTokens })
	if err != nil {
		return issuer.Grant{}, err
	}
	audience, err := g.resources.Audience(r.Resources, nil)
	if err != nil {
		return issuer.Grant{}, err
	}
	return issuer.Grant{Type: oauth.ClientCredentials, Client: client, Scopes: scopes, Audience: audience}, nil
}
