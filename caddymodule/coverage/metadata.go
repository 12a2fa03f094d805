package coverage

import (
	"net/url"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// document is the metadata of a resource, with the sites and gates that it describes.
type document struct {
	endpoint.ResourceMetadata
	at    *url.URL // the metadata URL (RFC 9728 §3.1)
	sites []*site
	gates []*gate.Protect
}

// MetadataServer is an `oauth_server`. It serves the metadata of the resources that the gates of its site guard.
type MetadataServer interface {
	caddyhttp.MiddlewareHandler
	// Publish replaces the resources whose metadata it serves.
	Publish(resources []endpoint.ResourceMetadata)
	// Where returns its position in the Caddyfile, as file:line; empty: it has none.
	Where() string
}

// describe makes the metadata of all guarded routes, passes them to each `oauth_server` that clients will ask for
// them, and tells each `protect` the URL of its own. Everything in them comes from the configuration.
func describe(sites []*site, issuer *Issuer) {
	documents := documentsOf(sites, issuer)
	served := make(map[*document]bool)
	servers := make(map[MetadataServer][]placedServer)
	for _, s := range sites {
		for _, place := range s.servers {
			servers[place.MetadataServer] = append(servers[place.MetadataServer], place)
		}
	}
	for server, places := range servers {
		var own []endpoint.ResourceMetadata
		for _, d := range documents {
			if slices.ContainsFunc(places, d.isServedAt) {
				own, served[d] = append(own, d.ResourceMetadata), true
			}
		}
		server.Publish(own)
	}
	described := make(map[*gate.Protect][]*document)
	for _, d := range documents {
		for _, p := range d.gates {
			described[p] = append(described[p], d)
		}
	}
	for p, documents := range described {
		// A named route that several sites invoke has several. A site without an oauth_server serves none.
		if len(documents) == 1 && served[documents[0]] {
			p.Describe(documents[0].at.String())
		}
	}
}

// isServedAt reports whether requests for the metadata reach this `oauth_server`.
func (d *document) isServedAt(place placedServer) bool {
	for _, c := range place.conditions {
		patterns, _ := pathsOf(c.sets)
		if len(patterns) > 0 && !slices.ContainsFunc(patterns, func(p string) bool { return patternCovers(p, strings.ToLower(d.at.Path)) }) {
			return false
		}
	}
	return slices.Contains(d.sites, place.site) || place.site.hasHost(d.at.Hostname())
}

// documentsOf returns one document for each resource, in the order of the routes.
func documentsOf(sites []*site, issuer *Issuer) []*document {
	var documents []*document
	for _, s := range sites {
		for i := range s.gates {
			g := &s.gates[i]
			resource := issuer.resourceOf(s, g)
			location, err := endpoint.MetadataURL(resource)
			if resource == "" || err != nil || issuer.describesItself(g, resource) {
				continue
			}
			j := slices.IndexFunc(documents, func(d *document) bool { return d.Resource == resource })
			if j < 0 {
				j = len(documents)
				documents = append(documents, &document{ResourceMetadata: endpoint.ResourceMetadata{Resource: resource}, at: location})
			}
			documents[j].add(s, g, issuer)
		}
	}
	return documents
}

// add adds the issuers and scopes of a gate to the document.
func (d *document) add(s *site, g *guard, issuer *Issuer) {
	if !slices.Contains(d.sites, s) {
		d.sites = append(d.sites, s)
	}
	if !slices.Contains(d.gates, g.Protect) {
		d.gates = append(d.gates, g.Protect)
	}
	for _, issuer := range g.view.Issuers {
		if !slices.Contains(d.Servers, issuer.URL) {
			d.Servers = append(d.Servers, issuer.URL)
		}
	}
	if g.takesOwn() && d.Resource == issuer.Audience {
		d.Scopes = append(d.Scopes, issuer.Scopes...)
	}
	d.Scopes = append(d.Scopes, g.Scopes...)
	for _, rule := range g.Require {
		d.Scopes = slices.Concat(d.Scopes, rule.Scopes, rule.AnyScope)
	}
	d.Scopes = oauth.ResourceScopes(d.Scopes)
}

// describesItself reports whether the issuer's own document describes the resource: it is the issuer's audience, and
// the gate accepts tokens of no other issuer.
func (i *Issuer) describesItself(g *guard, resource string) bool {
	return i != nil && resource == i.Audience && !slices.ContainsFunc(g.view.Issuers, func(i gate.IssuerView) bool { return !i.Own })
}

// resourceOf returns the identifier of the resource that a gate guards; empty: there is none.
func (i *Issuer) resourceOf(s *site, g *guard) string {
	if g.view.Resource != "" {
		return g.view.Resource
	}
	below := commonPath(clientPaths(g.conditions))
	origin, isOwn := i.originOf(s, g)
	switch {
	case origin == "":
		return ""
	case isOwn && below == "":
		return i.Audience
	}
	return origin + below
}

// originOf returns the scheme and host under which clients know a site; empty: unknown. Behind another proxy, scheme
// and port differ from those that Caddy listens on. A configured URL with one of the site's hosts therefore takes
// precedence: that of the issuer's own resource, or an audience. Own reports whether it is the former.
func (i *Issuer) originOf(s *site, g *guard) (origin string, own bool) {
	if g.takesOwn() && len(g.Audience) == 0 {
		if u, err := url.Parse(i.Metadata); err == nil && s.mayHave(u.Hostname()) {
			return u.Scheme + "://" + u.Host, true
		}
	}
	for _, issuer := range g.view.Issuers {
		for _, audience := range issuer.Audience {
			if u, err := url.Parse(audience); err == nil && oauth.CheckResource(audience) == nil && s.mayHave(u.Hostname()) {
				return u.Scheme + "://" + u.Host, false
			}
		}
	}
	for _, host := range s.hosts {
		if !strings.ContainsAny(host, "*{") {
			return s.scheme + "://" + s.authority(host), false
		}
	}
	return "", false
}

// commonPath returns the longest path below which all paths that match the patterns are; empty: there is none.
func commonPath(patterns []string) string {
	var common []string
	for i, pattern := range patterns {
		literal, isPrefix := strings.CutSuffix(pattern, "*")
		if j := strings.IndexAny(literal, "*?[\\{%"); j >= 0 {
			literal, isPrefix = literal[:j], true
		}
		if isPrefix { // the last part may go on, as in /orders*
			literal = literal[:strings.LastIndex(literal, "/")+1]
		}
		parts := strings.Split(strings.Trim(literal, "/"), "/")
		if i == 0 {
			common = parts
		}
		n := 0
		for n < len(parts) && n < len(common) && parts[n] == common[n] {
			n++
		}
		common = common[:n]
	}
	if joined := strings.Join(common, "/"); joined != "" {
		return (&url.URL{Path: "/" + joined}).EscapedPath()
	}
	return ""
}
