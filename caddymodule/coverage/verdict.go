package coverage

import (
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Verdicts about a handler that answers from a backend.
const (
	Protected   = "protected"   // every request has passed a `protect`
	Conditional = "conditional" // some requests may not have, or it is unknown
	Open        = "open"        // no `protect` stands before it
	Unreached   = "unreached"   // no request reaches it at all
)

// passage is a gate on the way to a backend.
type passage struct {
	*guard
	only []string // conditions of the requests that the gate checks; none: it checks all
}

// passages returns the gates that stand before a handler for at least some requests.
func (f *flow) passages() []passage {
	var list []passage
	for i := range f.gates {
		p, never := passage{guard: &f.gates[i]}, false
		for j := range p.conditions {
			c := &p.conditions[j]
			if never = c.excludedBy(f.conditions); never {
				break
			}
			if !c.impliedBy(f.conditions) {
				p.only = append(p.only, c.inWords())
			}
		}
		if !never {
			list = append(list, p)
		}
	}
	return list
}

// verdict returns the verdict on a handler behind these passages, and the reason if it is not Protected.
func (f *flow) verdict(passages []passage) (verdict, why string) {
	switch {
	case f.dead:
		return Unreached, "a handler before it answers every request"
	case len(passages) == 0 && f.onError:
		return Open, "requests that failed come here, those that were refused among them"
	case len(passages) == 0 && f.asked != "":
		return Open, f.asked + " asks who is calling"
	case len(passages) == 0:
		return Open, ""
	}
	for _, p := range passages {
		switch {
		case len(p.only) > 0:
			why = "protect is for " + strings.Join(p.only, ", ") + " only"
		case p.Protect.Optional:
			why = "a token is optional"
		default:
			return Protected, ""
		}
	}
	return Conditional, why
}

// view returns the Route of a backend.
func (s *site) view(b *backend) Route {
	passages := b.passages()
	v := Route{Site: s.String(), Paths: clientPaths(b.conditions), Handler: b.kind, Upstreams: b.upstreams, ErrorRoute: b.onError}
	v.Verdict, v.Why = b.verdict(passages)
	for i := range b.conditions {
		if c := &b.conditions[i]; !isHostAlone(c.sets) && (len(c.sets) > 0 || c.group == "") {
			v.Match = append(v.Match, c.inWords())
		}
	}
	for _, p := range passages {
		v.Gates = append(v.Gates, p.gate())
	}
	return v
}

// gate returns the Gate of a passage.
func (p *passage) gate() Gate {
	v := Gate{Source: p.Protect.Source, Only: p.only, Scopes: p.Protect.Scopes, Optional: p.Protect.Optional, Resource: p.Protect.MetadataURL()}
	for _, issuer := range p.view.Issuers {
		v.Issuers = append(v.Issuers, issuer.Name)
		for _, audience := range issuer.Audience {
			if !slices.Contains(v.Audience, audience) {
				v.Audience = append(v.Audience, audience)
			}
		}
	}
	if p.Protect.ResourceRequired {
		v.Audience = p.Protect.Accepted()
	}
	for i, rule := range p.Protect.Require {
		words := ruleInWords(rule)
		if matchers := p.view.Rules[i]; len(matchers) > 0 {
			words += " for " + setsInWords(matchers, "")
		}
		v.Rules = append(v.Rules, words)
	}
	if v.MCP = p.Protect.MCP != nil; v.MCP {
		for _, tool := range p.Protect.MCP.Tools {
			v.Tools = append(v.Tools, tool.InWords(ruleInWords))
		}
	}
	for _, anonymous := range p.view.Anonymous {
		words := setsInWords(caddyhttp.MatcherSets{anonymous.Matchers}, "")
		if len(anonymous.Matchers) == 1 && anonymous.Paths != nil {
			words = "path " + strings.Join(anonymous.Paths, " ") // Caddy has folded the case of the others
		}
		v.Anonymous = append(v.Anonymous, words)
	}
	if len(p.Protect.CORS) > 0 {
		v.Anonymous = append(v.Anonymous, "preflights from "+strings.Join(p.Protect.CORS, " "))
	}
	return v
}
