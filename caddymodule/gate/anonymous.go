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

// anonymousRule says which requests need no token. Its matchers are Caddy's, which fold case and clean paths; a request
// passes only when its path is canonical and the patterns match it byte for byte as well.
type anonymousRule struct {
	matchers caddyhttp.MatcherSets
	patterns [][]string // the path patterns of each set as they were written; nil: the set has none
	// readQuery says of each set whether some matcher may read the query.
	readQuery []bool
}

func newAnonymousRule(ctx caddy.Context, p *Protect) (anonymousRule, error) {
	var rule anonymousRule
	// The patterns are read before the matchers are loaded, because Caddy folds their case then.
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

// asksForToken reports whether a matcher of the set, however deep, asks who is calling. There is no token yet, so that a `not`
// in front of it would let everybody pass.
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

// holdsInEveryReading reports whether each `not` of a set holds for whatever an upstream may take the request for: what is kept
// from being anonymous at /admin/* is kept from it at /admin too.
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
