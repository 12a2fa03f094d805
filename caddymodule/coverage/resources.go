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

// add returns how tokens of ours name a resource. Of several spellings the first counts; what is no absolute URI is none.
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
func (found *Result) accept(sites []*site, issuer *Issuer) {
	in := indicators{spelled: make(map[string]string)}
	if issuer != nil {
		for _, audience := range issuer.Audiences {
			in.add(audience)
		}
	}
	type names struct{ resources, audiences []string }
	guarded := make(map[*gate.Protect]*names)
	secure := issuer.secureResources(sites)
	for g, s := range gatesOf(sites) {
		known := guarded[g.Protect]
		if known == nil {
			known = new(names)
			guarded[g.Protect] = known
		}
		resource := issuer.resourceOf(s, g)
		other := secure[resource]
		if g.takesOwn() {
			resource, other = in.add(resource), in.add(other)
		}
		for _, name := range []string{resource, other} {
			// With `audience`, tokens that are for the issuer's own are refused, whatever the route is called.
			refused := len(g.Audience) > 0 && issuer.isAudience(name)
			if name != "" && !refused && !slices.Contains(known.resources, name) {
				known.resources = append(known.resources, name)
			}
		}
		if why := issuer.requiresTooMuch(g, resource); why != "" && !slices.Contains(found.Warnings, g.where()+why) {
			found.Warnings = append(found.Warnings, g.where()+why)
		}
	}
	for g := range gatesOf(sites) { // resources come first: their spelling is published
		for _, audience := range g.ownAudience() {
			guarded[g.Protect].audiences = append(guarded[g.Protect].audiences, in.add(audience))
		}
	}
	for p, known := range guarded {
		p.Accept(known.resources, known.audiences)
		if p.MCP != nil {
			found.AgentResources = append(found.AgentResources, slices.DeleteFunc(slices.Concat(known.resources, known.audiences), issuer.isAudience)...)
		}
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
func (i *Issuer) requiresTooMuch(g *guard, resource string) string {
	word := "resource_required"
	if g.MCP != nil {
		word = "mcp"
	}
	switch {
	case !g.ResourceRequired:
		return ""
	case resource == "":
		return word + " lets no token pass here, since the site has no host of which a resource could be made: write `resource https://…`"
	case g.takesOwn() && i.isAudience(resource):
		return fmt.Sprintf("%s changes nothing here: the resource is %s, for which every token of the issuer is. Write another `resource`", word, resource)
	}
	return ""
}
