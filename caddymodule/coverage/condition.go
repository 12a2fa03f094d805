package coverage

import (
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// condition is what a route demands of a request. The routes that handle a handler's response depend on that
// response, not on the request: their condition has neither matchers nor a group.
type condition struct {
	location        // as the matchers see it
	id       int    // conditions with the same id are the same
	behind   int    // number of gates before it
	group    string // of the routes in one group, a request runs the first that matches
	sets     caddyhttp.MatcherSets
}

// alwaysAsksForHost reports whether each of the condition's alternatives names the hosts of its requests.
func (c *condition) alwaysAsksForHost() bool {
	return every(c.sets, func(set caddyhttp.MatcherSet) bool {
		return slices.ContainsFunc(set, func(matcher any) bool {
			_, ok := matcher.(*caddyhttp.MatchHost)
			return ok
		})
	})
}

// impliedBy reports whether every request that meets all the others meets c. In doubt it returns false. It recognises
// two cases: c is one of the others, as when a gate and a backend are in the same block, or the matchers of one of
// the others are narrower than c's.
func (c *condition) impliedBy(others []condition) bool {
	return slices.ContainsFunc(others, func(o condition) bool {
		return o.id == c.id || c.group == "" && o.number == c.number && cover(c.sets, o.sets)
	})
}

// excludedBy reports whether no request that meets all the others can meet c. In doubt it returns false.
func (c *condition) excludedBy(others []condition) bool {
	return !slices.ContainsFunc(others, func(o condition) bool { return o.id == c.id }) &&
		slices.ContainsFunc(others, func(o condition) bool {
			return c.group != "" && o.group == c.group || o.number == c.number && differ(c.sets, o.sets)
		})
}

// cover reports whether wide matches every request that narrow matches. It compares matchers of paths and methods
// only: other properties of a request may change on the way, and a gate itself changes headers and query.
func cover(wide, narrow caddyhttp.MatcherSets) bool {
	return every(narrow, func(n caddyhttp.MatcherSet) bool {
		return slices.ContainsFunc(wide, func(w caddyhttp.MatcherSet) bool {
			return every(w, func(wide any) bool {
				return slices.ContainsFunc(n, func(narrow any) bool { return matcherCovers(wide, narrow) })
			})
		})
	})
}

func matcherCovers(wide, narrow any) bool {
	switch wide := wide.(type) {
	case *caddyhttp.MatchPath:
		narrow, ok := narrow.(*caddyhttp.MatchPath)
		return ok && every(*narrow, func(n string) bool {
			return slices.ContainsFunc(*wide, func(w string) bool { return patternCovers(w, n) })
		})
	case *caddyhttp.MatchPathRE:
		narrow, ok := narrow.(*caddyhttp.MatchPathRE)
		return ok && narrow.Pattern == wide.Pattern
	case *caddyhttp.MatchMethod:
		narrow, ok := narrow.(*caddyhttp.MatchMethod)
		return ok && every(*narrow, func(method string) bool { return slices.Contains(*wide, method) })
	}
	return false
}

// differ reports whether no request is matched by both: each set of a excludes each set of b.
func differ(a, b caddyhttp.MatcherSets) bool {
	return every(a, func(a caddyhttp.MatcherSet) bool {
		return every(b, func(b caddyhttp.MatcherSet) bool {
			return slices.ContainsFunc(a, func(a any) bool {
				return slices.ContainsFunc(b, func(b any) bool { return matcherExcludes(a, b) || matcherExcludes(b, a) })
			})
		})
	})
}

func matcherExcludes(a, b any) bool {
	switch a := a.(type) {
	case *caddyhttp.MatchPath:
		b, ok := b.(*caddyhttp.MatchPath)
		return ok && every(*a, func(a string) bool { return every(*b, func(b string) bool { return patternsDiffer(a, b) }) })
	case *caddyhttp.MatchMethod:
		b, ok := b.(*caddyhttp.MatchMethod)
		return ok && !slices.ContainsFunc(*a, func(method string) bool { return slices.Contains(*b, method) })
	case *caddyhttp.MatchNot:
		return cover(a.MatcherSets, caddyhttp.MatcherSets{{b}})
	}
	return false
}

// every reports whether list is not empty and holds is true for all of it.
func every[T any](list []T, holds func(T) bool) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(item T) bool { return !holds(item) })
}

// plainPattern splits a path pattern that is an exact path, or a prefix followed by a star. Ok reports whether it is
// one.
func plainPattern(pattern string) (literal string, isPrefix, ok bool) {
	literal, isPrefix = strings.CutSuffix(pattern, "*")
	return literal, isPrefix, !strings.ContainsAny(literal, "*?[\\{%") && !strings.Contains(literal, "//")
}

// patternCovers reports whether wide matches every path that narrow matches. `/*` does not cover `*`: a request for
// an absolute URL may have no path at all.
func patternCovers(wide, narrow string) bool {
	literal, isPrefix, ok := plainPattern(wide)
	inner, _, alsoPlain := plainPattern(narrow)
	if !ok || !alsoPlain {
		return wide == narrow && !strings.Contains(wide, "{")
	}
	return wide == narrow || isPrefix && strings.HasPrefix(inner, literal)
}

// patternsDiffer reports whether no path is matched by both patterns.
func patternsDiffer(a, b string) bool {
	first, firstIsPrefix, ok := plainPattern(a)
	second, secondIsPrefix, alsoPlain := plainPattern(b)
	return ok && alsoPlain && first != second && (!firstIsPrefix || !strings.HasPrefix(second, first)) &&
		(!secondIsPrefix || !strings.HasPrefix(first, second))
}
