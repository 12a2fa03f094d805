package caddymodule

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

func init() { httpcaddyfile.RegisterGlobalOption("oauth", parseGlobalOption) }

// parseGlobalOption reads the global option `oauth`, whose grammar stands at the parsers of its lines. Several blocks, as
// imported files have them, become one.
func parseGlobalOption(d *caddyfile.Dispenser, existing any) (any, error) {
	app := new(App)
	if earlier, ok := existing.(httpcaddyfile.App); ok {
		if err := json.Unmarshal(earlier.Value, app); err != nil {
			return nil, d.WrapErr(err)
		}
	}
	if err := app.UnmarshalCaddyfile(d); err != nil {
		return nil, err
	}
	return httpcaddyfile.App{Name: "oauth", Value: caddyconfig.JSON(app, nil)}, nil
}

// UnmarshalCaddyfile reads one block.
func (a *App) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the option
	if d.NextArg() {
		return d.ArgErr()
	}
	a.note(d, "oauth")
	return options{
		"issuer": a.parseIssuer, "audience": a.parseAudience, "store": a.parseStore, "keys": a.parseKeys, "tokens": tokensOption(&a.Tokens),
		"password_grant": a.parsePasswordGrant, "pkce": checkedText(&a.PKCE, oauth.CheckPKCE), "session_scopes": a.parseSessionScopes,
		"scope": a.parseScope, "client": a.parseClient, "role": a.parseRole, "organisation": a.parseOrganisation, "user": a.parseUser,
		"trust": a.parseTrust, "revocation": a.parseRevocation, "limits": a.parseLimits, "brand": a.parseBrand,
	}.parse(d, "unknown oauth option %q")
}

// settings is a configuration that has been read.
type settings struct {
	tokenissuer.Settings // of our own issuer; without a URL there is none
	tokenissuer.Limits   // likewise; the node counts
	node                 node.Settings
	sealer               *keys.Sealer
	brand                pages.Brand
	trusted              []*trustedIssuer
	gateLimit            tokenissuer.Limit
}

// read turns the configuration into values, and says what is wrong with it.
func (a *App) read() (settings, error) {
	s := settings{Settings: tokenissuer.Settings{
		SessionScopes: a.SessionScopes, PasswordGrant: a.PasswordGrant, PKCERequired: a.PKCE == oauth.PKCERequired,
	}}
	if a.Issuer == "" && len(a.Trust) > 0 {
		return s, errors.Join(a.checkGateOnly(), a.readTrust(&s), a.readLimits(&s), a.readRoles(&s))
	}
	steps := []func(*settings) error{
		a.readIssuer, a.readTrust, a.readStore, a.readKeys, a.readTokens, a.readScopes, a.readRoles, a.readDirectory, a.readRevocation, a.readLimits, a.readBrand,
	}
	for _, step := range steps {
		if err := step(&s); err != nil {
			return s, err
		}
	}
	return s, nil
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

// note keeps where a setting stands, of which more is known when all blocks have been read or the server starts. The words
// name the setting; of several places the first counts.
func (a *App) note(d *caddyfile.Dispenser, words ...string) {
	name, source := strings.Join(words, " "), setting.Source(d)
	if _, noted := a.Sources[name]; noted || source == "" {
		return
	}
	if a.Sources == nil {
		a.Sources = make(map[string]string)
	}
	a.Sources[name] = source
}

// at adds to an error where a setting stands that was noted.
func (a *App) at(err error, words ...string) error {
	return setting.At(err, a.Sources[strings.Join(words, " ")])
}

// Interface guard.
var _ caddyfile.Unmarshaler = (*App)(nil)
