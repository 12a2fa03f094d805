package gate

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/hostpaths"
	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// parseResource reads the resource identifier.
func parseResource(p *directive, h httpcaddyfile.Helper) error {
	if err := setting.TextOrPlaceholder(h.Dispenser, &p.Resource); err != nil {
		return err
	}
	if setting.IsPlaceholder(p.Resource) {
		return nil
	}
	if err := oauth.CheckResource(p.Resource); err != nil {
		return h.Errf("%v", err)
	}
	return nil
}

// bind resolves and checks the resource identifier of a route, and returns it; empty: none is configured.
func (t *tokens) bind(p *Protect) (resource string, err error) {
	if p.ResourceRequired && len(p.Audience) > 0 {
		return "", errors.New("resource_required and audience contradict each other: tokens would have to be for the resource alone. Take one of them out")
	}
	accepted := []string{} // until accept
	if p.Resource != "" {
		if resource, err = setting.Resolve("resource", p.Resource); err != nil {
			return "", err
		}
		if err := oauth.CheckResource(resource); err != nil {
			return "", err
		}
		accepted = append(accepted, resource)
	}
	if t.forResource = p.ResourceRequired; t.forResource {
		t.guarded.Store(&guarded{fixed: accepted})
	}
	return resource, nil
}

// parseResourceRequired reads the option without arguments.
func parseResourceRequired(p *directive, h httpcaddyfile.Helper) error {
	if h.NextArg() {
		return h.ArgErr()
	}
	p.ResourceRequired = true
	return nil
}

// NamedResource has the identifiers of the resource that a gate guards, for requests to some hosts of its site.
type NamedResource struct {
	// Host is one of the hosts, a pattern with a * for one label, or empty for any.
	Host string
	// Resources are its identifiers. Where Host is a pattern, theirs is the same.
	Resources []string
}

// guarded is what a gate guards.
type guarded struct {
	named     []NamedResource
	audiences []string // that are accepted at every host
	fixed     []string // audiences and all identifiers, if they are the same for every host; nil: they are not
}

// at returns the audiences that are accepted in a request for a host.
func (g *guarded) at(host string) []string {
	if g.fixed != nil {
		return g.fixed
	}
	return slices.Concat(g.audiences, g.resourcesAt(host))
}

// resourcesAt returns the identifiers of the resource at a host.
func (g *guarded) resourcesAt(host string) (resources []string) {
	for _, n := range g.named {
		if !oauth.MatchHost(n.Host, host) {
			continue
		}
		for _, resource := range n.Resources {
			resources = append(resources, oauth.AtHost(resource, host))
		}
	}
	return resources
}

// accept sets what the gate guards: the names of its resource (RFC 8707) and further audiences of our own tokens.
func (t *tokens) accept(named []NamedResource, audiences []string) {
	told := &guarded{named: named}
	if !t.forResource && t.own != nil {
		told.audiences = slices.Concat(t.own.audience, audiences)
	}
	if !slices.ContainsFunc(named, func(n NamedResource) bool { return strings.Contains(n.Host, "*") || n.Host != named[0].Host }) {
		told.fixed = append([]string{}, told.audiences...)
		for _, n := range named { // a route without a matcher of hosts around it is reached by requests for one host alone
			told.fixed = append(told.fixed, n.Resources...)
		}
	}
	t.guarded.Store(told)
}

// accepted returns the audiences that are accepted in our own tokens, of all hosts; nil before accept.
func (t *tokens) accepted() (accepted []string) {
	known := t.guarded.Load()
	if known == nil {
		return nil
	}
	accepted = slices.Clone(known.audiences)
	for _, n := range known.named {
		for _, resource := range n.Resources {
			if !slices.Contains(accepted, resource) {
				accepted = append(accepted, resource)
			}
		}
	}
	return accepted
}

// Accept sets what the gate guards: the names of its resource (RFC 8707) and further audiences of our own tokens.
func (p *Protect) Accept(named []NamedResource, audiences []string) {
	p.tokens.accept(named, audiences)
}

// Accepted returns the audiences that are accepted in our own tokens, of all hosts; nil before Accept.
func (p *Protect) Accepted() []string { return p.tokens.accepted() }

// audienceOf returns the audiences that are accepted in tokens of the issuer, in a request for a host.
func (t *tokens) audienceOf(i *routeIssuer, host string) []string {
	if known := t.guarded.Load(); known != nil && (i.external == nil || t.forResource) {
		return known.at(host)
	}
	return i.audience
}

// challenges are the challenges of a route for requests to some of its hosts: secure for requests that came over TLS to a trusted
// proxy, plain for all others.
type challenges struct {
	host          string // as in NamedResource
	plain, secure *answers.PreparedChallenge
}

// challenger holds the challenges of a route.
type challenger struct {
	usual *answers.PreparedChallenge
	// described are the challenges that name the route's own metadata; nil until all routes are known.
	described atomic.Pointer[[]challenges]
}

// challenge returns the challenge for a request that this route refuses.
func (c *challenger) challenge(r *http.Request) *answers.PreparedChallenge {
	described := c.described.Load()
	if described == nil {
		return c.usual
	}
	host := oauth.Hostname(r.Host)
	for _, found := range *described {
		if !oauth.MatchHost(found.host, host) {
			continue
		}
		prepared := found.plain
		if hostpaths.ThroughTLS(r) {
			prepared = found.secure
		}
		if !strings.Contains(found.host, "*") {
			return prepared
		}
		atHost := prepared.Challenge()
		atHost.ResourceMetadata = oauth.AtHost(atHost.ResourceMetadata, host)
		return atHost.Prepare()
	}
	return c.usual
}
