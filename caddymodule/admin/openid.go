package admin

import (
	"errors"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var (
	errOpenIDOff   = store.InvalidInput(errors.New("the issuer is no OpenID provider: add `openid` to the oauth block first"))
	errNoRedirects = store.InvalidInput(errors.New("an application that signs people in needs a redirect URI: it shows one where it is set up"))
)

// suitOpenID adds the scopes of OpenID Connect to a client, and the grants if the request has none.
func (t *Target) suitOpenID(c *store.Client) error {
	if !t.Issuer.OpenID {
		return errOpenIDOff
	}
	scopes := oauth.Scopes{oauth.ScopeOpenID, oauth.ScopeProfile, oauth.ScopeEmail, oauth.ScopeOfflineAccess}
	for _, name := range c.Scopes {
		if !slices.Contains(scopes, name) {
			scopes = append(scopes, name)
		}
	}
	c.Scopes = scopes
	if len(c.Grants) == 0 {
		c.Grants = []oauth.GrantType{oauth.AuthorizationCode, oauth.RefreshTokenGrant}
	}
	if slices.Contains(c.Grants, oauth.AuthorizationCode) && len(c.RedirectURIs) == 0 {
		return errNoRedirects
	}
	return nil
}

// OpenIDProvider are the members of the issuer's metadata that an application needs.
type OpenIDProvider struct {
	Discovery     string `json:"discovery"`
	Issuer        string `json:"issuer"`
	Authorization string `json:"authorization_endpoint"`
	Token         string `json:"token_endpoint"`
	UserInfo      string `json:"userinfo_endpoint"`
	EndSession    string `json:"end_session_endpoint"`
	JWKS          string `json:"jwks_uri"`
}

func (t *Target) provider() (*OpenIDProvider, error) {
	view := &OpenIDProvider{Discovery: t.DiscoveryURL}
	return view, json.Unmarshal(t.Metadata, view)
}
