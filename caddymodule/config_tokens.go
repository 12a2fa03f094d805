package caddymodule

import (
	"errors"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TokensConfig holds lifetimes: of access tokens by the grant that they come from, 1s to 35 days, and of what they are
// refreshed or exchanged with.
type TokensConfig struct {
	// AuthorizationCode: default 6h. It is also the life of a browser session's own token.
	AuthorizationCode caddy.Duration `json:"authorization_code,omitempty"`
	// ClientCredentials: default 2h.
	ClientCredentials caddy.Duration `json:"client_credentials,omitempty"`
	// Password: default 28d.
	Password caddy.Duration `json:"password,omitempty"`
	// AdminCreated: default 28d.
	AdminCreated caddy.Duration `json:"admin_created,omitempty"`
	// Refresh is how long after the sign-in tokens can be refreshed, however often they are: 1s to 400 days, default 90d.
	Refresh caddy.Duration `json:"refresh,omitempty"`
	// RefreshIdle is how long may lie between two refreshes: 1s to 400 days, default 30d.
	RefreshIdle caddy.Duration `json:"refresh_idle,omitempty"`
	// RefreshGrace is how long after its use a refresh token gives the same successor again, to a client whose answer was
	// lost: at most 5m, default 30s. 0 turns it off: then a client that repeats a refresh loses all of its tokens.
	RefreshGrace *caddy.Duration `json:"refresh_grace,omitempty"`
	// RefreshGraceSameAddress makes a repeat within the grace a reuse too, when it comes from another address or by another
	// family of user agents than the refresh. Default: it is served, with a warning in the audit log.
	RefreshGraceSameAddress bool `json:"refresh_grace_same_address,omitempty"`
	// Code is how long an authorization code can be redeemed: 1s to 10m, default 60s.
	Code caddy.Duration `json:"code,omitempty"`
}

// lifetimes returns the core's form of what is set, and refuses what is out of bounds.
func (c *TokensConfig) lifetimes() (store.Lifetimes, error) {
	if c == nil {
		return store.Lifetimes{}, nil
	}
	l := store.Lifetimes{
		AuthorizationCode: time.Duration(c.AuthorizationCode),
		ClientCredentials: time.Duration(c.ClientCredentials),
		Password:          time.Duration(c.Password),
		AdminCreated:      time.Duration(c.AdminCreated),
		Refresh:           time.Duration(c.Refresh),
		RefreshIdle:       time.Duration(c.RefreshIdle),
		Code:              time.Duration(c.Code),
		SameAddress:       c.RefreshGraceSameAddress,
	}
	if c.RefreshGrace != nil {
		switch grace := time.Duration(*c.RefreshGrace); {
		case grace < 0:
			return l, errors.New("token lifetime refresh_grace: use 0 to 5m")
		case grace == 0 && c.RefreshGraceSameAddress:
			return l, errors.New("token lifetime refresh_grace: 0 refuses every repeat, leave same_address out")
		case grace == 0:
			l.RefreshGrace = store.NoGrace
		default:
			l.RefreshGrace = grace
		}
	}
	return l, l.Validate()
}

func (a *App) readTokens(s *settings) error {
	own, err := a.Tokens.lifetimes()
	if err != nil {
		return err
	}
	s.lifetimes = own.Or(store.DefaultLifetimes)
	if _, err := readPKCE(a.PKCE); err != nil {
		return err
	}
	if a.PasswordGrant != nil {
		s.passwordGrant = &tokenissuer.PasswordRules{Refresh: a.PasswordGrant.RefreshTokens}
	}
	return nil
}

// PasswordGrantConfig turns the password grant on. It is for clients that cannot open a browser: whoever uses it types a
// password into an application that is not ours.
type PasswordGrantConfig struct {
	// RefreshTokens gives refresh tokens too, to clients that may use them. Default: the grant gives access tokens only.
	RefreshTokens bool `json:"refresh_tokens,omitempty"`
}

// ScopeConfig declares a scope.
type ScopeConfig struct {
	// Name as it stands in requests and tokens (RFC 6749 §3.3).
	Name string `json:"name"`
	// Words tell a person what it allows.
	Words string `json:"words,omitempty"`
	// ServerTokens lets tokens that act for no user hold it. Default: only `public` may be held by them.
	ServerTokens bool `json:"server_tokens,omitempty"`
}

func (a *App) readScopes(s *settings) error {
	declared := make([]oauth.Scope, 0, len(a.Scopes))
	seen := make(map[string]bool)
	for _, c := range a.Scopes {
		if names, err := oauth.ParseScopes(c.Name); err != nil || len(names) != 1 {
			return fmt.Errorf("scope %q: use one name of visible ASCII without quotes and backslashes", c.Name)
		}
		if seen[c.Name] {
			return fmt.Errorf("scope %q is declared twice", c.Name)
		}
		if c.ServerTokens && oauth.ActsForUser(c.Name) {
			return fmt.Errorf("scope %q acts for a user: a server token cannot hold it", c.Name)
		}
		seen[c.Name] = true
		declared = append(declared, oauth.Scope{Name: c.Name, Words: c.Words, ServerTokens: c.ServerTokens})
	}
	s.scopes = oauth.NewScopeCatalogue(declared...)
	for _, name := range a.SessionScopes {
		if name == oauth.ScopeRefreshToken || name == oauth.ScopeOfflineAccess {
			return a.at(fmt.Errorf("session_scopes %s: a session needs no refresh token", name), "session_scopes", name)
		}
		if err := s.scopes.Check(oauth.Scopes{name}); err != nil {
			return a.at(fmt.Errorf("session_scopes: %w", err), "session_scopes", name)
		}
	}
	return nil
}
