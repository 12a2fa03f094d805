package configuration

import (
	"fmt"
	"slices"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// parseScope reads `scope <name> [<words>] { server_tokens }`.
func (b *Block) parseScope(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) == 0 || len(args) > 2 {
		return d.ArgErr()
	}
	scope := oauth.Scope{Name: args[0]}
	if len(args) == 2 {
		scope.Words = args[1]
	}
	if err := checkScope(scope); err != nil {
		return d.Errf("%v", err)
	}
	taken := slices.ContainsFunc(b.Scopes, func(other oauth.Scope) bool { return other.Name == scope.Name })
	if err := setting.Once(d, "scope "+scope.Name, taken); err != nil {
		return err
	}
	err := options{"server_tokens": func(d *caddyfile.Dispenser) error {
		if err := flag(&scope.ServerTokens)(d); err != nil {
			return err
		}
		if err := checkScope(scope); err != nil {
			return d.Errf("%v", err)
		}
		return nil
	}}.parse(d, "unknown scope option %q")
	b.Scopes = append(b.Scopes, scope)
	return err
}

func checkScope(scope oauth.Scope) error {
	if names, err := oauth.ParseScopes(scope.Name); err != nil || len(names) != 1 {
		return fmt.Errorf("scope %q: use one name of visible ASCII without quotes and backslashes", scope.Name)
	}
	if scope.ServerTokens && oauth.ActsForUser(scope.Name) {
		return fmt.Errorf("scope %q acts for a user: a server token cannot hold it", scope.Name)
	}
	return nil
}

// parseSessionScopes reads what the tokens of sessions hold. Which scopes there are is known only when every block has been
// read.
func (b *Block) parseSessionScopes(d *caddyfile.Dispenser) error {
	before := len(b.SessionScopes)
	err := checkedList(&b.SessionScopes, nil)(d)
	for _, name := range b.SessionScopes[before:] {
		b.note(d, "session_scopes", name)
	}
	return err
}

// readScopes reads which scopes there are, and which of them sessions have.
func (b *Block) readScopes(s *Settings) error {
	seen := make(map[string]bool)
	for _, scope := range b.Scopes {
		if err := checkScope(scope); err != nil {
			return err
		}
		if seen[scope.Name] {
			return fmt.Errorf("scope %q is declared twice", scope.Name)
		}
		seen[scope.Name] = true
		if s.OpenID && scope.ServerTokens && oauth.IsOpenIDScope(scope.Name) {
			return b.at(fmt.Errorf("scope %q acts for a user where openid is on: a server token cannot hold it", scope.Name), "openid")
		}
	}
	s.Scopes = oauth.NewScopeCatalogue(b.Scopes...)
	if s.OpenID {
		s.Scopes = s.Scopes.WithOpenID()
	}
	for _, name := range b.SessionScopes {
		if name == oauth.ScopeRefreshToken || name == oauth.ScopeOfflineAccess {
			return b.at(fmt.Errorf("session_scopes %s: a session needs no refresh token", name), "session_scopes", name)
		}
		if err := s.Scopes.Check(oauth.Scopes{name}); err != nil {
			return b.at(fmt.Errorf("session_scopes: %w", err), "session_scopes", name)
		}
	}
	return nil
}
