package caddymodule

import (
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/caddymodule/coverage"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate"
)

// view is a backend as the operator sees it.
func (s *siteCoverage) view(b *backend) coverage.Route {
	passages := b.flow.passages()
	v := coverage.Route{
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
		v.Gates = append(v.Gates, p.gateView())
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

// gateView is a gate as the operator sees it.
func (p *passage) gateView() coverage.Gate {
	v := coverage.Gate{Source: p.Source, Only: p.only, Scopes: p.Scopes, Optional: p.Optional, Resource: p.MetadataURL()}
	for _, issuer := range p.view.Issuers {
		v.Issuers = append(v.Issuers, issuer.Name)
		for _, audience := range issuer.Audience {
			if !slices.Contains(v.Audience, audience) {
				v.Audience = append(v.Audience, audience)
			}
		}
	}
	for i, rule := range p.Require {
		words := ruleInWords(rule)
		if matchers := p.view.Rules[i]; len(matchers) > 0 {
			words += " for " + inWordsSets(matchers, "")
		}
		v.Rules = append(v.Rules, words)
	}
	for _, anonymous := range p.view.Anonymous {
		words := inWordsSets(caddyhttp.MatcherSets{anonymous.Matchers}, "")
		if len(anonymous.Matchers) == 1 && anonymous.Paths != nil {
			words = "path " + strings.Join(anonymous.Paths, " ") // Caddy has folded the case of the others
		}
		v.Anonymous = append(v.Anonymous, words)
	}
	if len(p.CORS) > 0 {
		v.Anonymous = append(v.Anonymous, "preflights from "+strings.Join(p.CORS, " "))
	}
	return v
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
