package caddymodule

import (
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// parseTrust reads an issuer of somebody else's. What can be said of it without starting the server is said here, with its
// line.
func (a *App) parseTrust(d *caddyfile.Dispenser) error {
	var t TrustConfig
	if !d.Args(&t.Name, &t.Issuer) || d.NextArg() {
		return d.Errf("write it as `trust <name> <issuer> { … }`")
	}
	if err := checkTrustName(t.Name); err != nil {
		return d.Errf("%v", err)
	}
	for _, other := range a.Trust {
		if other.Name == t.Name {
			return d.Errf("trust %s is there twice", t.Name)
		}
	}
	a.note(d, "trust", t.Name)
	first := *d
	options := map[string]func(*caddyfile.Dispenser) error{
		"audience": func(d *caddyfile.Dispenser) error { return parseAudience(d, &t.Audience) },
		"algorithms": func(d *caddyfile.Dispenser) error {
			return parseWords(d, &t.Algorithms, func(name string) error {
				_, err := oauth.ParseTrustedAlgorithm(name)
				return err
			})
		},
		"typ":                   func(d *caddyfile.Dispenser) error { return parseWords(d, &t.Types, accesstoken.CheckTokenType) },
		"jwks_uri":              func(d *caddyfile.Dispenser) error { return parseSetting(d, &t.JWKSURI) },
		"roles_claim":           func(d *caddyfile.Dispenser) error { return parseClaimName(d, &t.RolesClaim) },
		"audience_from":         func(d *caddyfile.Dispenser) error { return parseWord(d, &t.AudienceFrom, audienceFromClient) },
		"max_stale":             func(d *caddyfile.Dispenser) error { return parsePositive(d, &t.MaxStale) },
		"introspection":         t.parseIntrospection,
		"allow_private_network": t.parsePrivateNetwork,
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		parse, ok := options[d.Val()]
		if !ok {
			return d.Errf("unknown trust option %q", d.Val())
		}
		if err := parse(d); err != nil {
			return err
		}
	}
	if err := t.check(); err != nil { // of the issuer as a whole: the line is its first
		return first.Errf("trust %s: %v", t.Name, err)
	}
	a.Trust = append(a.Trust, t)
	return nil
}

// check reads what needs no placeholder. The rest is known only when the server starts.
func (c TrustConfig) check() error {
	const known = "https://known-later.example"
	for _, value := range []*string{&c.Issuer, &c.JWKSURI} {
		if isPlaceholder(*value) {
			*value = known
		}
	}
	audience := c.Audience
	if c.Audience = nil; len(audience) > 0 {
		c.Audience = []string{known}
	}
	if c.Introspection != nil {
		introspection := IntrospectionConfig{known, known, known, c.Introspection.Cache}
		if !isPlaceholder(c.Introspection.Endpoint) {
			introspection.Endpoint = c.Introspection.Endpoint
		}
		if c.Introspection.ClientID == "" {
			introspection.ClientID = ""
		}
		c.Introspection = &introspection
	}
	_, err := c.read()
	return err
}

func (c *TrustConfig) parsePrivateNetwork(d *caddyfile.Dispenser) error {
	if d.NextArg() {
		return d.ArgErr()
	}
	c.AllowPrivateNetwork = true
	return nil
}

func (c *TrustConfig) parseIntrospection(d *caddyfile.Dispenser) error {
	if err := once(d, "introspection", c.Introspection != nil); err != nil {
		return err
	}
	c.Introspection = new(IntrospectionConfig)
	if err := parseSetting(d, &c.Introspection.Endpoint); err != nil {
		return err
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		var err error
		switch d.Val() {
		case "client":
			err = c.Introspection.parseClient(d)
		case "cache":
			err = parsePositive(d, &c.Introspection.Cache)
		default:
			err = d.Errf("unknown introspection option %q", d.Val())
		}
		if err != nil {
			return err
		}
	}
	if c.Introspection.ClientID == "" {
		return d.Errf("introspection needs the client that we are there: `client <id> <secret>`")
	}
	return nil
}

func (c *IntrospectionConfig) parseClient(d *caddyfile.Dispenser) error {
	if err := once(d, "client", c.ClientID != ""); err != nil {
		return err
	}
	if !d.AllArgs(&c.ClientID, &c.ClientSecret) {
		return d.ArgErr()
	}
	if c.ClientID == "" {
		return d.Errf("the client's id is empty; is a variable unset?")
	}
	if err := refuseRequest(d, c.ClientID); err != nil {
		return err
	}
	reference, err := parseReference(d, "introspection", "secret", c.ClientSecret)
	if err == nil && !reference {
		warnSubstituted(d, "secret of an introspection", c.ClientSecret, 2)
		caddy.Log().Named("oauth").Warn("the secret of an introspection stands in the configuration, which Caddy keeps in the clear "+
			"and shows at its admin endpoint: give it as {env.NAME} or {file./path}", zap.String("file", d.File()), zap.Int("line", d.Line()))
	}
	return err
}

// parseClaimName reads the name of a claim, or a path to one.
func parseClaimName(d *caddyfile.Dispenser, name *string) error {
	if err := text(d, name); err != nil {
		return err
	}
	return refusePlaceholders(d, []string{*name})
}

// parseWord reads the one word that an option may have.
func parseWord(d *caddyfile.Dispenser, value *string, word string) error {
	option := d.Val()
	if err := text(d, value); err != nil {
		return err
	}
	if *value != word {
		return d.Errf("%s %q: the one word for it is %s", option, *value, word)
	}
	return nil
}

// parseWords reads words that are known.
func parseWords(d *caddyfile.Dispenser, words *[]string, check func(string) error) error {
	if err := once(d, d.Val(), len(*words) > 0); err != nil {
		return err
	}
	if *words = d.RemainingArgs(); len(*words) == 0 {
		return d.ArgErr()
	}
	for _, word := range *words {
		if err := check(strings.TrimSpace(word)); err != nil {
			return d.Errf("%v", err)
		}
	}
	return nil
}

// parsePositive reads a duration above zero.
func parsePositive(d *caddyfile.Dispenser, value *caddy.Duration) error {
	name := d.Val()
	if err := once(d, name, *value != 0); err != nil {
		return err
	}
	duration, err := parseDuration(d)
	if err == nil && duration <= 0 {
		err = d.Errf("%s must be more than nothing", name)
	}
	*value = caddy.Duration(duration)
	return err
}
