package caddymodule

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// document is the metadata of a resource, and the hosts of the site that it is for.
type document struct {
	endpoint.ResourceMetadata
	at    *url.URL // the metadata URL (RFC 9728 §3.1)
	sites []*siteCoverage
	gates []*gate.Protect
}

// metadataServer is an `oauth_server`, which serves the metadata of what the gates of its site guard.
type metadataServer interface {
	caddyhttp.MiddlewareHandler
	// Publish has it serve the metadata of these resources, in the place of those before.
	Publish(resources []endpoint.ResourceMetadata)
	// Where is where it stands in a Caddyfile, as file:line; empty: in none.
	Where() string
}

// describe makes the metadata of all guarded routes, hands them to each `oauth_server` that clients will ask for them, and
// tells each `protect` where its own are. Everything in them comes from the configuration.
func describe(sites []*siteCoverage, issuer *describedIssuer) {
	documents := documentsOf(sites, issuer)
	served := make(map[*document]bool)
	for server, places := range serversOf(sites) {
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
		// A named route that several sites invoke has several, and on a site without an oauth_server nobody serves any.
		if len(documents) == 1 && served[documents[0]] {
			p.Describe(documents[0].at.String())
		}
	}
}

// placedServer is an `oauth_server` with the site that it stands on.
type placedServer struct {
	serverPlace
	site *siteCoverage
}

func serversOf(sites []*siteCoverage) map[metadataServer][]placedServer {
	servers := make(map[metadataServer][]placedServer)
	for _, s := range sites {
		for _, place := range s.servers {
			servers[place.metadataServer] = append(servers[place.metadataServer], placedServer{place, s})
		}
	}
	return servers
}

// isServedAt reports whether clients that look for the metadata come to this `oauth_server`.
func (d *document) isServedAt(place placedServer) bool {
	for _, c := range place.conditions {
		patterns := pathsOf(c.sets)
		if len(patterns) > 0 && !slices.ContainsFunc(patterns, func(p string) bool { return patternCovers(p, strings.ToLower(d.at.Path)) }) {
			return false
		}
	}
	return slices.Contains(d.sites, place.site) || place.site.hasHost(d.at.Hostname())
}

// documentsOf makes one document for each resource, in the order in which the routes stand.
func documentsOf(sites []*siteCoverage, issuer *describedIssuer) []*document {
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

// add puts what a gate asks for into the document.
func (d *document) add(s *siteCoverage, g *guard, issuer *describedIssuer) {
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

// describesItself reports whether the issuer's own document is the one: that of its audience, of which nobody else issues
// tokens.
func (i *describedIssuer) describesItself(g *guard, resource string) bool {
	return i != nil && resource == i.Audience && !slices.ContainsFunc(g.view.Issuers, func(i gate.IssuerView) bool { return !i.Own })
}

// resourceOf is the resource identifier of what a gate guards; empty: there is none.
func (i *describedIssuer) resourceOf(s *siteCoverage, g *guard) string {
	if g.view.Resource != "" {
		return g.view.Resource
	}
	below := commonPath(clientPaths(g.conditions))
	origin, isOwn, err := i.originOf(s, g)
	switch {
	case err != nil:
		return ""
	case isOwn && below == "":
		return i.Audience
	}
	return origin + below
}

var errNoOrigin = errors.New("neither the site nor an audience has a host")

// originOf is scheme and host under which clients know a site. Behind another proxy it has not the scheme and the port that
// Caddy listens with, so that a URL of the configuration with one of its hosts comes first: our own resource's, or an audience.
// Own tells that it is the former.
func (i *describedIssuer) originOf(s *siteCoverage, g *guard) (origin string, own bool, err error) {
	if g.takesOwn() && len(g.Audience) == 0 {
		if u, err := url.Parse(i.Metadata); err == nil && s.mayHave(u.Hostname()) {
			return u.Scheme + "://" + u.Host, true, nil
		}
	}
	for _, issuer := range g.view.Issuers {
		for _, audience := range issuer.Audience {
			if u, err := url.Parse(audience); err == nil && gate.CheckResource(audience) == nil && s.mayHave(u.Hostname()) {
				return u.Scheme + "://" + u.Host, false, nil
			}
		}
	}
	for _, host := range s.hosts {
		if !strings.ContainsAny(host, "*{") {
			return s.scheme + "://" + s.authority(host), false, nil
		}
	}
	return "", false, errNoOrigin
}

// hasHost reports whether a host is one of the site's.
func (s *siteCoverage) hasHost(host string) bool {
	return slices.ContainsFunc(s.hosts, func(own string) bool { return strings.EqualFold(own, host) })
}

// mayHave reports whether a site may serve a host. One that says nothing about its hosts may serve each.
func (s *siteCoverage) mayHave(host string) bool {
	return len(s.hosts) == 0 || s.hasHost(host) || slices.ContainsFunc(s.hosts, func(own string) bool {
		if rest, wild := strings.CutPrefix(own, "*."); wild {
			_, parent, _ := strings.Cut(host, ".")
			return strings.EqualFold(rest, parent)
		}
		return strings.ContainsAny(own, "{*")
	})
}

// commonPath is the path that stands before all that path patterns match; empty: there is nothing in common.
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
