package configuration

import (
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// PersonalTokens turns personal access tokens on. People create them on the account page, and operators create them for service accounts.
type PersonalTokens struct {
	// Scopes are the scopes that tokens can hold. Default: public, trusted and the session_scopes, as a browser session.
	Scopes []string `json:"scopes,omitempty"`
	// Lifetime is the default lifetime of a token: 1m to 400d, default 90d.
	Lifetime caddy.Duration `json:"lifetime,omitempty"`
	// LongestLifetime bounds the lifetime that can be chosen: 1m to 400d, default 365d.
	LongestLifetime caddy.Duration `json:"longest_lifetime,omitempty"`
	// Roles and Groups restrict who may have tokens. The tokens of a user who leaves all of them stop working. Service accounts are not
	// restricted. Default: all users.
	Roles  []store.Role `json:"roles,omitempty"`
	Groups []string     `json:"groups,omitempty"`
	// OperatorsOnly reports that only operators create tokens. The account page then lists and ends tokens only.
	OperatorsOnly bool `json:"operators_only,omitempty"`
}

// parsePersonalTokens reads:
//
//	personal_tokens {
//		scopes   <scope>...
//		lifetime <duration> [<longest>]
//		roles    <role>...
//		groups   <group>...
//		operators_only
//	}
func parsePersonalTokens(d *caddyfile.Dispenser, tokens **PersonalTokens, at *Sources) error {
	at.note(d, "personal_tokens")
	c := orNew(tokens)
	roles := make([]string, 0, len(c.Roles))
	err := options{
		"scopes": checkedList(&c.Scopes, nil), "roles": checkedList(&roles, nil), "groups": checkedList(&c.Groups, nil), "lifetime": c.parseLifetime,
		"operators_only": flag(&c.OperatorsOnly),
	}.parseAlone(d, "unknown personal_tokens option %q")
	for _, name := range roles {
		c.Roles = append(c.Roles, store.Role(name))
	}
	return err
}

func (c *PersonalTokens) parseLifetime(d *caddyfile.Dispenser) error {
	if err := setting.Once(d, "lifetime", c.Lifetime != 0); err != nil {
		return err
	}
	args := d.RemainingArgs()
	if len(args) == 0 || len(args) > 2 {
		return d.ArgErr()
	}
	for i, value := range []*caddy.Duration{&c.Lifetime, &c.LongestLifetime}[:len(args)] {
		duration, err := setting.DurationOf(d, args[i])
		if err != nil {
			return err
		}
		*value = caddy.Duration(duration)
	}
	if _, err := c.lifetimes(); err != nil {
		return d.Errf("%v", err)
	}
	return nil
}

// lifetimes returns the default and the longest lifetime.
func (c *PersonalTokens) lifetimes() (r people.TokenRules, err error) {
	r.Lifetime, r.Longest = time.Duration(c.Lifetime), time.Duration(c.LongestLifetime)
	if r.Longest == 0 {
		r.Longest = max(people.DefaultLongest, r.Lifetime)
	}
	if r.Lifetime == 0 {
		r.Lifetime = min(people.DefaultTokenLifetime, r.Longest)
	}
	if r.Lifetime < time.Minute || r.Longest > people.MostLifetime || r.Lifetime > r.Longest {
		return r, fmt.Errorf("personal_tokens: lifetime %s, and %s where it is asked for: use 1m to %s, and the usual one first",
			store.FormatBound(r.Lifetime), store.FormatBound(r.Longest), store.FormatBound(people.MostLifetime))
	}
	return r, nil
}

func (c *PersonalTokens) read(s *Settings, at *Sources) error {
	if c == nil {
		return nil
	}
	fail := func(err error) error { return at.At(fmt.Errorf("personal_tokens: %w", err), "personal_tokens") }
	rules, err := c.lifetimes()
	if err != nil {
		return at.At(err, "personal_tokens")
	}
	for _, name := range c.Scopes {
		if oauth.AsksForRefresh(name) || oauth.IsOpenIDScope(name) {
			return fail(fmt.Errorf("scope %s is for applications: a personal access token is never refreshed, and no sign-in", name))
		}
	}
	if err := s.Issuer.Scopes.Check(c.Scopes); err != nil {
		return fail(err)
	}
	for _, role := range c.Roles {
		if err := s.Issuer.Roles.Check(role); err != nil {
			return fail(err)
		}
	}
	if err := store.ValidateGroups(c.Groups); err != nil {
		return fail(err)
	}
	rules.Scopes, rules.Roles, rules.Groups, rules.OperatorsOnly = c.Scopes, c.Roles, c.Groups, c.OperatorsOnly
	s.PersonalTokens = &rules
	return nil
}
