package rule

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/caddymodule/caller"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/requestpath"
)

// Anonymous decides which requests need no token. Caddy's matchers fold case and clean paths, so a request also needs
// a canonical path that matches the patterns byte for byte.
type Anonymous struct {
	matchers caddyhttp.MatcherSets
	exact    caddyhttp.MatcherSets // matchers, as Allows asks them: see exactly
	patterns [][]string            // path patterns of each set as configured; nil: the set has none
	// readQuery reports for each set whether a matcher may read the query.
	readQuery []bool
	// readPlaceholder reports for each set whether a matcher may read the method or the host by a placeholder.
	readPlaceholder []bool
}

// NewAnonymous checks and loads the matcher sets in the field Anonymous of a handler.
func NewAnonymous(ctx caddy.Context, handler any, sets caddyhttp.RawMatcherSets) (Anonymous, error) {
	var rule Anonymous
	// Read the patterns before the matchers are loaded: loading lower-cases them.
	for _, set := range sets {
		var patterns []string
		if raw, ok := set["path"]; ok {
			if err := json.Unmarshal(raw, &patterns); err != nil {
				return rule, fmt.Errorf("anonymous: %w", err)
			}
		}
		if asksForToken(set) {
			return rule, errors.New("anonymous: its matcher asks who is calling, and nobody has looked at a token yet")
		}
		if len(set) == 0 || len(set) == 1 && (slices.Contains(patterns, "*") || slices.Contains(patterns, "/*")) {
			return rule, errors.New("an anonymous that matches every request would protect nothing")
		}
		rule.patterns = append(rule.patterns, patterns)
		rule.readQuery = append(rule.readQuery, mayReadQuery(set))
		rule.readPlaceholder = append(rule.readPlaceholder, mayReadPlaceholder(set))
	}
	var err error
	if rule.matchers, err = loadMatchers(ctx, handler, "Anonymous", sets); err == nil {
		rule.exact, err = exactly(sets, rule.matchers, true)
	}
	return rule, err
}

// asksForToken reports whether a matcher of the set, at any depth, depends on the caller. No token has been verified when
// these matchers run, so a `not` around such a matcher would let every request pass.
func asksForToken(set caddy.ModuleMap) bool {
	for name, raw := range set {
		for _, asks := range []string{"oauth_scope", "oauth_claim", caller.PlaceholderPrefix} {
			if name == asks || bytes.Contains(raw, []byte(asks)) {
				return true
			}
		}
	}
	return false
}

// Allows reports whether the request needs no token.
func (a *Anonymous) Allows(r *http.Request, exam requestpath.Exam) bool {
	if !exam.Canonical {
		return false
	}
	for i, set := range a.exact {
		if a.readQuery[i] && requestpath.IsQueryMalformed(r.URL.RawQuery) || a.readPlaceholder[i] && misleadsPlaceholders(r) {
			continue
		}
		if match, err := set.MatchWithError(r); err != nil || !match {
			continue
		}
		if method, _ := requestpath.QueryMethod(r); method != "" && method != r.Method {
			other := *r
			other.Method = method
			if match, err := set.MatchWithError(&other); err != nil || !match {
				continue
			}
		}
		if (a.patterns[i] == nil || requestpath.MatchesExactly(a.patterns[i], r.URL)) && holdsInEveryReading(set, r, exam) {
			return true
		}
	}
	return false
}

// AnonymousView is a matcher set whose requests need no token, with its path patterns as configured; nil: it has none.
type AnonymousView struct {
	Matchers caddyhttp.MatcherSet
	Paths    []string
}

// View lists the requests that need no token.
func (a *Anonymous) View() []AnonymousView {
	var views []AnonymousView
	for i, set := range a.matchers {
		views = append(views, AnonymousView{Matchers: set, Paths: a.patterns[i]})
	}
	return views
}

// holdsInEveryReading reports whether each `not` of a set holds for every reading of the request: what is excluded at
// /admin/* is excluded at /admin too.
func holdsInEveryReading(set caddyhttp.MatcherSet, r *http.Request, exam requestpath.Exam) bool {
	for _, matcher := range set {
		not, ok := matcher.(*caddyhttp.MatchNot)
		if ok && slices.ContainsFunc(requestpath.Readings(r, exam), func(reading *http.Request) bool {
			match, err := matchReading(r, reading, not.MatchWithError)
			return err != nil || !match
		}) {
			return false
		}
	}
	return true
}

// ParseAnonymous reads one `anonymous` and adds its matcher to the sets.
func ParseAnonymous(h httpcaddyfile.Helper, sets *caddyhttp.RawMatcherSets) error {
	matchers, found, err := parseMatcher(h)
	if err != nil {
		return err
	}
	if !found || h.NextArg() {
		return h.Errf("write it as `anonymous <matcher>`: one path that starts with a slash, or a named matcher; further ones take lines of their own")
	}
	if matchers == nil {
		return h.Errf("anonymous * would protect nothing: name the paths, or write `optional`, which still keeps forged identity headers away")
	}
	*sets = append(*sets, matchers...)
	return nil
}
