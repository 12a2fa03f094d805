package configuration

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// OpenID makes the issuer an OpenID provider. What an application gets is a matter of its client.
type OpenID struct {
	// AllowPrivateNetwork allows loopback, private and link-local addresses for the backchannel_logout_uri of clients, and plain http
	// on loopback. Default: those of the internet, and loopback where the URI itself names localhost or a loopback address.
	AllowPrivateNetwork bool `json:"allow_private_network,omitempty"`
}

// parseOpenID reads `openid`:
//
//	openid {
//		allow_private_network
//	}
func (b *Block) parseOpenID(d *caddyfile.Dispenser) error {
	if err := setting.Once(d, "openid", b.OpenID != nil); err != nil {
		return err
	}
	b.OpenID = new(OpenID)
	b.note(d, "openid")
	return options{"allow_private_network": flag(&b.OpenID.AllowPrivateNetwork)}.parseAlone(d, "openid has no option %q")
}

// openIDOptions are the lines of a client that speaks OpenID Connect. The words of ours name the client.
func (c *Client) openIDOptions(ours func(func(string) error) func(string) error) options {
	alone := func(registration func(value string) store.ClientOpenID) func(string) error {
		return ours(func(value string) error {
			registered := registration(value)
			return registered.Validate()
		})
	}
	return options{
		"id_token_alg": checkedText((*string)(&c.IDTokenAlgorithm), ours(func(name string) error {
			_, err := oauth.ParseAlgorithm(name)
			return err
		})),
		"post_logout_redirect_uris": checkedList(&c.PostLogoutRedirectURIs, alone(func(uri string) store.ClientOpenID {
			return store.ClientOpenID{PostLogoutRedirectURIs: []string{uri}}
		})),
		"backchannel_logout_uri": checkedText(&c.BackchannelLogoutURI, alone(func(uri string) store.ClientOpenID {
			return store.ClientOpenID{BackchannelLogoutURI: uri}
		})),
		"backchannel_logout_session_required": flag(&c.BackchannelLogoutSessionRequired),
	}
}
