package gate

import (
	"fmt"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-auth/gatehouse/caddymodule/caller"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// checkACR refuses values that a challenge could not list: they are separated by spaces there, in quotes (RFC 9470 §3).
func checkACR(values []string) error {
	for _, value := range values {
		if strings.HasPrefix(value, "@") || strings.HasPrefix(value, "/") || value == "*" {
			return fmt.Errorf("acr %s looks like a matcher: a matcher comes first", value)
		}
		if value == "" || strings.ContainsFunc(value, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' }) {
			return fmt.Errorf("acr %q: use visible ASCII without quotes and backslashes", value)
		}
	}
	return nil
}

// checkMaxAge refuses what a challenge could not say, and what nobody could ever meet. Zero is not set.
func checkMaxAge(age caddy.Duration) error {
	if d := time.Duration(age); d < 0 || d%time.Second != 0 {
		return fmt.Errorf("max_age %s: use whole seconds, at least one", d)
	}
	return nil
}

// checkSignIn holds the sign-in behind a token against the rule. A token that acts for no user has none behind it.
func (r *Rule) checkSignIn(e *examination) error {
	t := e.token
	if len(r.ACR) > 0 {
		if t.IsServerToken() || !caller.HasClaim(t, "acr", r.ACR) {
			return oauth.InsufficientACR(r.ACR)
		}
		return nil
	}
	maxAge := time.Duration(r.MaxAge)
	if t.IsServerToken() || t.AuthTime.IsZero() || !e.isRecent(t.AuthTime, maxAge) {
		return oauth.SignInTooOld(maxAge)
	}
	return nil
}

// maxAhead is how far in the future a sign-in may lie, as the issuing of a token may.
const maxAhead = time.Minute

// isRecent reports whether a time is no longer ago than maxAge, and no lie.
func (e *examination) isRecent(at time.Time, maxAge time.Duration) bool {
	now, leeway := e.gate.shared.now(), accesstoken.TrustedLeeway
	if e.isOwn() {
		now, leeway = e.gate.shared.own.Node.Now(), store.Leeway
	}
	return !at.Add(maxAge+leeway).Before(now) && !at.After(now.Add(maxAhead))
}

// withSignIn adds to a refusal of the sign-in what the other rules ask of it, so that the user signs in once and not once
// for each rule.
func (e *examination) withSignIn(err error) error {
	refusal := oauth.AsError(err)
	if refusal.Code != oauth.InsufficientAuthentication {
		return err
	}
	whole := *refusal
	for _, rule := range e.gate.Require {
		maxAge := time.Duration(rule.MaxAge)
		if len(rule.ACR) == 0 && maxAge == 0 || !e.concernedBy(rule) {
			continue
		}
		if whole.ACRValues == nil {
			whole.ACRValues = rule.ACR
		}
		if maxAge > 0 && (whole.MaxAge == 0 || maxAge < whole.MaxAge) {
			whole.MaxAge = maxAge
		}
	}
	return &whole
}
