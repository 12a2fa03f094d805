package rule

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/requestpath"
)

// Rule is one `require`: what a token must have for the matching requests. Exactly one of Scopes, AnyScope, Users,
// EmailDomains, Roles, Groups, Claim, Expression, ACR and MaxAge is set.
type Rule struct {
	// MatcherSets select the requests that the rule applies to; none: all.
	MatcherSets caddyhttp.RawMatcherSets `json:"match,omitempty" caddy:"namespace=http.matchers"`
	// Scopes lists scopes that the token must all have.
	Scopes []string `json:"scopes,omitempty"`
	// AnyScope lists scopes; the token must have at least one of them.
	AnyScope []string `json:"any_scope,omitempty"`
	// Users lists ids and e-mail addresses of users; the token must act for one of them. What has an @ is an address, and
	// counts only if the issuer has verified it. Our access tokens have no address; sessions of browsers do.
	Users []string `json:"users,omitempty"`
	// EmailDomains lists domains; the user's verified e-mail address must be of one of them, and not of a domain below it.
	EmailDomains []string `json:"email_domains,omitempty"`
	// Roles lists declared roles; the user must have one of them. A client_credentials token has none.
	Roles []string `json:"roles,omitempty"`
	// Groups lists groups; the user must belong to one of them. Our tokens list groups only with the scope groups.
	Groups []string `json:"groups,omitempty"`
	// Claim is the name of a claim that must have one of Values. An absent claim has none.
	Claim string `json:"claim,omitempty"`
	// Values are the accepted values of Claim, as the text of a string, a number or a boolean.
	Values []string `json:"values,omitempty"`
	// Expression is a CEL expression, as in Caddy's matcher `expression`, that must be true. The placeholders
	// {http.auth.user.*} describe the token.
	Expression string `json:"expression,omitempty"`
	// ACR lists authentication context classes; the user must have signed in with one of them (RFC 9470 §4).
	ACR []string `json:"acr,omitempty"`
	// MaxAge is the maximum time since the sign-in, in whole seconds (RFC 9470 §4).
	MaxAge caddy.Duration `json:"max_age,omitempty"`
	// Source is the position of an expression in the Caddyfile, as file:line, for errors.
	Source string `json:"source,omitempty"`

	users           []string // Users, as they are compared
	domains         []string // EmailDomains, as they are compared
	matchers        caddyhttp.MatcherSets
	exact           caddyhttp.MatcherSets // matchers, as appliesTo asks them: see exactly
	readQuery       bool                  // a matcher may read the query
	readPlaceholder bool                  // a matcher may read the method or the host by a placeholder
	expression      *expression
}

// Provision checks the rule, and loads its matchers and its expression.
func (r *Rule) Provision(ctx caddy.Context) error {
	kinds := 0
	for _, set := range []bool{
		len(r.Scopes) > 0, len(r.AnyScope) > 0, len(r.Users) > 0, len(r.EmailDomains) > 0, len(r.Roles) > 0, len(r.Groups) > 0, r.Claim != "", r.Expression != "", len(r.ACR) > 0, r.MaxAge != 0,
	} {
		if set {
			kinds++
		}
	}
	if kinds != 1 {
		return errors.New("a rule needs one of scopes, any_scope, users, email_domains, roles, groups, claim, expression, acr and max_age")
	}
	if r.Claim != "" && len(r.Values) == 0 {
		return fmt.Errorf("require claim %s needs a value", r.Claim)
	}
	if err := errors.Join(checkACR(r.ACR), checkMaxAge(r.MaxAge)); err != nil {
		return err
	}
	var err error
	if r.users, err = canonicalUsers(r.Users); err != nil {
		return err
	}
	if r.domains, err = canonicalDomains(r.EmailDomains); err != nil {
		return err
	}
	r.readQuery = slices.ContainsFunc(r.MatcherSets, mayReadQuery)
	r.readPlaceholder = slices.ContainsFunc(r.MatcherSets, mayReadPlaceholder)
	raw := r.MatcherSets // loading them drops it
	if r.matchers, err = loadMatchers(ctx, r, "MatcherSets", raw); err != nil {
		return err
	}
	if r.exact, err = exactly(raw, r.matchers, false); err != nil || r.Expression == "" {
		return err
	}
	r.expression, err = newExpression(ctx, r.Expression, r.Source)
	return err
}

// Matchers select the requests that the rule applies to; none: all. Call it after Provision.
func (r *Rule) Matchers() caddyhttp.MatcherSets { return r.matchers }

// mayReadQuery reports whether a matcher of the set may read the query: any but those known not to.
func mayReadQuery(set caddy.ModuleMap) bool {
	for name := range set {
		switch name {
		case "path", "path_regexp", "method", "host", "header", "header_regexp", "protocol", "remote_ip", "client_ip", "tls",
			"oauth_scope", "oauth_claim":
		default:
			return true
		}
	}
	return false
}

// loadMatchers loads matcher sets from a field of a struct.
func loadMatchers(ctx caddy.Context, owner any, field string, raw caddyhttp.RawMatcherSets) (caddyhttp.MatcherSets, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	loaded, err := ctx.LoadModule(owner, field)
	if err != nil {
		return nil, fmt.Errorf("loading matchers: %w", err)
	}
	var sets caddyhttp.MatcherSets
	return sets, sets.FromInterface(loaded)
}

// exactly returns matcher sets such that what a `not` excludes, or if spares is true what is within no `not` or within two, has a path that matches
// as configured. Caddy folds case, so that `not path /pub/*` would spare /PUB/x, which is another file to many upstreams.
func exactly(raw caddyhttp.RawMatcherSets, sets caddyhttp.MatcherSets, spares bool) (exact caddyhttp.MatcherSets, err error) {
	for i, set := range sets {
		set = slices.Clone(set)
		for n, matcher := range set {
			not, ok := matcher.(*caddyhttp.MatchNot)
			if !ok {
				continue
			}
			var inner caddyhttp.RawMatcherSets
			if err := json.Unmarshal(raw[i]["not"], &inner); err != nil {
				return nil, err
			}
			within, err := exactly(inner, not.MatcherSets, !spares)
			if err != nil {
				return nil, err
			}
			set[n] = &caddyhttp.MatchNot{MatcherSets: within}
		}
		if patterns := raw[i]["path"]; spares && patterns != nil {
			var matcher exactPath
			if err := json.Unmarshal(patterns, &matcher); err != nil {
				return nil, err
			}
			set = append(set, matcher)
		}
		exact = append(exact, set)
	}
	return exact, nil
}

// exactPath are path patterns that match with their case.
type exactPath []string

// MatchWithError implements caddyhttp.RequestMatcherWithError.
func (m exactPath) MatchWithError(r *http.Request) (bool, error) {
	return requestpath.MatchesCase(m, r.URL.Path), nil
}

// appliesTo reports whether the rule applies to the request in any of its readings; the first is the request itself. A rule applies
// if a matcher fails, cannot parse the query, or may see another method or host than an upstream.
func (r *Rule) appliesTo(readings []*http.Request) bool {
	if len(r.matchers) == 0 || r.readQuery && requestpath.IsQueryMalformed(readings[0].URL.RawQuery) ||
		r.readPlaceholder && misleadsPlaceholders(readings[0]) {
		return true
	}
	for _, reading := range readings {
		if match, err := matchReading(readings[0], reading, r.exact.AnyMatchWithError); match || err != nil {
			return true
		}
	}
	return false
}
