package coverage

import (
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// warnings lists likely mistakes on a site with a `protect`, each with file and line of the directive.
func (s *site) warnings() []string {
	var list []string
	say := func(g *guard, format string, args ...any) {
		if text := g.where() + fmt.Sprintf(format, args...); !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	for i := range s.gates {
		if why := s.gates[i].neverMatches(); why != "" {
			say(&s.gates[i], "protect does not match here: %s", why)
		} else if s.gates[i].dead {
			say(&s.gates[i], "protect is never reached: a handler before it answers every request")
		}
	}
	for i := range s.backends {
		b := &s.backends[i]
		if g := b.asksForToken(); g != nil {
			say(g, "a matcher behind this protect asks for Authorization, from which it has taken the token: ask oauth_scope or oauth_claim, or "+
				"write `upstream_token relay` where %s should get the token", b)
		}
		if b.kind == "file_server" || b.kind == forwardAuth || len(s.gates) == 0 || b.asked != "" {
			continue // files are usually public, and another directive authenticates on purpose
		}
		passages := b.passages()
		verdict, why := b.verdict(passages)
		switch {
		case verdict == Conditional && !slices.ContainsFunc(passages, func(p passage) bool { return len(p.only) == 0 }):
			say(passages[0].guard, "%s, but as far as can be told %s answers other requests too, and nobody asks those for a token: put both into one "+
				"`handle` block, and refuse what no block is for", why, b)
		case verdict == Open && !b.onError:
			say(&s.gates[0], "the site of this protect has a route that needs no token: %s answers whoever comes%s; where that is meant, "+
				"write `anonymous` in one `protect` for both, which refuses paths that an upstream may read differently", b, forPaths(b.conditions))
		case verdict == Open:
			if g := s.guards(b.upstreams); g != nil {
				say(g, "the error routes of the site hand requests on to %s, which this protect guards: those that it refused as well", b)
			}
		}
	}
	return list
}

// asksForToken returns a gate that removes the token before a matcher looks for it, or nil.
func (f *flow) asksForToken() *guard {
	for i := range f.conditions {
		c := &f.conditions[i]
		if c.behind == 0 || !slices.ContainsFunc(c.sets, readsBearer) {
			continue
		}
		if g := &f.gates[c.behind-1]; g.view.TakesToken {
			return g
		}
	}
	return nil
}

// readsBearer reports whether a set has a matcher for an Authorization header that can hold a bearer token.
func readsBearer(set caddyhttp.MatcherSet) bool {
	return slices.ContainsFunc(set, func(matcher any) bool {
		switch m := matcher.(type) {
		case *caddyhttp.MatchHeader:
			values, asked := (*m)["Authorization"]
			return asked && (len(values) == 0 || slices.ContainsFunc(values, func(value string) bool {
				return value == "" || value[0] == '*' || strings.HasPrefix(value, "Bearer")
			}))
		case *caddyhttp.MatchHeaderRE:
			return (*m)["Authorization"] != nil
		case *caddyhttp.MatchNot:
			return slices.ContainsFunc(m.MatcherSets, readsBearer)
		}
		return false
	})
}

// where returns the prefix of warnings about a gate.
func (g *guard) where() string {
	if g.Protect.Source == "" {
		return "" // the configuration came as JSON
	}
	return g.Protect.Source + ": "
}

// guards returns a gate that stands before one of the upstreams, or nil.
func (s *site) guards(upstreams []string) *guard {
	for i := range s.backends {
		b := &s.backends[i]
		if !slices.ContainsFunc(b.upstreams, func(u string) bool { return slices.Contains(upstreams, u) }) {
			continue
		}
		for _, p := range b.passages() {
			return p.guard
		}
	}
	return nil
}

// neverMatches returns the reason why no request can reach a gate, as far as it can be known; empty: none.
func (g *guard) neverMatches() string {
	for i := range g.conditions {
		c := &g.conditions[i]
		patterns, _ := pathsOf(c.sets)
		for _, pattern := range patterns {
			if c.stripped != "" && isBelow(pattern, c.stripped) {
				return fmt.Sprintf("its path %s is asked for after handle_path has taken %s away: leave the matcher out, or write the path without it",
					pattern, c.stripped)
			}
		}
		if others := g.conditions[:i]; c.excludedBy(others) {
			var around []string
			for j := range others {
				if len(others[j].sets) > 0 && !isHostAlone(others[j].sets) {
					around = append(around, others[j].inWords())
				}
			}
			return fmt.Sprintf("%s inside of %s", c.inWords(), strings.Join(around, ", "))
		}
	}
	return ""
}

// isBelow reports whether a pattern is for a path or anything below it.
func isBelow(pattern, path string) bool {
	rest, ok := strings.CutPrefix(pattern, strings.ToLower(path))
	return ok && (rest == "" || rest[0] == '/' || rest[0] == '*')
}

func forPaths(conditions []condition) string {
	if paths := clientPaths(conditions); len(paths) > 0 {
		return " at " + strings.Join(paths, " ")
	}
	return ""
}

// String returns the directive and the upstreams.
func (b *backend) String() string {
	if len(b.upstreams) == 0 {
		return b.kind
	}
	return b.kind + " to " + strings.Join(b.upstreams, " ")
}
