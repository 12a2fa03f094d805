package coverage

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/rule"
)

// inWords describes the requests that meet the condition.
func (c *condition) inWords() string {
	switch {
	case len(c.sets) > 0:
		return setsInWords(c.sets, c.stripped)
	case c.group != "":
		return "what no block before it has answered"
	}
	return "some answers of a backend"
}

// setsInWords describes the requests that matcher sets match, with the path as the client sends it. It names headers,
// queries and variables without their values, which may be secrets.
func setsInWords(sets caddyhttp.MatcherSets, stripped string) string {
	var alternatives []string
	for _, set := range sets {
		var parts []string
		for _, matcher := range set {
			parts = append(parts, matcherInWords(matcher, stripped))
		}
		slices.Sort(parts) // the order of a map
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

// clientPatterns returns path patterns for the path as the client sends it.
func clientPatterns(patterns []string, stripped string) []string {
	all := make([]string, len(patterns))
	for i, pattern := range patterns {
		all[i] = stripped + pattern
	}
	return all
}

// clientPaths returns the path patterns of the innermost condition that has any, as clients send the path. Conditions
// after a rewrite do not count, because the client's path is unknown there.
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

// pathsOf returns the path patterns of matcher sets, and reports whether each set has some.
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

// isHostAlone reports whether the sets match nothing but hosts.
func isHostAlone(sets caddyhttp.MatcherSets) bool {
	return every(sets, func(set caddyhttp.MatcherSet) bool {
		return every(set, func(matcher any) bool { _, ok := matcher.(*caddyhttp.MatchHost); return ok })
	})
}

// ruleInWords describes what a rule requires.
func ruleInWords(r *rule.Rule) string {
	switch {
	case len(r.Scopes) > 0:
		return "scope " + strings.Join(r.Scopes, " ")
	case len(r.AnyScope) > 0:
		return "any_scope " + strings.Join(r.AnyScope, " ")
	case len(r.Users) > 0:
		return "user " + strings.Join(r.Users, " ")
	case len(r.EmailDomains) > 0:
		return "email_domain " + strings.Join(r.EmailDomains, " ")
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
