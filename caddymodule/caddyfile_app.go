package caddymodule

import (
	"encoding/hex"
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

// oneArg returns the only argument of a line.
func oneArg(d *caddyfile.Dispenser) (string, error) {
	var value string
	if !d.AllArgs(&value) {
		return "", d.ArgErr()
	}
	if value == "" {
		return "", d.Errf("the value is empty; is a variable unset?")
	}
	return value, nil
}

// once refuses a setting that is there already.
func once(d *caddyfile.Dispenser, name string, isSet bool) error {
	if isSet {
		return d.Errf("%s is set twice", name)
	}
	return nil
}

// text reads a setting that is one text.
func text(d *caddyfile.Dispenser, value *string) (err error) {
	if err := once(d, d.Val(), *value != ""); err != nil {
		return err
	}
	*value, err = oneArg(d)
	return err
}

// refuseRequest refuses placeholders that a request would fill.
func refuseRequest(d *caddyfile.Dispenser, value string) error {
	if strings.Contains(value, "{http.request.uri.path.file.") { // what Caddy makes of it
		return d.Errf("in a site block {file.NAME} is a part of the request's path: use {env.NAME} or {file./path}")
	}
	if strings.Contains(value, "{http.") {
		return d.Errf("%s comes from the request: use {env.NAME} or {file./path}", value)
	}
	return nil
}

// isPlaceholder tells whether a value is known only when the server starts.
func isPlaceholder(value string) bool {
	return strings.Contains(value, "{") && strings.Contains(value, "}")
}

// isReference tells whether a value is a placeholder and nothing beside it, so that no part of a secret is written out.
func isReference(value string) bool {
	return strings.HasPrefix(value, "{") && strings.HasSuffix(value, "}")
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
				err = d.Errf("encrypt_with must not stand in the configuration: use {env.NAME} or {file./path}")
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

func parseDuration(d *caddyfile.Dispenser) (time.Duration, error) {
	value, err := oneArg(d)
	if err != nil {
		return 0, err
	}
	duration, err := caddy.ParseDuration(value)
	if err != nil {
		return 0, d.Errf("%q is no duration: write it as 90s, 15m, 2h or 28d", value)
	}
	return duration, nil
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
		return new(LimitConfig), nil
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

// parseClient reads a client; what can be said of it without starting the server is said here, with its line.
func (a *App) parseClient(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) == 0 || len(args) > 2 {
		return d.ArgErr()
	}
	client, first := ClientConfig{ID: args[0]}, *d
	for _, other := range a.Clients {
		if err := once(d, "client "+client.ID, other.ID == client.ID); err != nil {
			return err
		}
	}
	if len(args) == 2 {
		if err := client.parseSecret(d, args[1]); err != nil {
			return err
		}
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		if err := client.parseOption(d); err != nil {
			return err
		}
	}
	read := client
	if read.Secret != "" { // known only when the server starts; any digest will do for the check
		read.Secret, read.SecretSHA256 = "", strings.Repeat("0", 64)
	}
	c, err := read.read()
	if err == nil {
		err = c.Validate()
	}
	if err != nil { // of the client as a whole: the line is its first
		return first.Errf("client %s: %v", client.ID, err)
	}
	a.Clients = append(a.Clients, client)
	return nil
}

// parseSecret keeps a placeholder as it is, for Provision to resolve. A secret that is written out is kept as its
// SHA-256: Caddy shows its configuration to its administrators and saves it to disk.
func (c *ClientConfig) parseSecret(d *caddyfile.Dispenser, secret string) error {
	if secret == "" {
		return d.Errf("client %s: the secret is empty; is a variable unset?", c.ID)
	}
	if strings.Contains(secret, "-----BEGIN") {
		return d.Errf("client %s: this is a PEM file, not a client secret", c.ID)
	}
	if err := refuseRequest(d, secret); err != nil {
		return err
	}
	if isReference(secret) {
		c.Secret = secret
		return nil
	}
	if strings.Contains(secret, "{env.") || strings.Contains(secret, "{file.") {
		return d.Errf("client %s: a placeholder must be the whole secret", c.ID)
	}
	digest := tokenissuer.NewSecret(secret).Digest()
	c.SecretSHA256 = hex.EncodeToString(digest[:])
	return nil
}

func (c *ClientConfig) parseOption(d *caddyfile.Dispenser) error {
	list := func(values *[]string) error {
		args := d.RemainingArgs()
		if len(args) == 0 {
			return d.ArgErr()
		}
		*values = append(*values, args...)
		return nil
	}
	switch d.Val() {
	case "name":
		return text(d, &c.Name)
	case "type":
		return text(d, &c.Type)
	case "grants":
		return list(&c.Grants)
	case "scopes":
		return list(&c.Scopes)
	case "redirect_uris":
		return list(&c.RedirectURIs)
	case "first_party":
		if d.NextArg() {
			return d.ArgErr()
		}
		c.FirstParty = true
	case "tokens":
		return parseTokens(d, &c.Tokens)
	default:
		return d.Errf("unknown client option %q", d.Val())
	}
	return nil
}

// Interface guard.
var _ caddyfile.Unmarshaler = (*App)(nil)
