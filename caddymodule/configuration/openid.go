package configuration

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
)

// OpenID makes the issuer an OpenID provider. It has no settings of its own: what an application gets is a matter of its client.
type OpenID struct{}

// parseOpenID reads `openid`.
func (b *Block) parseOpenID(d *caddyfile.Dispenser) error {
	if err := setting.Once(d, "openid", b.OpenID != nil); err != nil {
		return err
	}
	b.OpenID = new(OpenID)
	b.note(d, "openid")
	return options{}.parseAlone(d, "openid has no option %q")
}
