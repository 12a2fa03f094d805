package gate

import (
	"errors"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/hostpaths"
	"github.com/gatehouse-auth/gatehouse/caddymodule/mcp"
	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// parseResource reads the resource identifier.
func (p *Protect) parseResource(h httpcaddyfile.Helper) error {
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

// readResource resolves and checks the resource identifier.
func (p *Protect) readResource() (err error) {
	if p.ResourceRequired && len(p.Audience) > 0 {
		return errors.New("resource_required and audience contradict each other: tokens would have to be for the resource alone. Take one of them out")
	}
	accepted := []string{} // until Accept
	if p.Resource != "" {
		if p.resource, err = setting.Resolve("resource", p.Resource); err != nil {
			return err
		}
		if err := oauth.CheckResource(p.resource); err != nil {
			return err
		}
		accepted = append(accepted, p.resource)
	}
	if p.ResourceRequired {
		p.accepted.Store(&accepted)
	}
	return nil
}

// parseResourceRequired reads the option without arguments.
func (p *Protect) parseResourceRequired(h httpcaddyfile.Helper) error {
	if h.NextArg() {
		return h.ArgErr()
	}
	p.ResourceRequired = true
	return nil
}

// Accept tells the gate what it guards: its resources, as tokens of ours name them (RFC 8707), and how else those name its
// audiences.
func (p *Protect) Accept(resources, audiences []string) {
	accepted := resources
	if !p.ResourceRequired && p.own != nil {
		accepted = slices.Concat(p.own.audience, audiences, resources)
	}
	p.accepted.Store(&accepted)
	if p.MCP != nil {
		own := mcp.OriginsOf(resources)
		p.ownOrigins.Store(&own)
	}
}

// Accepted returns the audiences of which a token of ours must name one; nil before Accept.
func (p *Protect) Accepted() []string {
	if accepted := p.accepted.Load(); accepted != nil {
		return *accepted
	}
	return nil
}

// audienceOf returns the audiences of which a token of the issuer must name one.
func (p *Protect) audienceOf(i *routeIssuer) []string {
	if accepted := p.accepted.Load(); accepted != nil && (i.external == nil || p.ResourceRequired) {
		return *accepted
	}
	return i.audience
}

// challenges are those of a route: for requests that came in plain HTTP or over TLS to this server, and for those that came over
// TLS to a trusted proxy.
type challenges struct {
	plain, secure *answers.PreparedChallenge
}

// challenge returns the challenge for a request that this route refuses.
func (p *Protect) challenge(r *http.Request) *answers.PreparedChallenge {
	switch found := p.described.Load(); {
	case found == nil:
		return p.refusal
	case hostpaths.ThroughTLS(r):
		return found.secure
	default:
		return found.plain
	}
}
