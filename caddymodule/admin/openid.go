package admin

import (
	"errors"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/registry"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// clientOpenID is how a client takes part in OpenID Connect, in the words of client metadata.
type clientOpenID struct {
	IDTokenAlgorithm                 oauth.Algorithm `json:"id_token_signed_response_alg,omitzero"`
	PostLogoutRedirectURIs           []string        `json:"post_logout_redirect_uris,omitempty"`
	BackchannelLogoutURI             string          `json:"backchannel_logout_uri,omitzero"`
	BackchannelLogoutSessionRequired bool            `json:"backchannel_logout_session_required,omitzero"`
	ResponseModes                    []string        `json:"response_modes,omitempty"`
	DefaultMaxAge                    *int64          `json:"default_max_age,omitzero"`
}

// openID returns how the client takes part with the members that are there in place of those before; nil when there are none.
func (m *clientMembers) openID(before store.ClientOpenID) *store.ClientOpenID {
	if m.IDTokenAlgorithm == nil && m.PostLogoutRedirectURIs == nil && m.BackchannelLogoutURI == nil && m.BackchannelLogoutSessionRequired == nil {
		return nil
	}
	changed := before
	setTo(&changed.IDTokenAlgorithm, m.IDTokenAlgorithm)
	setTo(&changed.PostLogoutRedirectURIs, m.PostLogoutRedirectURIs)
	setTo(&changed.BackchannelLogoutURI, m.BackchannelLogoutURI)
	setTo(&changed.BackchannelLogoutSessionRequired, m.BackchannelLogoutSessionRequired)
	return &changed
}

var (
	errOpenIDOff   = registry.InvalidInput(errors.New("the issuer is no OpenID provider: add `openid` to the oauth block first"))
	errNoRedirects = registry.InvalidInput(errors.New("an application that signs people in needs a redirect URI: it shows one where it is set up"))
)

// suitOpenID adds what an application needs that signs people in: the scopes, beside those of the request, and the grants, unless the
// request has some.
func (n *newClient) suitOpenID(t *Target) error {
	if !t.Issuer.OpenID {
		return errOpenIDOff
	}
	scopes := []string{oauth.ScopeOpenID, oauth.ScopeProfile, oauth.ScopeEmail, oauth.ScopeOfflineAccess}
	if n.Scopes != nil {
		for _, name := range *n.Scopes {
			if !slices.Contains(scopes, name) {
				scopes = append(scopes, name)
			}
		}
	}
	n.Scopes = &scopes
	if n.Grants == nil {
		n.Grants = &[]oauth.GrantType{oauth.AuthorizationCode, oauth.RefreshTokenGrant}
	}
	if slices.Contains(*n.Grants, oauth.AuthorizationCode) && (n.RedirectURIs == nil || len(*n.RedirectURIs) == 0) {
		return errNoRedirects
	}
	return nil
}

// OpenIDProvider is what an application has to know of the issuer, from its metadata.
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
