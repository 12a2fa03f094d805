package coverage

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate"
)

// inWords says which requests meet the condition.
func (c *condition) inWords() string {
	switch {
	case len(c.sets) > 0:
		return setsInWords(c.sets, c.stripped)
	case c.group != "":
		return "what no block before it has answered"
	}
	return "some answers of a backend"
}

// setsInWords says which requests matcher sets are for, with the path as the client sends it. Of headers, queries and
// variables it names only which they are: their values may be secrets.
func setsInWords(sets caddyhttp.MatcherSets, stripped string) string {
	var alternatives []string
	for _, set := range sets {
		var parts []string
		for _, matcher := range set {
			parts = append(parts, matcherInWords(matcher, stripped))
		}
		slices.Sort(parts) // they come out of a map
		alternatives = append(alternatives, strings.Join(parts, ", "))
	}
	return strings.Join(alternatives, " or ")
}

func matcherInWords(matcher any, stripped string) string {
	switch m := matcher.(type) {
	case *caddyhttp.MatchPath:
		return "path " + strings.Join(clientPatterns(*m, stripped), " ")
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
		return "not (" + setsInWords(m.MatcherSets, stripped) + ")"
	}
	if module, ok := matcher.(caddy.Module); ok {
		return module.CaddyModule().ID.Name()
	}
	return "another matcher"
}

// clientPatterns are path patterns for the path as the client sends it.
func clientPatterns(patterns []string, stripped string) []string {
	all := make([]string, len(patterns))
	for i, pattern := range patterns {
		all[i] = stripped + pattern
	}
	return all
}

// clientPaths returns the path patterns of the innermost condition that has some, as clients send the path. Behind a rewrite
// nobody can tell, so the one before it counts.
func clientPaths(conditions []condition) []string {
	for _, c := range slices.Backward(conditions) {
		if c.rewritten {
			continue
		}
		if patterns, all := pathsOf(c.sets); all {
			return clientPatterns(patterns, c.stripped)
		}
	}
	return nil
}

// pathsOf lists the path patterns of matcher sets, and reports whether each set has some.
func pathsOf(sets caddyhttp.MatcherSets) (patterns []string, all bool) {
	all = len(sets) > 0
	for _, set := range sets {
		has := false
		for _, matcher := range set {
			if path, ok := matcher.(*caddyhttp.MatchPath); ok {
				patterns, has = append(patterns, *path...), true
			}
		}
		all = all && has
	}
	return patterns, all
}

// isHostAlone reports whether nothing but a host is asked for.
func isHostAlone(sets caddyhttp.MatcherSets) bool {
	return every(sets, func(set caddyhttp.MatcherSet) bool {
		return every(set, func(matcher any) bool { _, ok := matcher.(*caddyhttp.MatchHost); return ok })
	})
}

// ruleInWords says what a rule asks for.
func ruleInWords(r *gate.Rule) string {
	switch {
	case len(r.Scopes) > 0:
		return "scope " + strings.Join(r.Scopes, " ")
	case len(r.AnyScope) > 0:
		return "any_scope " + strings.Join(r.AnyScope, " ")
	case len(r.Roles) > 0:
		return "role " + strings.Join(r.Roles, " ")
	case len(r.Groups) > 0:
		return "group " + strings.Join(r.Groups, " ")
	case r.Claim != "":
		return "claim " + r.Claim + " " + strings.Join(r.Values, " ")
	case r.Expression != "":
		return "expression " + r.Expression
	case len(r.ACR) > 0:
		return "acr " + strings.Join(r.ACR, " ")
	}
	return "max_age " + time.Duration(r.MaxAge).String()
}
