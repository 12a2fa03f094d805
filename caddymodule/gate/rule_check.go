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

// examination is one token before the rules of one route.
type examination struct {
	gate     *Protect
	token    *accesstoken.AccessToken
	exam     requestpath.Exam
	request  *http.Request
	readings []*http.Request // see allReadings
}

// allReadings lists the readings of the request. They are made when the first rule asks for them: most rules never do.
func (e *examination) allReadings() []*http.Request {
	if e.readings == nil {
		e.readings = readingsOf(e.request, e.exam)
	}
	return e.readings
}

// asks holds a token against every rule that concerns the request in any of its readings, and returns the first one that refuses it.
// A request with an ambiguous path falls under every rule.
func (p *Protect) asks(r *http.Request, exam requestpath.Exam, token *accesstoken.AccessToken) (*Rule, error) {
	e := examination{gate: p, token: token, exam: exam, request: r}
	for _, rule := range p.Require {
		if !e.concernedBy(rule) {
			continue
		}
		if err := rule.check(&e); err != nil {
			return rule, e.withSignIn(err)
		}
	}
	return nil, nil
}

// scopesNeeded lists the scopes that a token needs for the request: those of the route, and those of every rule that concerns it.
// Of a rule for one of several it lists those that the token holds, so that a client which asks for what is listed keeps them;
// when it holds none, or there is no token, all. It is empty where the route's own are all there are.
func (p *Protect) scopesNeeded(r *http.Request, exam requestpath.Exam, token *accesstoken.AccessToken) string {
	if !slices.ContainsFunc(p.Require, func(rule *Rule) bool { return len(rule.Scopes)+len(rule.AnyScope) > 0 }) {
		return ""
	}
	e, needed := examination{gate: p, exam: exam, request: r}, slices.Clone(p.Scopes)
	for _, rule := range p.Require {
		if len(rule.Scopes)+len(rule.AnyScope) == 0 || !e.concernedBy(rule) {
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

func (e *examination) concernedBy(rule *Rule) bool {
	return e.exam.Ambiguous || len(rule.matchers) == 0 || rule.concerns(e.allReadings())
}

// check holds a token against the rule.
func (r *Rule) check(e *examination) error {
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

// missing says what a token lacks that the rule has refused, in the words of the Caddyfile, for the audit log. It leaves out the
// values of a claim, which may say who somebody is, and the text of an expression: either may come from a {$VARIABLE}.
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

// isOwn reports whether the token is one of our own issuer's.
func (e *examination) isOwn() bool { return e.gate.own != nil && e.token.Issuer == e.gate.own.url }
