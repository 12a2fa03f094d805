package configuration

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/trust"
)

// Introspection are the settings for the introspection of an issuer's tokens (RFC 7662).
type Introspection struct {
	// Endpoint is the introspection endpoint.
	Endpoint string `json:"endpoint"`
	// ClientID is our client id at the issuer.
	ClientID string `json:"client_id"`
	// ClientSecret is our client secret at the issuer. Give it as a placeholder to keep it out of the configuration.
	ClientSecret string `json:"client_secret"`
	// Cache is how long an answer is remembered. A token that the issuer has revoked passes until then. Default: 30 seconds.
	Cache caddy.Duration `json:"cache,omitempty"`
}

// parseIntrospection reads:
//
//	introspection <url> {
//		client <id> <secret>
//		cache  <duration>
//	}
func (c *Trust) parseIntrospection(d *caddyfile.Dispenser) error {
	if err := setting.Once(d, "introspection", c.Introspection != nil); err != nil {
		return err
	}
	i := orNew(&c.Introspection)
	if err := setting.TextOrPlaceholder(d, &i.Endpoint); err != nil {
		return err
	}
	err := options{
		"client": i.parseClient,
		"cache":  func(d *caddyfile.Dispenser) error { return parsePositive(d, &i.Cache) },
	}.parse(d, "unknown introspection option %q")
	if err == nil && i.ClientID == "" {
		err = d.Errf("introspection needs the client that we are there: `client <id> <secret>`")
	}
	return err
}

func (c *Introspection) parseClient(d *caddyfile.Dispenser) error {
	if err := setting.Once(d, "client", c.ClientID != ""); err != nil {
		return err
	}
	return parseClientThere(d, "an introspection", &c.ClientID, &c.ClientSecret)
}

func (c *Trust) readIntrospection(lookup lookup) (i *trust.Introspection, err error) {
	if c.Introspection == nil {
		return nil, nil
	}
	i = new(trust.Introspection)
	if i.Endpoint, err = c.readURL("introspection", c.Introspection.Endpoint, lookup); err != nil {
		return nil, err
	}
	if i.ClientID, err = lookup("introspection client", c.Introspection.ClientID); err != nil {
		return nil, err
	}
	secret, err := lookup("introspection client secret", c.Introspection.ClientSecret)
	if err != nil {
		return nil, err
	}
	i.ClientSecret = oauth.NewSecret(secret)
	i.CacheFor, err = positive("cache", c.Introspection.Cache)
	return i, err
}
