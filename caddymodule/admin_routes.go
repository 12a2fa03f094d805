package caddymodule

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// routeView is a handler that answers from a backend, as the operator sees it.
type routeView struct {
	Site string `json:"site"`
	// Paths are the patterns that a path must match, as clients send it; none: it may be any.
	Paths []string `json:"paths,omitzero"`
	// Match is all that is asked of a request on the way, but for the site's hosts.
	Match     []string `json:"match,omitzero"`
	Handler   string   `json:"handler"`
	Upstreams []string `json:"upstreams,omitzero"`
	// ErrorRoute: it is for requests that failed.
	ErrorRoute bool   `json:"error_route,omitzero"`
	Verdict    string `json:"verdict"`
	Why        string `json:"why,omitzero"`
	// Gates are the `protect` before it.
	Gates []gateView `json:"gates,omitzero"`
}

// gateView is a `protect` before a route, and what it asks for.
type gateView struct {
	// Source is where it stands in the Caddyfile, as file:line.
	Source string `json:"source,omitzero"`
	// Only says what makes requests pass beside it; none: it is for all that come to the route.
	Only      []string `json:"only,omitzero"`
	Issuers   []string `json:"issuers"`
	Audience  []string `json:"audience"`
	Scopes    []string `json:"scopes,omitzero"`
	Rules     []string `json:"rules,omitzero"`
	Anonymous []string `json:"anonymous,omitzero"`
	Optional  bool     `json:"optional,omitzero"`
	Resource  string   `json:"resource_metadata,omitzero"`
}

func (s *siteCoverage) view(b *backend) routeView {
	passages := b.flow.passages()
	v := routeView{
		Site: s.String(), Paths: clientPaths(b.flow.conditions), Handler: b.kind, Upstreams: b.upstreams, ErrorRoute: b.flow.onError,
	}
	v.Verdict, v.Why = b.flow.verdict(passages)
	for i := range b.flow.conditions {
		c := &b.flow.conditions[i]
		if text := c.inWords(); len(c.sets) > 0 && !isHostAlone(c.sets) || c.opaque {
			v.Match = append(v.Match, text)
		}
	}
	for _, p := range passages {
		v.Gates = append(v.Gates, p.view())
	}
	return v
}

func isHostAlone(sets caddyhttp.MatcherSets) bool {
	return everyIn(sets, func(set caddyhttp.MatcherSet) bool {
		return everyIn(set, func(matcher any) bool { _, ok := matcher.(*caddyhttp.MatchHost); return ok })
	})
}

// clientPaths returns the path patterns of the innermost condition that has some, as clients send the path. Behind a rewrite
// nobody can tell, so the one before it counts.
func clientPaths(conditions []condition) []string {
	for _, c := range slices.Backward(conditions) {
		if !c.known || c.opaque || len(c.sets) == 0 {
			continue
		}
		var patterns []string
		all := everyIn(c.sets, func(set caddyhttp.MatcherSet) bool {
			return slices.ContainsFunc(set, func(matcher any) bool {
				path, ok := matcher.(*caddyhttp.MatchPath)
				if ok {
					for _, pattern := range *path {
						patterns = append(patterns, c.stripped+pattern)
					}
				}
				return ok
			})
		})
		if all {
			return patterns
		}
	}
	return nil
}

func (p *passage) view() gateView {
	v := gateView{Source: p.Source, Only: p.only, Scopes: p.Scopes, Optional: p.Optional, Resource: p.challenge().Challenge().ResourceMetadata}
	for _, issuer := range p.issuers {
		v.Issuers = append(v.Issuers, issuer.name)
		for _, audience := range issuer.audience {
			if !slices.Contains(v.Audience, audience) {
				v.Audience = append(v.Audience, audience)
			}
		}
	}
	for _, rule := range p.Require {
		v.Rules = append(v.Rules, rule.inWords())
	}
	for i, set := range p.anonymous.matchers {
		words := inWordsSets(caddyhttp.MatcherSets{set}, "")
		if patterns := p.anonymous.patterns[i]; len(set) == 1 && patterns != nil {
			words = "path " + strings.Join(patterns, " ") // Caddy has folded the case of the others
		}
		v.Anonymous = append(v.Anonymous, words)
	}
	if len(p.CORS) > 0 {
		v.Anonymous = append(v.Anonymous, "preflights from "+strings.Join(p.CORS, " "))
	}
	return v
}

// inWords says what a rule asks for.
func (r *Rule) inWords() string {
	var words string
	switch {
	case len(r.Scopes) > 0:
		words = "scope " + strings.Join(r.Scopes, " ")
	case len(r.AnyScope) > 0:
		words = "any_scope " + strings.Join(r.AnyScope, " ")
	case len(r.Roles) > 0:
		words = "role " + strings.Join(r.Roles, " ")
	case len(r.Groups) > 0:
		words = "group " + strings.Join(r.Groups, " ")
	case r.Claim != "":
		words = "claim " + r.Claim + " " + strings.Join(r.Values, " ")
	case r.Expression != "":
		words = "expression " + r.Expression
	case len(r.ACR) > 0:
		words = "acr " + strings.Join(r.ACR, " ")
	default:
		words = "max_age " + time.Duration(r.MaxAge).String()
	}
	if len(r.matchers) > 0 {
		words += " for " + inWordsSets(r.matchers, "")
	}
	return words
}

// serveRoutes tells the operator what protects what. It needs no store, and no issuer.
func serveRoutes(w http.ResponseWriter, _ *http.Request) {
	app := covering.newest()
	if app == nil {
		writeAdminError(w, http.StatusServiceUnavailable, errNoApp)
		return
	}
	writeAdmin(w, http.StatusOK, app.covered.Load().routes)
}
