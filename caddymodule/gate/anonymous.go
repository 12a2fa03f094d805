package gate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/caddymodule/caller"
	"github.com/gatehouse-auth/gatehouse/caddymodule/requestpath"
)

// anonymousRule decides which requests need no token. Caddy's matchers fold case and clean paths, so a request also needs
// a canonical path that matches the patterns byte for byte.
type anonymousRule struct {
	matchers caddyhttp.MatcherSets
	patterns [][]string // path patterns of each set as configured; nil: the set has none
	// readQuery reports for each set whether a matcher may read the query.
	readQuery []bool
}

func newAnonymousRule(ctx caddy.Context, p *Protect) (anonymousRule, error) {
	var rule anonymousRule
	// Read the patterns before the matchers are loaded: loading lower-cases them.
	for _, set := range p.Anonymous {
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
	}
	var err error
	rule.matchers, err = loadMatchers(ctx, p, "Anonymous", p.Anonymous)
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

// allows reports whether the request needs no token.
func (a *anonymousRule) allows(r *http.Request, exam requestpath.Exam) bool {
	if !exam.Canonical {
		return false
	}
	for i, set := range a.matchers {
		if a.readQuery[i] && isQueryMalformed(r.URL.RawQuery) {
			continue
		}
		if match, err := set.MatchWithError(r); err != nil || !match {
			continue
		}
		if (a.patterns[i] == nil || requestpath.MatchesExactly(a.patterns[i], r.URL)) && holdsInEveryReading(set, r, exam) {
			return true
		}
	}
	return false
}

// holdsInEveryReading reports whether each `not` of a set holds for every reading of the request: what is excluded at
// /admin/* is excluded at /admin too.
func holdsInEveryReading(set caddyhttp.MatcherSet, r *http.Request, exam requestpath.Exam) bool {
	for _, matcher := range set {
		not, ok := matcher.(*caddyhttp.MatchNot)
		if ok && slices.ContainsFunc(readingsOf(r, exam), func(reading *http.Request) bool {
			match, err := not.MatchWithError(reading)
			return err != nil || !match
		}) {
			return false
		}
	}
	return true
}
