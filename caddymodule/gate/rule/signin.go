package rule

import (
	"fmt"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// checkACR refuses values that a challenge cannot list: it quotes them and separates them by spaces (RFC 9470 §3).
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

// checkMaxAge refuses negative values and fractions of a second, which a challenge cannot express. Zero means unset.
func checkMaxAge(age caddy.Duration) error {
	if d := time.Duration(age); d < 0 || d%time.Second != 0 {
		return fmt.Errorf("max_age %s: use whole seconds, at least one", d)
	}
	return nil
}

// checkSignIn checks the rule against the sign-in behind the token. A token that acts for no user has none.
func (r *Rule) checkSignIn(e *Input) error {
	t := e.Token
	if len(r.ACR) > 0 {
		has := t.HasClaim("acr", r.ACR) || e.Own && oauth.SatisfiesACR(t.ACR(), r.ACR)
		if t.IsServerToken() || !has {
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

// maxAhead is how far auth_time may lie in the future; the same limit holds for iat.
const maxAhead = time.Minute

// isRecent reports whether a time is at most maxAge ago and not too far in the future.
func (e *Input) isRecent(at time.Time, maxAge time.Duration) bool {
	now, leeway := e.Now(), token.TrustedLeeway
	if e.Own {
		leeway = store.Leeway
	}
	return !at.Add(maxAge+leeway).Before(now) && !at.After(now.Add(maxAhead))
}

// withSignIn adds to an insufficient-authentication error the requirements of the other rules, so that the user signs in
// once and not once for each rule.
func (e *Input) withSignIn(rules []*Rule, err error) error {
	refusal := oauth.AsError(err)
	if refusal.Code != oauth.InsufficientAuthentication {
		return err
	}
	whole := *refusal
	for _, rule := range rules {
		maxAge := time.Duration(rule.MaxAge)
		if len(rule.ACR) == 0 && maxAge == 0 || !e.applies(rule) {
			continue
		}
		if whole.ACRValues == nil && len(rule.ACR) > 0 && rule.checkSignIn(e) != nil {
			whole.ACRValues = rule.ACR
		}
		if maxAge > 0 && (whole.MaxAge == 0 || maxAge < whole.MaxAge) {
			whole.MaxAge = maxAge
		}
	}
	return &whole
}
