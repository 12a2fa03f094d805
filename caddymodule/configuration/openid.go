package configuration

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
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
