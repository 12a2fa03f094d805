package rule

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/requestpath"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// Input is a request with a verified token, for rules to check.
type Input struct {
	Request *http.Request
	Exam    requestpath.Exam
	// Token of the caller; nil: nobody has shown one yet.
	Token *token.AccessToken
	// Own: our own issuer issued the token.
	Own bool
	// Now is the clock by which the age of the sign-in counts.
	Now func() time.Time

	readings []*http.Request // see allReadings
}

// allReadings returns the readings of the request. It computes them on first use: most rules need none.
func (e *Input) allReadings() []*http.Request {
	if e.readings == nil {
		e.readings = requestpath.Readings(e.Request, e.Exam)
	}
	return e.readings
}

// Check checks the token against every rule that applies to some reading of the request. It returns the error of the first
// rule that refuses it, and what the token lacks, for the audit log. With an ambiguous path, every rule applies.
func Check(rules []*Rule, e Input) (missing string, err error) {
	for _, rule := range rules {
		if !e.applies(rule) {
			continue
		}
		if err := rule.check(&e); err != nil {
			return rule.missing(e.Token), e.withSignIn(rules, err)
		}
	}
	return "", nil
}

// ScopesNeeded lists the scopes that the request needs: those of the route and of every applicable rule. For a rule that
// accepts one of several scopes it lists those that the token has, so that a client which requests the list keeps them,
// or all if the token has none. It returns "" if no rule has scopes.
func ScopesNeeded(rules []*Rule, route []string, e Input) string {
	if !slices.ContainsFunc(rules, func(rule *Rule) bool { return len(rule.Scopes)+len(rule.AnyScope) > 0 }) {
		return ""
	}
	needed := slices.Clone(route)
	for _, rule := range rules {
		if len(rule.Scopes)+len(rule.AnyScope) == 0 || !e.applies(rule) {
			continue
		}
		several := rule.AnyScope
		if e.Token != nil && slices.ContainsFunc(several, e.Token.Scopes.Has) {
			several = slices.DeleteFunc(slices.Clone(several), func(name string) bool { return !e.Token.Scopes.Has(name) })
		}
		needed = slices.Concat(needed, rule.Scopes, several)
	}
	return oauth.Scopes(oauth.ResourceScopes(needed)).String()
}

func (e *Input) applies(rule *Rule) bool {
	return e.Exam.Ambiguous || len(rule.matchers) == 0 || rule.appliesTo(e.allReadings())
}

// check returns an error if the token does not satisfy the rule.
func (r *Rule) check(e *Input) error {
	t := e.Token
	switch {
	case len(r.Scopes) > 0:
		if missing := t.Scopes.Missing(r.Scopes...); missing != "" {
			return oauth.MissingScope(missing)
		}
	case len(r.AnyScope) > 0:
		if !slices.ContainsFunc(r.AnyScope, t.Scopes.Has) {
			return oauth.MissingScope(oauth.Scopes(r.AnyScope).String())
		}
	case len(r.Users)+len(r.EmailDomains) > 0:
		return r.checkPerson(e)
	case len(r.Roles) > 0:
		if e.Own && t.IsServerToken() || !t.HasClaim("role", r.Roles) {
			return oauth.NewError(oauth.AccessDenied, "role_missing")
		}
	case len(r.Groups) > 0:
		if !t.HasClaim("groups", r.Groups) {
			return oauth.NewError(oauth.AccessDenied, "group_missing")
		}
	case r.Claim != "":
		if !t.HasClaim(r.Claim, r.Values) {
			return oauth.NewError(oauth.AccessDenied, "claim_missing")
		}
	case r.expression != nil:
		return r.expression.check(e)
	default:
		return r.checkSignIn(e)
	}
	return nil
}

// missing describes, in the words of the Caddyfile, what the token lacks, for the audit log. It omits claim values, which
// may be personal, the users of a rule, and the text of an expression: either may come from a {$VARIABLE}.
func (r *Rule) missing(t *token.AccessToken) string {
	switch {
	case len(r.Scopes) > 0:
		return "scope " + t.Scopes.Missing(r.Scopes...)
	case len(r.AnyScope) > 0:
		return "any_scope " + strings.Join(r.AnyScope, " ")
	case len(r.Users) > 0:
		return "user"
	case len(r.EmailDomains) > 0:
		return "email_domain " + strings.Join(r.EmailDomains, " ")
	case len(r.Roles) > 0:
		return "role " + strings.Join(r.Roles, " ")
	case len(r.Groups) > 0:
		return "group " + strings.Join(r.Groups, " ")
	case r.Claim != "":
		return "claim " + r.Claim
	case r.Expression != "":
		return "expression"
	case len(r.ACR) > 0:
		return "acr " + strings.Join(r.ACR, " ")
	}
	return "max_age " + time.Duration(r.MaxAge).String()
}
