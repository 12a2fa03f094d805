package oauth

import (
	"slices"
	"strings"
	"sync/atomic"
)

// Resources are the resources for which a client can ask a token (RFC 8707). They are published once all routes are known. The zero value
// knows none yet.
type Resources struct {
	known atomic.Pointer[publishedResources]
}

type publishedResources struct {
	spelled  map[string]string
	patterns []string // of resources whose host has a *
	agents   []string
}

// Publish replaces the resources. Of several spellings of a resource the first is the one in aud. A * in a host stands for one label, and
// so the resource exists at each of those hosts. agents are the resources that are MCP servers.
func (rs *Resources) Publish(identifiers, agents []string) {
	exact, patterns := []string(nil), []string(nil)
	for _, identifier := range identifiers {
		if _, host, _ := cutHost(identifier); strings.Contains(host, "*") {
			patterns = append(patterns, identifier)
		} else {
			exact = append(exact, identifier)
		}
	}
	rs.known.Store(&publishedResources{spellings(exact), patterns, agents})
}

// OfAgents reports whether a token with that audience is for an MCP server.
func (rs *Resources) OfAgents(audience []string) bool {
	known := rs.known.Load()
	return known != nil && slices.ContainsFunc(audience, func(resource string) bool {
		return slices.ContainsFunc(known.agents, func(agent string) bool { return MatchResource(agent, resource) })
	})
}

// spelling returns how tokens name a resource, given in its folded form; empty: it is not known.
func (known *publishedResources) spelling(folded string) string {
	if spelled := known.spelled[folded]; spelled != "" {
		return spelled
	}
	if slices.ContainsFunc(known.patterns, func(pattern string) bool { return MatchResource(pattern, folded) }) {
		return folded
	}
	return ""
}

// spellings maps the folded form of each resource to how it is spelled.
func spellings(identifiers []string) map[string]string {
	known := make(map[string]string, len(identifiers))
	for _, identifier := range identifiers {
		if folded, ok := FoldResource(identifier); ok && known[folded] == "" {
			known[folded] = identifier
		}
	}
	return known
}

// Spelling returns an audience as it is spelled in aud. A known resource has one spelling.
func (rs *Resources) Spelling(audience string) string {
	if published := rs.known.Load(); published != nil {
		if folded, ok := FoldResource(audience); ok {
			if spelled := published.spelling(folded); spelled != "" {
				return spelled
			}
		}
	}
	return audience
}

// Has reports whether a token with this audience, as it is spelled in aud, is for a known resource.
func (rs *Resources) Has(audience string) bool {
	published := rs.known.Load()
	if published == nil {
		return false
	}
	folded, ok := FoldResource(audience)
	return ok && published.spelling(folded) == audience
}

// Audience returns the audience of a token that is requested for resources, which a client may spell in its own way and repeat; nil: the
// issuer's own. A grant for some resources can be narrowed to a part of them, and without a request it is for all of them. A grant for no
// particular resource can be used for any known one.
func (rs *Resources) Audience(asked, granted []string) ([]string, error) {
	if len(asked) == 0 {
		return granted, nil
	}
	known, reason := &publishedResources{spelled: spellings(granted)}, "resource_not_granted"
	if len(granted) == 0 {
		if known, reason = rs.known.Load(), "resource_unknown"; known == nil {
			return nil, Unavailable("resources_unknown", nil)
		}
	}
	var audience []string
	for _, indicator := range asked {
		folded, ok := FoldResource(indicator)
		if !ok {
			return nil, NewError(InvalidTarget, "resource_malformed")
		}
		resource := known.spelling(folded)
		if resource == "" {
			return nil, NewError(InvalidTarget, reason)
		}
		if !slices.Contains(audience, resource) {
			audience = append(audience, resource)
		}
	}
	return audience, nil
}
