package caddymodule

import (
	"net/http"
	"slices"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

// examination is one token before the rules of one route.
type examination struct {
	gate     *Protect
	token    *tokenissuer.AccessToken
	exam     pathExam
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

// asks holds a token against every rule that concerns the request in any of its readings. One with an ambiguous path falls
// under every rule.
func (p *Protect) asks(r *http.Request, exam pathExam, token *tokenissuer.AccessToken) error {
	e := examination{gate: p, token: token, exam: exam, request: r}
	for _, rule := range p.Require {
		if !e.concernedBy(rule) {
			continue
		}
		if err := rule.check(&e); err != nil {
			return e.withSignIn(err)
		}
	}
	return nil
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
			return tokenissuer.MissingScope(missing)
		}
	case len(r.AnyScope) > 0:
		if !slices.ContainsFunc(r.AnyScope, t.Scopes.Has) {
			return tokenissuer.MissingScope(tokenissuer.Scopes(r.AnyScope).String())
		}
	case len(r.Roles) > 0:
		if e.isOwn() && t.IsServerToken() || !hasClaim(t, "role", r.Roles) {
			return tokenissuer.NewError(tokenissuer.AccessDenied, "role_missing")
		}
	case len(r.Groups) > 0:
		if !hasClaim(t, "groups", r.Groups) {
			return tokenissuer.NewError(tokenissuer.AccessDenied, "group_missing")
		}
	case r.Claim != "":
		if !hasClaim(t, r.Claim, r.Values) {
			return tokenissuer.NewError(tokenissuer.AccessDenied, "claim_missing")
		}
	case r.expression != nil:
		return r.expression.check(e)
	default:
		return r.checkSignIn(e)
	}
	return nil
}

// isOwn tells whether the token is one of our own issuer's.
func (e *examination) isOwn() bool { return e.gate.own != nil && e.token.Issuer == e.gate.own.url }

// hasClaim tells whether a claim has one of the values; of an array, whether one element has.
func hasClaim(t *tokenissuer.AccessToken, name string, values []string) bool {
	if text, isOne := t.Text(name); isOne {
		return text != "" && slices.Contains(values, text)
	}
	return slices.ContainsFunc(t.Claim(name), func(held string) bool { return slices.Contains(values, held) })
}
