// Package caller is what the rest of Caddy knows of who is calling: the matchers oauth_scope and oauth_claim, expressions, and
// the placeholders {http.auth.user.*}. A gate puts it in.
package caller

import (
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// current is what a request's matchers, expressions and placeholders know of who is calling. There is one for each request,
// whatever number of gates it passes: the last gate counts. It sits behind the request's replacer, and among its variables,
// where it is found sooner, under a name that no configuration can write.
type current struct {
	token *accesstoken.AccessToken
	// shown is the verified token as it stood in the Authorization header, for a gate behind the one that has kept it back.
	shown oauth.Secret
}

// callerKey is asked of the replacer and of the variables by ourselves alone.
const callerKey = "oauth.caller\x00"

// PlaceholderPrefix is where Caddy keeps what it knows of the user.
const PlaceholderPrefix = "http.auth.user."

// Remember lets the matchers, expressions and placeholders of this request know the verified token; nil: there is
// none, and an earlier gate's is forgotten.
func Remember(r *http.Request, token *accesstoken.AccessToken) {
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
	if c.token = token; token != nil { // what another authentication has written there would be read in its place
		replacer.DeleteByPrefix(PlaceholderPrefix)
	}
}

// RememberShown keeps a verified token for a further gate of this request. Nobody else can get at it.
func RememberShown(r *http.Request, shown oauth.Secret) {
	if replacer, vars, ok := knownOf(r); ok {
		if c := callerOf(replacer, vars); c != nil {
			c.shown = shown
		}
	}
}

// RestoreShown gives the request the Authorization header back that an earlier gate has kept from whoever stands behind it.
func RestoreShown(r *http.Request) {
	replacer, vars, ok := knownOf(r)
	if !ok || r.Header["Authorization"] != nil {
		return
	}
	if c := callerOf(replacer, vars); c != nil && !c.shown.IsEmpty() {
		r.Header["Authorization"] = []string{"Bearer " + c.shown.Reveal()}
	}
}

// knownOf returns what Caddy keeps for a request. Whatever it makes for one has both.
func knownOf(r *http.Request) (replacer *caddy.Replacer, vars map[string]any, ok bool) {
	replacer, hasReplacer := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	vars, hasVars := r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any)
	return replacer, vars, hasReplacer && hasVars
}

// Token returns the token that a gate of this request has verified; nil: there is none.
func Token(r *http.Request) *accesstoken.AccessToken {
	replacer, vars, ok := knownOf(r)
	if !ok {
		return nil
	}
	if c := callerOf(replacer, vars); c != nil {
		return c.token
	}
	return nil
}

// callerOf returns the caller of a request; nil: no gate has asked yet. The replacer is asked only when something else has
// the name among the variables: it answers with the first caller that it was ever given, so there must be no second.
func callerOf(replacer *caddy.Replacer, vars map[string]any) *current {
	value, known := vars[callerKey]
	c, _ := value.(*current)
	if known && c == nil {
		value, _ = replacer.Get(callerKey)
		c, _ = value.(*current)
	}
	return c
}

// replace gives the rest of Caddy the token: {http.auth.user.id}, {http.auth.user.organisation} and
// {http.auth.user.CLAIM}, as role, client_id and scope. Values are claims as they are; nothing in them is ever replaced
// again. Without a token they are empty: an unknown placeholder would reach an upstream as it is written, and look like a
// name.
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
	if claim == "groups" { // a name may have spaces, and none of ours has a comma
		separator = ","
	}
	return strings.Join(c.token.Claim(claim), separator), true
}

// String keeps a caller out of whatever prints it.
func (c *current) String() string { return "" }

// HasClaim reports whether a claim has one of the values; of an array, whether one element has.
func HasClaim(t *accesstoken.AccessToken, name string, values []string) bool {
	if text, isOne := t.Text(name); isOne {
		return text != "" && slices.Contains(values, text)
	}
	return slices.ContainsFunc(t.Claim(name), func(held string) bool { return slices.Contains(values, held) })
}
