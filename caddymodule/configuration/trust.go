package configuration

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate"
	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/trust"
)

// Trust is another issuer, whose tokens a `protect` may accept.
type Trust struct {
	// Name is the issuer's name in `protect`.
	Name string `json:"name"`
	// Issuer is its issuer identifier. The iss of its tokens must be the same bytes.
	Issuer string `json:"issuer"`
	// Audience are the accepted audiences of its tokens. Required, because an issuer also issues tokens for other resources, unless an
	// `accept` names it: there the audience is our own issuer.
	Audience []string `json:"audience,omitempty"`
	// Algorithms are the accepted signature algorithms. Default: RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512 and EdDSA.
	// Others are never accepted.
	Algorithms []string `json:"algorithms,omitempty"`
	// JWKSURI is the URL of its keys. Default: that of its metadata, which must be on its own host.
	JWKSURI string `json:"jwks_uri,omitempty"`
	// Types are the accepted values of typ: `at+jwt`, and for issuers that do not follow RFC 9068 `JWT` or `none`. Tokens with the
	// latter two must look like access tokens otherwise. Default: at+jwt.
	Types []string `json:"types,omitempty"`
	// RolesClaim is the claim with a user's roles, or a path to it: `realm_access.roles`. `require role` and X-Auth-Role use it.
	// Default: role.
	RolesClaim string `json:"roles_claim,omitempty"`
	// AudienceFrom is `client_id` for an issuer whose access tokens have no aud: the audience of such a token is the client that it
	// names, and Audience lists clients. Default: a token without aud is refused.
	AudienceFrom string `json:"audience_from,omitempty"`
	// MaxStale is how long its tokens are accepted while its keys cannot be fetched. Default: 24 hours.
	MaxStale caddy.Duration `json:"max_stale,omitempty"`
	// Introspection asks the issuer about tokens that are not JWTs. Default: such tokens are refused.
	Introspection *Introspection `json:"introspection,omitempty"`
	// AllowPrivateNetwork allows loopback, private and link-local addresses of the issuer, and plain http on loopback.
	AllowPrivateNetwork bool `json:"allow_private_network,omitempty"`
}

// audienceFromClient is the value of AudienceFrom.
const audienceFromClient = "client_id"

// parseTrust reads another issuer. It checks all that does not depend on placeholders, so that errors name the line.
//
//	trust <name> <issuer> {
//		audience              <audience>...
//		algorithms            RS256 | ES256 | EdDSA...
//		typ                   at+jwt | JWT | none...
//		jwks_uri              <url>
//		roles_claim           <claim>
//		audience_from         client_id
//		max_stale             <duration>
//		introspection <url> {
//			client <id> <secret>
//			cache  <duration>
//		}
//		allow_private_network
//	}
func parseTrust(d *caddyfile.Dispenser, issuers *[]Trust, at *Sources) error {
	var c Trust
	if !d.Args(&c.Name, &c.Issuer) || d.NextArg() {
		return d.Errf("write it as `trust <name> <issuer> { … }`")
	}
	if err := checkTrustName(c.Name); err != nil {
		return d.Errf("%v", err)
	}
	if slices.ContainsFunc(*issuers, func(other Trust) bool { return other.Name == c.Name }) {
		return d.Errf("trust %s is there twice", c.Name)
	}
	at.note(d, "trust", c.Name)
	first := *d
	err := options{
		"audience": func(d *caddyfile.Dispenser) error { return setting.Audience(d, &c.Audience) },
		"algorithms": func(d *caddyfile.Dispenser) error {
			return parseWords(d, &c.Algorithms, func(name string) error {
				_, err := oauth.ParseTrustedAlgorithm(name)
				return err
			})
		},
		"typ":                   func(d *caddyfile.Dispenser) error { return parseWords(d, &c.Types, token.CheckTokenType) },
		"jwks_uri":              func(d *caddyfile.Dispenser) error { return setting.TextOrPlaceholder(d, &c.JWKSURI) },
		"roles_claim":           c.parseRolesClaim,
		"audience_from":         checkedText(&c.AudienceFrom, oneWord("audience_from", audienceFromClient)),
		"max_stale":             func(d *caddyfile.Dispenser) error { return parsePositive(d, &c.MaxStale) },
		"introspection":         c.parseIntrospection,
		"allow_private_network": flag(&c.AllowPrivateNetwork),
	}.parse(d, "unknown trust option %q")
	if err != nil {
		return err
	}
	if _, err := c.read(standIn); err != nil { // concerns the issuer as a whole: the error names its first line
		return first.Errf("trust %s: %v", c.Name, err)
	}
	*issuers = append(*issuers, c)
	return nil
}

// parseRolesClaim reads the name of a claim, or a path to one.
func (c *Trust) parseRolesClaim(d *caddyfile.Dispenser) error {
	if err := setting.Text(d, &c.RolesClaim); err != nil {
		return err
	}
	return setting.RefusePlaceholders(d, []string{c.RolesClaim})
}

// parseWords reads words that pass a check.
func parseWords(d *caddyfile.Dispenser, words *[]string, check func(string) error) error {
	if err := setting.Once(d, d.Val(), len(*words) > 0); err != nil {
		return err
	}
	return checkedList(words, func(word string) error { return check(strings.TrimSpace(word)) })(d)
}

// parsePositive reads a duration above zero.
func parsePositive(d *caddyfile.Dispenser, value *caddy.Duration) error {
	name := d.Val()
	err := parseOnce(d, value)
	if err == nil && *value <= 0 {
		err = d.Errf("%s must be more than nothing", name)
	}
	return err
}

// TrustedIssuer are the values of a Trust.
type TrustedIssuer struct {
	Name string
	// Audience are the accepted audiences at gates; none: it is trusted only for `accept`, where the audience is our own issuer.
	Audience []string
	Settings trust.Settings
}

// readTrust reads the trusted issuers, which must differ. One that an accept rule names needs no audience.
func readTrust(issuers []Trust, rules []Accept, s *Settings, at *Sources) error {
	for _, c := range issuers {
		t, err := c.read(setting.Resolve)
		same := slices.IndexFunc(s.Trusted, func(o TrustedIssuer) bool { return o.Settings.Issuer == t.Settings.Issuer })
		switch {
		case err != nil:
			err = fmt.Errorf("trust %s: %w", c.Name, err)
		case len(t.Audience) == 0 && !slices.ContainsFunc(rules, func(a Accept) bool { return a.Trust == c.Name }):
			err = fmt.Errorf("trust %s: audience is missing: say which of its tokens are meant for us", c.Name)
		case t.Settings.Issuer == s.Issuer.URL:
			err = fmt.Errorf("trust %s: %s is our own issuer: `protect` calls it self", c.Name, s.Issuer.URL)
		case same >= 0:
			err = fmt.Errorf("trust %s: trust %s has the same issuer", c.Name, s.Trusted[same].Name)
		case slices.ContainsFunc(s.Trusted, func(o TrustedIssuer) bool { return o.Name == t.Name }):
			err = fmt.Errorf("trust %s is there twice", c.Name)
		}
		if err != nil {
			return at.At(err, "trust", c.Name)
		}
		s.Trusted = append(s.Trusted, t)
	}
	return nil
}

func (c *Trust) read(lookup lookup) (t TrustedIssuer, err error) {
	t = TrustedIssuer{Name: c.Name, Settings: trust.Settings{
		AllowPrivateNetwork: c.AllowPrivateNetwork, Types: c.Types, RolesClaim: c.RolesClaim, ClientAudience: c.AudienceFrom != "",
	}}
	if err := checkTrustName(c.Name); err != nil {
		return t, err
	}
	if t.Settings.Issuer, err = c.readURL("issuer", c.Issuer, lookup); err != nil {
		return t, err
	}
	for _, configured := range c.Audience {
		audience, err := lookup("audience", configured)
		if err != nil {
			return t, err
		}
		t.Audience = append(t.Audience, audience)
	}
	if c.JWKSURI != "" {
		if t.Settings.JWKSURI, err = c.readURL("jwks_uri", c.JWKSURI, lookup); err != nil {
			return t, err
		}
	}
	for _, name := range c.Algorithms {
		algorithm, err := oauth.ParseTrustedAlgorithm(name)
		if err != nil {
			return t, err
		}
		t.Settings.Algorithms = append(t.Settings.Algorithms, algorithm)
	}
	for _, name := range c.Types {
		if err := token.CheckTokenType(name); err != nil {
			return t, err
		}
	}
	if err := oneWord("audience_from", audienceFromClient)(c.AudienceFrom); err != nil {
		return t, err
	}
	if t.Settings.MaxStale, err = positive("max_stale", c.MaxStale); err != nil {
		return t, err
	}
	t.Settings.Introspection, err = c.readIntrospection(lookup)
	return t, err
}

// oneWord returns a check that refuses every word of a setting except one.
func oneWord(name, known string) func(string) error {
	return func(word string) error {
		if word != "" && word != known {
			return fmt.Errorf("%s %q: the one word for it is %s", name, word, known)
		}
		return nil
	}
}

// checkTrustName refuses names that have another meaning in `protect`.
func checkTrustName(name string) error {
	if name == "" || name == gate.Self || strings.ContainsAny(name, " \t\"{}:/|@") {
		return fmt.Errorf("%q is no name for a trusted issuer", name)
	}
	return nil
}

// readURL returns a URL of the issuer after checkTrustedURL.
func (c *Trust) readURL(what, configured string, lookup lookup) (string, error) {
	location, err := lookup(what, configured)
	if err != nil {
		return "", err
	}
	return location, checkTrustedURL(what, location, c.AllowPrivateNetwork)
}

// checkTrustedURL holds the URLs of an issuer to RFC 8414 §2 and §3: https. Plain http is for loopback only, and only where
// private addresses are allowed.
func checkTrustedURL(what, text string, private bool) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Opaque != "" || u.User != nil || strings.Contains(text, "#") {
		return fmt.Errorf("%s %q is no URL: write it as https://login.example.com/…", what, text)
	}
	if what == "issuer" && strings.Contains(text, "?") {
		return fmt.Errorf("issuer %q must have no query", text)
	}
	switch {
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http" && private && oauth.IsLoopback(u.Hostname()):
		return nil
	case u.Scheme == "http" && oauth.IsLoopback(u.Hostname()):
		return fmt.Errorf("%s %q: a loopback address needs allow_private_network", what, text)
	}
	return fmt.Errorf("%s %q must be https", what, text)
}

// positive returns a duration; zero means the default.
func positive(what string, d caddy.Duration) (time.Duration, error) {
	if d < 0 {
		return 0, fmt.Errorf("%s %s must be more than nothing", what, time.Duration(d))
	}
	return time.Duration(d), nil
}
