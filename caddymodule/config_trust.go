package caddymodule

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/trust"
)

// TrustConfig is an issuer of somebody else's, whose tokens a `protect` may take.
type TrustConfig struct {
	// Name is what `protect` calls it.
	Name string `json:"name"`
	// Issuer is its issuer identifier: what iss must be in its tokens, byte for byte.
	Issuer string `json:"issuer"`
	// Audience that its tokens must be meant for: one of these. Required, for an issuer makes tokens for others too.
	Audience []string `json:"audience,omitempty"`
	// Algorithms its keys may be used for. Default: RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512 and EdDSA.
	// Others are never accepted.
	Algorithms []string `json:"algorithms,omitempty"`
	// JWKSURI is where its keys are. Default: its metadata says so, and then on its own host only.
	JWKSURI string `json:"jwks_uri,omitempty"`
	// Types are what typ may be in its access tokens: `at+jwt`, and for issuers that do not follow RFC 9068 `JWT` or `none`.
	// Tokens with the latter two must look like access tokens otherwise. Default: at+jwt.
	Types []string `json:"types,omitempty"`
	// RolesClaim is the claim of its tokens that has a user's roles, or a path to it: `realm_access.roles`. It is then what
	// `require role` and X-Auth-Role go by. Default: role.
	RolesClaim string `json:"roles_claim,omitempty"`
	// AudienceFrom is `client_id` for an issuer whose access tokens have no aud: those without any are then meant for the client
	// that they name, and Audience lists clients. Default: a token without aud is refused.
	AudienceFrom string `json:"audience_from,omitempty"`
	// MaxStale is how long its tokens are taken while its keys cannot be fetched again. Default: 24 hours.
	MaxStale caddy.Duration `json:"max_stale,omitempty"`
	// Introspection asks the issuer about tokens that are no JWT. Default: such tokens are refused.
	Introspection *IntrospectionConfig `json:"introspection,omitempty"`
	// AllowPrivateNetwork lets the issuer be at a loopback, private or link-local address, and on loopback without TLS.
	AllowPrivateNetwork bool `json:"allow_private_network,omitempty"`
}

// IntrospectionConfig is how an issuer is asked about tokens (RFC 7662).
type IntrospectionConfig struct {
	// Endpoint is the introspection endpoint.
	Endpoint string `json:"endpoint"`
	// ClientID is what we are called there.
	ClientID string `json:"client_id"`
	// ClientSecret is our secret there. Give it as a placeholder, so that it is not in the configuration.
	ClientSecret string `json:"client_secret"`
	// Cache is how long an answer stands: a token that was ended there passes for so long. Default: 30 seconds.
	Cache caddy.Duration `json:"cache,omitempty"`
}

// audienceFromClient has a token without aud be meant for its client.
const audienceFromClient = "client_id"

// trustSettings are a TrustConfig that has been read.
type trustSettings struct {
	name     string
	audience []string
	settings trust.Settings
}

func (a *App) readTrust(s *settings) error {
	seen := make(map[string]string)
	for _, c := range a.Trust {
		t, err := c.read()
		switch other, twice := seen[t.settings.Issuer]; {
		case err != nil:
			err = fmt.Errorf("trust %s: %w", c.Name, err)
		case t.settings.Issuer == s.issuer:
			err = fmt.Errorf("trust %s: %s is our own issuer: `protect` calls it self", c.Name, s.issuer)
		case twice:
			err = fmt.Errorf("trust %s: trust %s has the same issuer", c.Name, other)
		case slices.ContainsFunc(s.trusted, func(o trustSettings) bool { return o.name == t.name }):
			err = fmt.Errorf("trust %s is there twice", c.Name)
		}
		if err != nil {
			return a.at(err, "trust", c.Name)
		}
		seen[t.settings.Issuer] = t.name
		s.trusted = append(s.trusted, t)
	}
	return nil
}

func (c TrustConfig) read() (t trustSettings, err error) {
	if t.name, err = c.Name, checkTrustName(c.Name); err != nil {
		return t, err
	}
	t.settings = trust.Settings{AllowPrivateNetwork: c.AllowPrivateNetwork, Types: c.Types}
	if t.settings.Issuer, err = resolve("issuer", c.Issuer); err != nil {
		return t, err
	}
	if err := checkTrustedURL("issuer", t.settings.Issuer, c.AllowPrivateNetwork); err != nil {
		return t, err
	}
	if len(c.Audience) == 0 {
		return t, errors.New("audience is missing: say which of its tokens are meant for us")
	}
	if t.audience, err = resolveAll("audience", c.Audience); err != nil {
		return t, err
	}
	if c.JWKSURI != "" {
		if t.settings.JWKSURI, err = resolve("jwks_uri", c.JWKSURI); err != nil {
			return t, err
		}
		if err := checkTrustedURL("jwks_uri", t.settings.JWKSURI, c.AllowPrivateNetwork); err != nil {
			return t, err
		}
	}
	for _, name := range c.Algorithms {
		algorithm, err := oauth.ParseTrustedAlgorithm(name)
		if err != nil {
			return t, err
		}
		t.settings.Algorithms = append(t.settings.Algorithms, algorithm)
	}
	for _, name := range c.Types {
		if err := accesstoken.CheckTokenType(name); err != nil {
			return t, err
		}
	}
	if c.AudienceFrom != "" && c.AudienceFrom != audienceFromClient {
		return t, fmt.Errorf("audience_from %q: the one word for it is %s", c.AudienceFrom, audienceFromClient)
	}
	t.settings.RolesClaim, t.settings.ClientAudience = c.RolesClaim, c.AudienceFrom != ""
	if t.settings.MaxStale, err = positive("max_stale", c.MaxStale); err != nil {
		return t, err
	}
	return t, c.Introspection.read(&t.settings)
}

func (c *IntrospectionConfig) read(s *trust.Settings) (err error) {
	if c == nil {
		return nil
	}
	i := new(trust.Introspection)
	if i.Endpoint, err = resolve("introspection", c.Endpoint); err != nil {
		return err
	}
	if err := checkTrustedURL("introspection", i.Endpoint, s.AllowPrivateNetwork); err != nil {
		return err
	}
	if i.ClientID, err = resolve("introspection client", c.ClientID); err != nil {
		return err
	}
	secret, err := resolve("introspection client secret", c.ClientSecret)
	if err != nil {
		return err
	}
	i.ClientSecret = oauth.NewSecret(secret)
	if i.CacheFor, err = positive("cache", c.Cache); err != nil {
		return err
	}
	s.Introspection = i
	return nil
}

// checkTrustName refuses names that mean something else where a name is written.
func checkTrustName(name string) error {
	if name == "" || name == selfIssuer || strings.ContainsAny(name, " \t\"{}:/|@") {
		return fmt.Errorf("%q is no name for a trusted issuer", name)
	}
	return nil
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

// positive reads a duration; zero: the default is meant.
func positive(what string, d caddy.Duration) (time.Duration, error) {
	if d < 0 {
		return 0, fmt.Errorf("%s %s must be more than nothing", what, time.Duration(d))
	}
	return time.Duration(d), nil
}

// checkGateOnly refuses settings that only an issuer has.
func (a *App) checkGateOnly() error {
	for _, set := range []struct {
		name string
		is   bool
	}{
		{"audience", len(a.Audience) > 0}, {"store", a.Store != nil}, {"keys", a.Keys != nil}, {"tokens", a.Tokens != nil},
		{"password_grant", a.PasswordGrant != nil}, {"pkce", a.PKCE != ""}, {"session_scopes", len(a.SessionScopes) > 0}, {"scope", len(a.Scopes) > 0},
		{"client", len(a.Clients) > 0}, {"organisation", len(a.Organisations) > 0}, {"user", len(a.Users) > 0},
		{"limits other than for the gate", a.Limits != nil && *a.Limits != LimitsConfig{Gate: a.Limits.Gate}}, {"brand", a.Brand != nil}, {"revocation", a.Revocation != nil},
	} {
		if set.is {
			return a.at(fmt.Errorf("%s needs an issuer: add `issuer https://…` to the oauth block", set.name), "oauth")
		}
	}
	return nil
}
