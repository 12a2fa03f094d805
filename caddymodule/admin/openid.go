package admin

import (
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// clientOpenID is how a client takes part in OpenID Connect, in the words of client metadata.
type clientOpenID struct {
	IDTokenAlgorithm                 oauth.Algorithm `json:"id_token_signed_response_alg,omitzero"`
	PostLogoutRedirectURIs           []string        `json:"post_logout_redirect_uris,omitempty"`
	BackchannelLogoutURI             string          `json:"backchannel_logout_uri,omitzero"`
	BackchannelLogoutSessionRequired bool            `json:"backchannel_logout_session_required,omitzero"`
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
