package caddymodule

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// follows reports whether every request that one matcher lets through is let through by the other as well.
func follows(one, other any) bool {
	switch other := other.(type) {
	case *caddyhttp.MatchPath:
		one, ok := one.(*caddyhttp.MatchPath)
		return ok && everyIn(*one, func(narrow string) bool {
			return slices.ContainsFunc(*other, func(wide string) bool { return patternCovers(wide, narrow) })
		})
	case *caddyhttp.MatchMethod:
		one, ok := one.(*caddyhttp.MatchMethod)
		return ok && everyIn(*one, func(method string) bool { return slices.Contains(*other, method) })
	case *caddyhttp.MatchHost:
		one, ok := one.(*caddyhttp.MatchHost)
		return ok && everyIn(*one, func(host string) bool { return slices.Contains(*other, host) })
	}
	a, known := signature(one)
	b, alsoKnown := signature(other)
	return known && alsoKnown && a == b
}

// contradict reports whether no request is let through by both matchers.
func contradict(one, other any) bool {
	if excludes(one, other) || excludes(other, one) {
		return true
	}
	switch other := other.(type) {
	case *caddyhttp.MatchPath:
		one, ok := one.(*caddyhttp.MatchPath)
		return ok && everyIn(*one, func(a string) bool { return everyIn(*other, func(b string) bool { return patternsDiffer(a, b) }) })
	case *caddyhttp.MatchMethod:
		one, ok := one.(*caddyhttp.MatchMethod)
		return ok && everyIn(*one, func(method string) bool { return !slices.Contains(*other, method) })
	case *caddyhttp.MatchHost:
		one, ok := one.(*caddyhttp.MatchHost)
		fuzzy := func(host string) bool { return strings.ContainsAny(host, "*{") }
		return ok && !slices.ContainsFunc(*other, fuzzy) && everyIn(*one, func(host string) bool {
			return !fuzzy(host) && !slices.Contains(*other, host)
		})
	}
	return false
}

// excludes reports whether a matcher is the negation of something that follows from the other.
func excludes(negation, other any) bool {
	not, ok := negation.(*caddyhttp.MatchNot)
	return ok && slices.ContainsFunc(not.MatcherSets, func(set caddyhttp.MatcherSet) bool {
		return len(set) == 1 && follows(other, set[0])
	})
}

// everyIn reports whether something holds for each of at least one.
func everyIn[T any](list []T, holds func(T) bool) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(item T) bool { return !holds(item) })
}

// plainPattern takes a path pattern apart that is one exact path, or the beginning of paths with a star behind it.
func plainPattern(pattern string) (literal string, isPrefix, ok bool) {
	literal, isPrefix = strings.CutSuffix(pattern, "*")
	return literal, isPrefix, !strings.ContainsAny(literal, "*?[\\{%") && !strings.Contains(literal, "//")
}

// patternCovers reports whether every path that a pattern matches is matched by a wider one. `/*` does not cover `*`: a
// request for an absolute URL may have no path at all.
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
	if !ok || !alsoPlain {
		return false
	}
	switch {
	case firstIsPrefix && secondIsPrefix:
		return !strings.HasPrefix(first, second) && !strings.HasPrefix(second, first)
	case firstIsPrefix:
		return !strings.HasPrefix(second, first)
	case secondIsPrefix:
		return !strings.HasPrefix(first, second)
	}
	return first != second
}

// signature is a text that two matchers share only when they let the same requests through. Of matchers that do not keep
// all of their settings as JSON, and of those that nobody here knows, there is none.
func signature(matcher any) (text string, known bool) {
	switch matcher := matcher.(type) {
	case *caddyhttp.MatchNot:
		var parts []string
		for _, set := range matcher.MatcherSets {
			var inner []string
			for _, m := range set {
				text, known := signature(m)
				if !known {
					return "", false
				}
				inner = append(inner, text)
			}
			slices.Sort(inner)
			parts = append(parts, strings.Join(inner, "&"))
		}
		return "not(" + strings.Join(parts, "|") + ")", true
	case *caddyhttp.MatchPath, *caddyhttp.MatchPathRE, *caddyhttp.MatchMethod, *caddyhttp.MatchHost, *caddyhttp.MatchQuery,
		*caddyhttp.MatchHeader, *caddyhttp.MatchHeaderRE, *caddyhttp.MatchProtocol, *caddyhttp.MatchRemoteIP, *caddyhttp.MatchClientIP,
		*caddyhttp.MatchExpression, *caddyhttp.VarsMatcher, *caddyhttp.MatchVarsRE:
		settings, err := json.Marshal(matcher)
		return fmt.Sprintf("%T%s", matcher, settings), err == nil
	}
	return "", false
}

// inWordsSets says which requests matcher sets are for, with the path as the client sends it. Of headers, queries and
// variables it names only which they are: their values may be secrets.
func inWordsSets(sets caddyhttp.MatcherSets, stripped string) string {
	var alternatives []string
	for _, set := range sets {
		var parts []string
		for _, matcher := range set {
			parts = append(parts, inWordsMatcher(matcher, stripped))
		}
		slices.Sort(parts) // they come out of a map
		alternatives = append(alternatives, strings.Join(parts, ", "))
	}
	return strings.Join(alternatives, " or ")
}

func inWordsMatcher(matcher any, stripped string) string {
	switch m := matcher.(type) {
	case *caddyhttp.MatchPath:
		patterns := make([]string, len(*m))
		for i, pattern := range *m {
			patterns[i] = stripped + pattern
		}
		return "path " + strings.Join(patterns, " ")
	case *caddyhttp.MatchPathRE:
		return "path_regexp " + m.Pattern
	case *caddyhttp.MatchMethod:
		return "method " + strings.Join(*m, " ")
	case *caddyhttp.MatchHost:
		return "host " + strings.Join(*m, " ")
	case *caddyhttp.MatchProtocol:
		return "protocol " + string(*m)
	case *caddyhttp.MatchRemoteIP:
		return "remote_ip " + strings.Join(m.Ranges, " ")
	case *caddyhttp.MatchClientIP:
		return "client_ip " + strings.Join(m.Ranges, " ")
	case *caddyhttp.MatchHeader:
		return "header " + strings.Join(slices.Sorted(maps.Keys(*m)), " ")
	case *caddyhttp.MatchHeaderRE:
		return "header_regexp " + strings.Join(slices.Sorted(maps.Keys(*m)), " ")
	case *caddyhttp.MatchQuery:
		return "query " + strings.Join(slices.Sorted(maps.Keys(*m)), " ")
	case *caddyhttp.MatchNot:
		return "not (" + inWordsSets(m.MatcherSets, stripped) + ")"
	}
	if module, ok := matcher.(caddy.Module); ok {
		return module.CaddyModule().ID.Name()
	}
	return "another matcher"
}
