package caddymodule

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

func init() { httpcaddyfile.RegisterGlobalOption("oauth", parseGlobalOption) }

// parseGlobalOption reads the global option `oauth`. Several blocks, as imported files have them, become one.
//
//	oauth {
//		issuer       <url>
//		audience     <audience>...
//		store        sqlite [<path>] | memory
//		keys {
//			algorithm    ES256 | RS256 | EdDSA
//			encrypt_with <key>
//		}
//		tokens {
//			authorization_code | client_credentials | password | admin_created <duration>
//		}
//		scope <name> [<words>] {
//			server_tokens
//		}
//		client <id> [<secret>] {
//			name          <name>
//			type          confidential | public | native
//			grants        <grant>...
//			scopes        <scope>...
//			redirect_uris <uri>...
//			first_party
//			tokens { … }
//		}
//		revocation {
//			max_staleness <duration>
//		}
//		limits {
//			client <failures>/<window> per ip | off
//		}
//	}
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

// UnmarshalCaddyfile reads one block; see parseGlobalOption for the grammar.
func (a *App) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the option
	if d.NextArg() {
		return d.ArgErr()
	}
	options := map[string]func(*caddyfile.Dispenser) error{
		"issuer": a.parseIssuer, "audience": a.parseAudience, "store": a.parseStore, "keys": a.parseKeys,
		"tokens": func(d *caddyfile.Dispenser) error { return parseTokens(d, &a.Tokens) },
		"scope":  a.parseScope, "client": a.parseClient, "revocation": a.parseRevocation, "limits": a.parseLimits,
	}
	for d.NextBlock(0) {
		parse, ok := options[d.Val()]
		if !ok {
			return d.Errf("unknown oauth option %q", d.Val())
		}
		if err := parse(d); err != nil {
			return err
		}
	}
	return nil
}

func (a *App) parseIssuer(d *caddyfile.Dispenser) error {
	if err := once(d, "issuer", a.Issuer != ""); err != nil {
		return err
	}
	value, err := oneArg(d)
	if err != nil {
		return err
	}
	if err := refuseRequest(d, value); err != nil {
		return err
	}
	if !isPlaceholder(value) {
		if _, err := checkIssuer(value); err != nil {
			return d.Errf("%v", err)
		}
	}
	a.Issuer = value
	return nil
}

func (a *App) parseAudience(d *caddyfile.Dispenser) error { return parseAudience(d, &a.Audience) }

func parseAudience(d *caddyfile.Dispenser, audience *[]string) error {
	values := d.RemainingArgs()
	if len(values) == 0 {
		return d.ArgErr()
	}
	for _, value := range values {
		if value == "" {
			return d.Errf("an audience must not be empty")
		}
		if err := refuseRequest(d, value); err != nil {
			return err
		}
	}
	*audience = append(*audience, values...)
	return nil
}

func (a *App) parseStore(d *caddyfile.Dispenser) error {
	if err := once(d, "store", a.Store != nil); err != nil {
		return err
	}
	args := d.RemainingArgs()
	if len(args) == 0 {
		return d.ArgErr()
	}
	switch args[0] {
	case storeSQLite:
		if len(args) > 2 {
			return d.ArgErr()
		}
	case storeMemory:
		if len(args) > 1 {
			return d.ArgErr()
		}
	default:
		return d.Errf("unknown store %q: use sqlite or memory", args[0])
	}
	a.Store = &StoreConfig{Type: args[0]}
	if len(args) == 2 {
		if a.Store.Path = args[1]; args[1] == "" {
			return d.Errf("the store's path is empty; is a variable unset?")
		}
		return refuseRequest(d, args[1])
	}
	return nil
}

func (a *App) parseKeys(d *caddyfile.Dispenser) error {
	if a.Keys == nil {
		a.Keys = new(KeysConfig)
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		var err error
		switch d.Val() {
		case "algorithm":
			if err = text(d, &a.Keys.Algorithm); err == nil {
				if _, unknown := tokenissuer.ParseAlgorithm(a.Keys.Algorithm); unknown != nil {
					err = d.Errf("%v", unknown)
				}
			}
		case "encrypt_with":
			if err = text(d, &a.Keys.EncryptWith); err == nil {
				err = refuseRequest(d, a.Keys.EncryptWith)
			}
			if err == nil && !isReference(a.Keys.EncryptWith) {
				err = d.Errf("%v", errLiteralKey)
			}
		default:
			err = d.Errf("unknown keys option %q", d.Val())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func parseTokens(d *caddyfile.Dispenser, tokens **TokensConfig) error {
	if *tokens == nil {
		*tokens = new(TokensConfig)
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	lifetimes := map[string]*caddy.Duration{
		"authorization_code": &(*tokens).AuthorizationCode, "client_credentials": &(*tokens).ClientCredentials,
		"password": &(*tokens).Password, "admin_created": &(*tokens).AdminCreated,
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		lifetime, ok := lifetimes[d.Val()]
		if !ok {
			return d.Errf("unknown token lifetime %q", d.Val())
		}
		if err := once(d, d.Val(), *lifetime != 0); err != nil {
			return err
		}
		duration, err := parseDuration(d)
		if err != nil {
			return err
		}
		if err := (tokenissuer.Lifetimes{ClientCredentials: duration}).Validate(); err != nil || duration == 0 {
			return d.Errf("token lifetime %s: use 1s to 35d", duration)
		}
		*lifetime = caddy.Duration(duration)
	}
	return nil
}

func (a *App) parseScope(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) == 0 || len(args) > 2 {
		return d.ArgErr()
	}
	scope := ScopeConfig{Name: args[0]}
	if names, err := tokenissuer.ParseScopes(scope.Name); err != nil || len(names) != 1 {
		return d.Errf("scope %q: use one name of visible ASCII without quotes and backslashes", scope.Name)
	}
	for _, other := range a.Scopes {
		if err := once(d, "scope "+scope.Name, other.Name == scope.Name); err != nil {
			return err
		}
	}
	if len(args) == 2 {
		scope.Words = args[1]
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		if d.Val() != "server_tokens" {
			return d.Errf("unknown scope option %q", d.Val())
		}
		if d.NextArg() {
			return d.ArgErr()
		}
		if tokenissuer.ActsForUser(scope.Name) {
			return d.Errf("scope %q acts for a user: a server token cannot hold it", scope.Name)
		}
		scope.ServerTokens = true
	}
	a.Scopes = append(a.Scopes, scope)
	return nil
}

func (a *App) parseRevocation(d *caddyfile.Dispenser) error {
	if a.Revocation == nil {
		a.Revocation = new(RevocationConfig)
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		if d.Val() != "max_staleness" {
			return d.Errf("unknown revocation option %q", d.Val())
		}
		if err := once(d, "max_staleness", a.Revocation.MaxStaleness != 0); err != nil {
			return err
		}
		duration, err := parseDuration(d)
		if err != nil {
			return err
		}
		if duration < leastStaleness {
			return d.Errf("max_staleness %s: use at least %s, for the store is read once a second", duration, leastStaleness)
		}
		a.Revocation.MaxStaleness = caddy.Duration(duration)
	}
	return nil
}

func (a *App) parseLimits(d *caddyfile.Dispenser) error {
	if a.Limits == nil {
		a.Limits = new(LimitsConfig)
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		if d.Val() != "client" {
			return d.Errf("unknown limit %q", d.Val())
		}
		if err := once(d, "limits client", a.Limits.Client != nil); err != nil {
			return err
		}
		limit, err := parseLimit(d)
		if err != nil {
			return err
		}
		a.Limits.Client = limit
	}
	return nil
}

// parseLimit reads `<failures>/<window> per ip`, or `off`.
func parseLimit(d *caddyfile.Dispenser) (*LimitConfig, error) {
	args := d.RemainingArgs()
	if len(args) == 1 && args[0] == "off" {
		return &LimitConfig{Off: true}, nil
	}
	if len(args) != 3 || !strings.Contains(args[0], "/") || args[1] != "per" || args[2] != "ip" {
		return nil, d.Errf("write a limit as `client 20/1m per ip`, or as `client off`")
	}
	count, window, _ := strings.Cut(args[0], "/")
	failures, err := strconv.Atoi(count)
	if err != nil || failures < 1 {
		return nil, d.Errf("%q is no number of failures", count)
	}
	duration, err := caddy.ParseDuration(window)
	if err != nil || duration < time.Second {
		return nil, d.Errf("%q is no window: write it as 30s, 1m or 1h", window)
	}
	return &LimitConfig{Failures: failures, Window: caddy.Duration(duration)}, nil
}

// Interface guard.
var _ caddyfile.Unmarshaler = (*App)(nil)
