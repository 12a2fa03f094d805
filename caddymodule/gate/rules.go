package gate

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/caddymodule/requestpath"
)

// Rule is one `require`: what a token must have for the matching requests. Exactly one of Scopes, AnyScope, Roles,
// Groups, Claim, Expression, ACR and MaxAge is set.
type Rule struct {
	// MatcherSets select the requests that the rule applies to; none: all.
	MatcherSets caddyhttp.RawMatcherSets `json:"match,omitempty" caddy:"namespace=http.matchers"`
	// Scopes lists scopes that the token must all have.
	Scopes []string `json:"scopes,omitempty"`
	// AnyScope lists scopes of which the token must have at least one.
	AnyScope []string `json:"any_scope,omitempty"`
	// Roles lists declared roles of which the user must have one. A server token of ours acts for no user and has none.
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

	matchers   caddyhttp.MatcherSets
	readQuery  bool // a matcher may read the query
	expression *expression
}

func (r *Rule) provision(ctx caddy.Context) error {
	kinds := 0
	for _, set := range []bool{
		len(r.Scopes) > 0, len(r.AnyScope) > 0, len(r.Roles) > 0, len(r.Groups) > 0, r.Claim != "", r.Expression != "", len(r.ACR) > 0, r.MaxAge != 0,
	} {
		if set {
			kinds++
		}
	}
	if kinds != 1 {
		return errors.New("a rule needs one of scopes, any_scope, roles, groups, claim, expression, acr and max_age")
	}
	if r.Claim != "" && len(r.Values) == 0 {
		return fmt.Errorf("require claim %s needs a value", r.Claim)
	}
	if err := errors.Join(checkACR(r.ACR), checkMaxAge(r.MaxAge)); err != nil {
		return err
	}
	r.readQuery = slices.ContainsFunc(r.MatcherSets, mayReadQuery)
	var err error
	if r.matchers, err = loadMatchers(ctx, r, "MatcherSets", r.MatcherSets); err != nil || r.Expression == "" {
		return err
	}
	r.expression, err = newExpression(ctx, r.Expression, r.Source)
	return err
}

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

// isQueryMalformed reports whether Caddy's matchers cannot parse a query. They treat it as no match, while an upstream
// may still parse it.
func isQueryMalformed(query string) bool {
	if query == "" {
		return false
	}
	_, err := url.ParseQuery(query)
	return err != nil
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

// readingsOf lists the requests that an upstream may take r for. With an encoded slash, a path has two readings. Many
// servers ignore a trailing slash. HEAD is handled like GET, so rules for GET apply to HEAD too. A WebSocket over HTTP/2
// or 3 reaches the upstream as a GET.
func readingsOf(r *http.Request, exam requestpath.Exam) []*http.Request {
	readings := []*http.Request{r}
	more := func(change func(*http.Request)) {
		for _, reading := range slices.Clone(readings) {
			other := *reading
			change(&other)
			readings = append(readings, &other)
		}
	}
	if exam.EncodedSlash {
		readings = append(readings, requestpath.OtherReading(r))
	}
	if r.URL.Path != "/" {
		more(toggleSlash)
	}
	switch {
	case r.Method == http.MethodHead:
		more(func(other *http.Request) { other.Method = http.MethodGet })
	case isWebSocketConnect(r):
		more(func(other *http.Request) {
			other.Method = http.MethodGet
			other.Header = other.Header.Clone()
			other.Header.Set("Connection", "Upgrade")
			other.Header.Set("Upgrade", "websocket")
		})
	}
	return readings
}

// toggleSlash adds a trailing slash to a request's path, or removes it.
func toggleSlash(r *http.Request) {
	location := *r.URL
	if path, ok := strings.CutSuffix(location.Path, "/"); ok {
		location.Path, location.RawPath = path, strings.TrimSuffix(location.RawPath, "/")
	} else {
		location.Path += "/"
		if location.RawPath != "" {
			location.RawPath += "/"
		}
	}
	r.URL = &location
}

// appliesTo reports whether the rule applies to the request in any of its readings. It does if a matcher fails or cannot
// parse the query.
func (r *Rule) appliesTo(readings []*http.Request) bool {
	if len(r.matchers) == 0 || r.readQuery && isQueryMalformed(readings[0].URL.RawQuery) {
		return true
	}
	for _, reading := range readings {
		if match, err := r.matchers.AnyMatchWithError(reading); match || err != nil {
			return true
		}
	}
	return false
}
