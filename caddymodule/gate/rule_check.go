package gate

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/caller"
	"github.com/gatehouse-auth/gatehouse/caddymodule/requestpath"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// ruleInput is what the rules of a route are checked against.
type ruleInput struct {
	gate     *Protect
	token    *accesstoken.AccessToken
	exam     requestpath.Exam
	request  *http.Request
	readings []*http.Request // see allReadings
}

// allReadings returns the readings of the request. It computes them on first use: most rules need none.
func (e *ruleInput) allReadings() []*http.Request {
	if e.readings == nil {
		e.readings = readingsOf(e.request, e.exam)
	}
	return e.readings
}

// checkRules checks the token against every rule that applies to some reading of the request, and returns the first rule
// that refuses it. With an ambiguous path, every rule applies.
func (p *Protect) checkRules(r *http.Request, exam requestpath.Exam, token *accesstoken.AccessToken) (*Rule, error) {
	e := ruleInput{gate: p, token: token, exam: exam, request: r}
	for _, rule := range p.Require {
		if !e.applies(rule) {
			continue
		}
		if err := rule.check(&e); err != nil {
			return rule, e.withSignIn(err)
		}
	}
	return nil, nil
}

// scopesNeeded lists the scopes that the request needs: those of the route and of every applicable rule. For a rule that
// accepts one of several scopes it lists those that the token has, so that a client which requests the list keeps them,
// or all if the token has none. It returns "" if no rule has scopes.
func (p *Protect) scopesNeeded(r *http.Request, exam requestpath.Exam, token *accesstoken.AccessToken) string {
	if !slices.ContainsFunc(p.Require, func(rule *Rule) bool { return len(rule.Scopes)+len(rule.AnyScope) > 0 }) {
		return ""
	}
	e, needed := ruleInput{gate: p, exam: exam, request: r}, slices.Clone(p.Scopes)
	for _, rule := range p.Require {
		if len(rule.Scopes)+len(rule.AnyScope) == 0 || !e.applies(rule) {
			continue
		}
		several := rule.AnyScope
		if token != nil && slices.ContainsFunc(several, token.Scopes.Has) {
			several = slices.DeleteFunc(slices.Clone(several), func(name string) bool { return !token.Scopes.Has(name) })
		}
		needed = slices.Concat(needed, rule.Scopes, several)
	}
	return oauth.Scopes(oauth.ResourceScopes(needed)).String()
}

func (e *ruleInput) applies(rule *Rule) bool {
	return e.exam.Ambiguous || len(rule.matchers) == 0 || rule.appliesTo(e.allReadings())
}

// check returns an error if the token does not satisfy the rule.
func (r *Rule) check(e *ruleInput) error {
	t := e.token
	switch {
	case len(r.Scopes) > 0:
		if missing := t.Scopes.Missing(r.Scopes...); missing != "" {
			return oauth.MissingScope(missing)
		}
	case len(r.AnyScope) > 0:
		if !slices.ContainsFunc(r.AnyScope, t.Scopes.Has) {
			return oauth.MissingScope(oauth.Scopes(r.AnyScope).String())
		}
	case len(r.Roles) > 0:
		if e.isOwn() && t.IsServerToken() || !caller.HasClaim(t, "role", r.Roles) {
			return oauth.NewError(oauth.AccessDenied, "role_missing")
		}
	case len(r.Groups) > 0:
		if !caller.HasClaim(t, "groups", r.Groups) {
			return oauth.NewError(oauth.AccessDenied, "group_missing")
		}
	case r.Claim != "":
		if !caller.HasClaim(t, r.Claim, r.Values) {
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
// may be personal, and the text of an expression: either may come from a {$VARIABLE}.
func (r *Rule) missing(t *accesstoken.AccessToken) string {
	switch {
	case len(r.Scopes) > 0:
		return "scope " + t.Scopes.Missing(r.Scopes...)
	case len(r.AnyScope) > 0:
		return "any_scope " + strings.Join(r.AnyScope, " ")
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

// isOwn reports whether our own issuer issued the token.
func (e *ruleInput) isOwn() bool { return e.gate.own != nil && e.token.Issuer == e.gate.own.url }
