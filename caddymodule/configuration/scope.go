package configuration

import (
	"fmt"
	"slices"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// parseScope reads `scope <name> [<words>] { server_tokens }`.
func parseScope(d *caddyfile.Dispenser, scopes *[]oauth.Scope, _ *Sources) error {
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
	taken := slices.ContainsFunc(*scopes, func(other oauth.Scope) bool { return other.Name == scope.Name })
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
	*scopes = append(*scopes, scope)
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

// scopes returns the option for a list of scopes, and notes the position of each: which scopes are declared is known only when every block
// has been read. The words name the setting.
func (s *Sources) scopes(scopes *[]string, words ...string) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error {
		before := len(*scopes)
		err := checkedList(scopes, nil)(d)
		for _, name := range (*scopes)[before:] {
			s.note(d, append(slices.Clone(words), name)...)
		}
		return err
	}
}

// checkScopes refuses a scope that is not declared, in a list whose positions were noted under these words.
func (s *Sources) checkScopes(known oauth.ScopeCatalogue, scopes []string, words ...string) error {
	for _, name := range scopes {
		if err := known.Check(oauth.Scopes{name}); err != nil {
			return s.At(fmt.Errorf("%s: %w", words[0], err), append(slices.Clone(words), name)...)
		}
	}
	return nil
}

// readScopes reads the declared scopes and the scopes of sessions.
func readScopes(declared []oauth.Scope, ofSessions []string, s *Settings, at *Sources) error {
	seen := make(map[string]bool)
	for _, scope := range declared {
		if err := checkScope(scope); err != nil {
			return err
		}
		if seen[scope.Name] {
			return fmt.Errorf("scope %q is declared twice", scope.Name)
		}
		seen[scope.Name] = true
		if s.Issuer.OpenID && scope.ServerTokens && oauth.IsOpenIDScope(scope.Name) {
			return at.At(fmt.Errorf("scope %q acts for a user where openid is on: a server token cannot hold it", scope.Name), "openid")
		}
	}
	s.Issuer.Scopes = oauth.NewScopeCatalogue(declared...)
	if s.Issuer.OpenID {
		s.Issuer.Scopes = s.Issuer.Scopes.WithOpenID()
	}
	for _, name := range ofSessions {
		if name == oauth.ScopeRefreshToken || name == oauth.ScopeOfflineAccess {
			return at.At(fmt.Errorf("session_scopes %s: a session needs no refresh token", name), "session_scopes", name)
		}
	}
	return at.checkScopes(s.Issuer.Scopes, ofSessions, "session_scopes")
}
