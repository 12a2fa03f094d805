package gate

import (
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/rule"
)

// View describes a provisioned gate.
type View struct {
	// Issuers are the issuers whose tokens pass.
	Issuers []IssuerView
	// Resource is the configured resource identifier; empty: none.
	Resource string
	// Rules has the matchers of each rule.
	Rules []caddyhttp.MatcherSets
	// Anonymous are the requests that need no token.
	Anonymous []rule.AnonymousView
	// TakesToken: later handlers see no token in the Authorization header.
	TakesToken bool
	// HostSessions: browsers sign in at the host of the route.
	HostSessions bool
}

// IssuerView is an accepted issuer and its accepted audiences.
type IssuerView struct {
	Name, URL string
	Audience  []string
	Own       bool // our own issuer
}

// View describes the gate. Call it after Provision.
func (p *Protect) View() View {
	v := View{Resource: p.resource, Anonymous: p.rules.anonymous.View(), HostSessions: p.UsesHostSessions(), TakesToken: p.UpstreamToken == "" || p.UpstreamToken == stripToken}
	for _, issuer := range p.tokens.issuers {
		if issuer.external == nil && p.shared.own.Hidden {
			v.Issuers = append(v.Issuers, IssuerView{Name: "a provider"})
			continue
		}
		v.Issuers = append(v.Issuers, IssuerView{Name: issuer.name, URL: issuer.url, Audience: issuer.audience, Own: issuer.external == nil})
	}
	for _, r := range p.Require {
		v.Rules = append(v.Rules, r.Matchers())
	}
	return v
}

// MetadataURL is where the metadata of a gate's resource are (RFC 9728 §3.1), for requests to some of its hosts.
type MetadataURL struct {
	// Host is as in NamedResource, and so is the host of the URLs.
	Host string
	// Plain is the URL, and Secure the one for requests that came over TLS to a trusted proxy.
	Plain, Secure string
}

// Describe sets the metadata URLs that refusals name (RFC 9728 §5.1), those of single hosts first. They are known once all routes are.
func (p *Protect) Describe(locations []MetadataURL) {
	described := make([]challenges, 0, len(locations))
	for _, location := range locations {
		plain := p.challenger.usual.Challenge()
		secure := plain
		plain.ResourceMetadata, secure.ResourceMetadata = location.Plain, location.Secure
		described = append(described, challenges{location.Host, plain.Prepare(), secure.Prepare()})
	}
	p.challenger.described.Store(&described)
}

// MetadataURL returns the metadata URL that refusals name, the first if it depends on the host; empty: none.
func (p *Protect) MetadataURL() string {
	if found := p.challenger.described.Load(); found != nil && len(*found) > 0 {
		return (*found)[0].plain.Challenge().ResourceMetadata
	}
	return p.challenger.usual.Challenge().ResourceMetadata
}
