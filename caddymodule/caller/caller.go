// Package caller makes the verified token available to the rest of Caddy: the matchers oauth_scope and oauth_claim,
// expressions, and the placeholders {http.auth.user.*}. Gates set it.
package caller

import (
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// current holds the token that a request's matchers, expressions and placeholders see. Each request has one, and the
// last gate's token counts. It is reachable through the request's replacer and, faster, through its variables, under
// a name that no configuration can contain.
type current struct {
	token *token.AccessToken
	// shown is the verified token of the Authorization header, kept for a later gate of the request.
	shown oauth.Secret
	// session is the cookie of the host's verified session, kept for a later gate of the request.
	session oauth.Secret
}

// callerKey is the name in replacer and variables. Only this package uses it.
const callerKey = "oauth.caller\x00"

// PlaceholderPrefix is Caddy's prefix of placeholders about the user.
const PlaceholderPrefix = "http.auth.user."

// Remember sets the token that matchers, expressions and placeholders of this request see; nil: none.
func Remember(r *http.Request, tok *token.AccessToken) {
	replacer, vars, ok := knownOf(r)
	if !ok {
		return
	}
	c := callerOf(replacer, vars)
	if c == nil {
		c = new(current)
		vars[callerKey] = c
		replacer.Map(c.replace)
	}
	if c.token = tok; tok != nil { // values that other authentication has written would take precedence
		replacer.DeleteByPrefix(PlaceholderPrefix)
	}
}

// KeepBearer keeps a verified token for later gates of this request. Nothing else can read it.
func KeepBearer(r *http.Request, shown oauth.Secret) {
	if replacer, vars, ok := knownOf(r); ok {
		if c := callerOf(replacer, vars); c != nil {
			c.shown = shown
		}
	}
}

// KeepSession keeps the cookie of a verified session of the host for later gates of this request. Nothing else can read it.
func KeepSession(r *http.Request, cookie oauth.Secret) {
	if replacer, vars, ok := knownOf(r); ok {
		if c := callerOf(replacer, vars); c != nil {
			c.session = cookie
		}
	}
}

// KeptSession returns the cookie that an earlier gate has kept, or "".
func KeptSession(r *http.Request) oauth.Secret {
	if replacer, vars, ok := knownOf(r); ok {
		if c := callerOf(replacer, vars); c != nil {
			return c.session
		}
	}
	return oauth.Secret{}
}

// RestoreBearer restores the Authorization header that an earlier gate removed.
func RestoreBearer(r *http.Request) {
	replacer, vars, ok := knownOf(r)
	if !ok || r.Header["Authorization"] != nil {
		return
	}
	if c := callerOf(replacer, vars); c != nil && !c.shown.IsEmpty() {
		r.Header["Authorization"] = []string{"Bearer " + c.shown.Reveal()}
	}
}

// cookies are our own cookies, which upstreams must not see. They are restored for the handler of ours that reads
// them.
type cookies []string

// cookiesKey is their name among the variables. Only this package uses it.
const cookiesKey = "oauth.cookies\x00"

// String keeps the cookies out of printed variables.
func (cookies) String() string { return "" }

// KeepCookies keeps cookies that were removed from the request for RestoreCookies. Nothing else can read them.
func KeepCookies(r *http.Request, pairs []string) {
	if _, vars, ok := knownOf(r); ok && len(pairs) > 0 {
		vars[cookiesKey] = cookies(pairs)
	}
}

// RestoreCookies restores the cookies that KeepCookies has kept, in place, once.
func RestoreCookies(r *http.Request) {
	_, vars, ok := knownOf(r)
	if !ok {
		return
	}
	if kept, ok := vars[cookiesKey].(cookies); ok {
		delete(vars, cookiesKey)
		r.Header["Cookie"] = append(slices.Clip(r.Header["Cookie"]), strings.Join(kept, ";"))
	}
}

// misplacedKey is the name of NoteMisplaced's note among the variables. Only this package uses it.
const misplacedKey = "oauth.misplaced\x00"

// NoteMisplaced records that the request came with a personal access token in a place where none is read, which has
// been removed since.
func NoteMisplaced(r *http.Request) {
	if _, vars, ok := knownOf(r); ok {
		vars[misplacedKey] = true
	}
}

// Misplaced reports whether NoteMisplaced was called for the request.
func Misplaced(r *http.Request) bool {
	_, vars, _ := knownOf(r)
	noted, _ := vars[misplacedKey].(bool)
	return noted
}

// knownOf returns the request's replacer and variables. Every request from Caddy has both.
func knownOf(r *http.Request) (replacer *caddy.Replacer, vars map[string]any, ok bool) {
	replacer, hasReplacer := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	vars, hasVars := r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any)
	return replacer, vars, hasReplacer && hasVars
}

// Token returns the token that a gate of this request verified; nil: none.
func Token(r *http.Request) *token.AccessToken {
	replacer, vars, ok := knownOf(r)
	if !ok {
		return nil
	}
	if c := callerOf(replacer, vars); c != nil {
		return c.token
	}
	return nil
}

// callerOf returns the caller of a request; nil: no gate has run yet. It asks the replacer only if something else uses
// the name among the variables: the replacer returns the first caller it was given, so there must be only one.
func callerOf(replacer *caddy.Replacer, vars map[string]any) *current {
	value, known := vars[callerKey]
	c, _ := value.(*current)
	if known && c == nil {
		value, _ = replacer.Get(callerKey)
		c, _ = value.(*current)
	}
	return c
}

// replace implements the placeholders {http.auth.user.id}, {http.auth.user.organisation} and {http.auth.user.CLAIM}, such
// as role, client_id and scope. Claim values are not expanded further. Without a token they are empty: Caddy leaves
// unknown placeholders as they are, and an upstream could take that text for a name.
func (c *current) replace(key string) (any, bool) {
	if key == callerKey {
		return c, true
	}
	claim, ok := strings.CutPrefix(key, PlaceholderPrefix)
	if !ok {
		return nil, false
	}
	if c.token == nil {
		return "", true
	}
	switch claim {
	case "id":
		claim = "sub"
	case "organisation":
		claim = "org"
	}
	separator := " "
	if claim == "groups" { // a group name may have spaces, but ours have no comma
		separator = ","
	}
	return strings.Join(c.token.Claim(claim), separator), true
}

// String keeps the caller out of printed variables.
func (c *current) String() string { return "" }
