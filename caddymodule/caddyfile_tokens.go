package caddymodule

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// parseTokens reads lifetimes, the issuer's or a client's.
func parseTokens(d *caddyfile.Dispenser, tokens **TokensConfig) error {
	if *tokens == nil {
		*tokens = new(TokensConfig)
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		if err := (*tokens).parseLifetime(d); err != nil {
			return err
		}
	}
	return nil
}

func (c *TokensConfig) parseLifetime(d *caddyfile.Dispenser) error {
	name := d.Val()
	lifetime, known := map[string]*caddy.Duration{
		"authorization_code": &c.AuthorizationCode, "client_credentials": &c.ClientCredentials, "password": &c.Password,
		"admin_created": &c.AdminCreated, "refresh": &c.Refresh, "refresh_idle": &c.RefreshIdle, "code": &c.Code,
	}[name]
	if name == "refresh_grace" {
		return c.parseRefreshGrace(d)
	}
	if !known {
		return d.Errf("unknown token lifetime %q", name)
	}
	if err := once(d, name, *lifetime != 0); err != nil {
		return err
	}
	duration, err := parseDuration(d)
	if err != nil {
		return err
	}
	if duration == 0 {
		return d.Errf("token lifetime %s 0s: use at least 1s", name)
	}
	*lifetime = caddy.Duration(duration)
	if _, err := c.lifetimes(); err != nil {
		return d.Errf("%v", err)
	}
	return nil
}

// parseRefreshGrace reads a duration, of which 0 says something, and who may repeat a refresh within it.
func (c *TokensConfig) parseRefreshGrace(d *caddyfile.Dispenser) error {
	if err := once(d, "refresh_grace", c.RefreshGrace != nil); err != nil {
		return err
	}
	args := d.RemainingArgs()
	if len(args) == 0 || len(args) > 2 {
		return d.ArgErr()
	}
	grace, err := durationOf(d, args[0])
	if err != nil {
		return err
	}
	if len(args) == 2 && args[1] != "same_address" {
		return d.Errf("unknown option %q of refresh_grace: use same_address", args[1])
	}
	duration := caddy.Duration(grace)
	c.RefreshGrace, c.RefreshGraceSameAddress = &duration, len(args) == 2
	if _, err := c.lifetimes(); err != nil {
		return d.Errf("%v", err)
	}
	return nil
}

func (a *App) parsePasswordGrant(d *caddyfile.Dispenser) error {
	if err := once(d, "password_grant", a.PasswordGrant != nil); err != nil {
		return err
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	a.PasswordGrant = new(PasswordGrantConfig)
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		if d.Val() != "refresh_tokens" {
			return d.Errf("unknown password_grant option %q", d.Val())
		}
		if d.NextArg() {
			return d.ArgErr()
		}
		a.PasswordGrant.RefreshTokens = true
	}
	return nil
}

func (a *App) parseScope(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) == 0 || len(args) > 2 {
		return d.ArgErr()
	}
	scope := ScopeConfig{Name: args[0]}
	if names, err := oauth.ParseScopes(scope.Name); err != nil || len(names) != 1 {
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
		if oauth.ActsForUser(scope.Name) {
			return d.Errf("scope %q acts for a user: a server token cannot hold it", scope.Name)
		}
		scope.ServerTokens = true
	}
	a.Scopes = append(a.Scopes, scope)
	return nil
}

// parseSessionScopes reads what the tokens of sessions hold.
func (a *App) parseSessionScopes(d *caddyfile.Dispenser) error {
	names := d.RemainingArgs()
	if len(names) == 0 {
		return d.ArgErr()
	}
	for _, name := range names {
		a.note(d, "session_scopes", name)
	}
	a.SessionScopes = append(a.SessionScopes, names...)
	return nil
}
