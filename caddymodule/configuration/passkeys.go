package configuration

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"golang.org/x/net/publicsuffix"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Passkeys are the settings of passkeys.
type Passkeys struct {
	// Off turns them off: none can be added, and none signs in alone. Those that people have remain second factors.
	Off bool `json:"off,omitempty"`
	// RelyingParty is the RP ID, for which passkeys are made (WebAuthn Level 3 §5.1.2): the issuer's host, or a parent domain of it that is no
	// public suffix. With another one, the passkeys that people have cannot be used. Default: the issuer's host.
	RelyingParty string `json:"relying_party,omitempty"`
}

// parsePasskeys reads:
//
//	passkeys [off] {
//		relying_party <domain>
//	}
func parsePasskeys(d *caddyfile.Dispenser, passkeys **Passkeys, at *Sources) error {
	if err := setting.Once(d, "passkeys", *passkeys != nil); err != nil {
		return err
	}
	at.note(d, "passkeys")
	c := orNew(passkeys)
	if d.NextArg() {
		if d.Val() != "off" {
			return d.Errf("passkeys %q: write `passkeys`, or `passkeys off`", d.Val())
		}
		c.Off = true
	}
	return options{"relying_party": checkedText(&c.RelyingParty, nil)}.parseAlone(d, "passkeys has no option %q")
}

// read sets the RP ID, and whether people can add passkeys. The issuer and the ways to sign in were read before.
func (c *Passkeys) read(s *Settings, at *Sources) error {
	if s.SignIn.Only {
		return nil
	}
	policy := &s.Issuer.Factors
	fail := func(err error) error { return at.At(fmt.Errorf("passkeys: %w", err), "passkeys") }
	u, err := url.Parse(s.Issuer.URL)
	if err != nil {
		return fail(err)
	}
	host := strings.ToLower(u.Hostname())
	offers := browsersOffer(u.Scheme, host)
	switch {
	case c == nil:
		policy.Passkeys = offers && s.SignIn.Password
	case !c.Off && !offers:
		return fail(fmt.Errorf("browsers offer none at %s: use a domain with https, or localhost by that name", s.Issuer.URL))
	default:
		policy.Passkeys = !c.Off
	}
	if offers {
		policy.RelyingParty = host
	}
	if c == nil || c.RelyingParty == "" {
		return nil
	}
	id, err := setting.Resolve("relying_party", c.RelyingParty)
	if err == nil {
		err = checkRelyingParty(id, host)
	}
	if err != nil {
		return fail(err)
	}
	if offers {
		policy.RelyingParty = id
	}
	return nil
}

// browsersOffer reports whether browsers offer passkeys at an origin: one of https or localhost, whose host is a domain.
func browsersOffer(scheme, host string) bool {
	_, err := netip.ParseAddr(host)
	return err != nil && (scheme == "https" || oauth.IsLoopback(host))
}

// checkRelyingParty refuses an RP ID with which no browser makes a passkey at the host.
func checkRelyingParty(id, host string) error {
	if id == host {
		return nil
	}
	if !strings.HasSuffix(host, "."+id) || id == "" {
		return fmt.Errorf("relying_party %q: use the issuer's host, %s, or a parent domain of it, in lower case", id, host)
	}
	if _, err := publicsuffix.EffectiveTLDPlusOne(id); err != nil {
		return errors.New("relying_party " + id + ": many sites share this public suffix, and browsers make no passkeys for it: use a domain of your own below it")
	}
	return nil
}
