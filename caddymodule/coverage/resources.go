package coverage

import (
	"fmt"
	"iter"
	"slices"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// indicators are the resources for which our issuer's tokens can be asked (RFC 8707), each in the spelling that goes into aud.
type indicators struct {
	spelled map[string]string // by the folded form
	list    []string
}

// add adds a resource and returns its first spelling, which is its name in tokens of ours. It does not add one that is not an absolute URI.
func (in *indicators) add(resource string) string {
	folded, ok := oauth.FoldResource(resource)
	if !ok {
		return resource
	}
	if known := in.spelled[folded]; known != "" {
		return known
	}
	in.spelled[folded] = resource
	in.list = append(in.list, resource)
	return resource
}

// accept tells each gate for which resources tokens of ours pass, and notes all for which they can be asked: the issuer's own
// audiences, and the resource and the audiences of each gate that takes our tokens.
func (found *Result) accept(sites []*site, known names, issuer *Issuer) {
	in := indicators{spelled: make(map[string]string)}
	if issuer != nil {
		for _, audience := range issuer.Audiences {
			in.add(audience)
		}
	}
	type accepted struct {
		named     []gate.NamedResource
		audiences []string
	}
	guarded := make(map[*gate.Protect]*accepted)
	for g := range gatesOf(sites) {
		told := guarded[g.Protect]
		if told == nil {
			told = new(accepted)
			guarded[g.Protect] = told
		}
		called := slices.Clone(known[g])
		for i, n := range called {
			at := gate.NamedResource{Host: n.host}
			if g.takesOwn() {
				n.resource, n.secure = in.add(n.resource), in.add(n.secure)
				called[i] = n
			}
			for _, spelled := range []string{n.resource, n.secure} {
				// With `audience`, tokens that are for the issuer's own are refused, whatever the route is called.
				refused := len(g.Protect.Audience) > 0 && issuer.isAudience(spelled)
				if spelled != "" && !refused {
					at.Resources = append(at.Resources, spelled)
				}
			}
			told.named = append(told.named, at)
		}
		if why := issuer.requiresTooMuch(g, called); why != "" && !slices.Contains(found.Warnings, g.where()+why) {
			found.Warnings = append(found.Warnings, g.where()+why)
		}
	}
	for g := range gatesOf(sites) { // resources come first: their spelling is published
		for _, audience := range g.ownAudience() {
			guarded[g.Protect].audiences = append(guarded[g.Protect].audiences, in.add(audience))
		}
	}
	for p, told := range guarded {
		p.Accept(told.named, told.audiences)
		if p.MCP == nil {
			continue
		}
		agents := slices.Clone(told.audiences)
		for _, at := range told.named {
			agents = append(agents, at.Resources...)
		}
		found.AgentResources = append(found.AgentResources, slices.DeleteFunc(agents, issuer.isAudience)...)
	}
	found.Resources = in.list
}

// gatesOf walks through the gates, in the order of the routes, and the sites where they stand.
func gatesOf(sites []*site) iter.Seq2[*guard, *site] {
	return func(yield func(*guard, *site) bool) {
		for _, s := range sites {
			for i := range s.gates {
				if !yield(&s.gates[i], s) {
					return
				}
			}
		}
	}
}

// isAudience reports whether tokens that are asked for nothing in particular are for the resource.
func (i *Issuer) isAudience(resource string) bool {
	return i != nil && slices.Contains(i.Audiences, resource)
}

// requiresTooMuch returns what is wrong with the resource_required of a gate; empty: nothing.
func (i *Issuer) requiresTooMuch(g *guard, known []name) string {
	word := "resource_required"
	if g.Protect.MCP != nil {
		word = "mcp"
	}
	switch {
	case !g.Protect.ResourceRequired:
		return ""
	case len(known) == 0:
		return word + " lets no token pass here, since the site has no host of which a resource could be made: write `resource https://…`"
	case !g.takesOwn():
		return ""
	}
	for _, n := range known {
		if i.isAudience(n.resource) {
			return fmt.Sprintf("%s changes nothing here: the resource is %s, for which every token of the issuer is. Write another `resource`", word, n.resource)
		}
	}
	return ""
}
