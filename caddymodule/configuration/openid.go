package configuration

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
)

// OpenID makes the issuer an OpenID provider. What an application gets is set at its client.
type OpenID struct {
	// AllowPrivateNetwork allows loopback, private and link-local addresses for the backchannel_logout_uri of clients, and plain http
	// on loopback. Default: addresses of the internet, and loopback if the URI itself names localhost or a loopback address.
	AllowPrivateNetwork bool `json:"allow_private_network,omitempty"`
}

// parseOpenID reads `openid`:
//
//	openid {
//		allow_private_network
//	}
func parseOpenID(d *caddyfile.Dispenser, openID **OpenID, at *Sources) error {
	if err := setting.Once(d, "openid", *openID != nil); err != nil {
		return err
	}
	at.note(d, "openid")
	return options{"allow_private_network": flag(&orNew(openID).AllowPrivateNetwork)}.parseAlone(d, "openid has no option %q")
}
