package gate

import "github.com/caddyserver/caddy/v2/modules/caddyhttp"

// View is what a gate makes of its settings, for those who describe a configuration.
type View struct {
	// Issuers are whose tokens pass.
	Issuers []IssuerView
	// Resource is the resource identifier that is set; empty: none is.
	Resource string
	// Rules has the matchers of each rule of Require.
	Rules []caddyhttp.MatcherSets
	// Anonymous are the requests that need no token.
	Anonymous []AnonymousView
	// TakesToken: who comes behind the gate sees no token in the Authorization header.
	TakesToken bool
}

// IssuerView is an issuer whose tokens pass, and for whom they must be meant.
type IssuerView struct {
	Name, URL string
	Audience  []string
	Own       bool // the issuer of this configuration
}

// AnonymousView is a matcher set whose requests need no token, and its path patterns as they were written; nil: it has none.
type AnonymousView struct {
	Matchers caddyhttp.MatcherSet
	Paths    []string
}

// View returns what the gate, once provisioned, makes of its settings.
func (p *Protect) View() View {
	v := View{Resource: p.resource, TakesToken: p.UpstreamToken == "" || p.UpstreamToken == StripToken}
	for _, issuer := range p.issuers {
		v.Issuers = append(v.Issuers, IssuerView{Name: issuer.name, URL: issuer.url, Audience: issuer.audience, Own: issuer.external == nil})
	}
	for _, rule := range p.Require {
		v.Rules = append(v.Rules, rule.matchers)
	}
	for i, set := range p.anonymous.matchers {
		v.Anonymous = append(v.Anonymous, AnonymousView{Matchers: set, Paths: p.anonymous.patterns[i]})
	}
	return v
}

// Describe has every refusal from now on name the metadata of what is guarded (RFC 9728 §5.1). Where they are is known once all
// routes are.
func (p *Protect) Describe(metadataURL string) {
	c := p.refusal.Challenge()
	c.ResourceMetadata = metadataURL
	p.described.Store(c.Prepare())
}

// MetadataURL is where refusals say that the metadata are; empty: they name none.
func (p *Protect) MetadataURL() string { return p.challenge().Challenge().ResourceMetadata }
