package caddymodule

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// document is the metadata of a resource, and the hosts of the site that it is for.
type document struct {
	endpoint.ResourceMetadata
	at    *url.URL // the metadata URL (RFC 9728 §3.1)
	sites []*siteCoverage
	gates []*Protect
}

// describe makes the metadata of all guarded routes, hands them to each `oauth_server` that clients will ask for them, and
// tells each `protect` where its own are. Everything in them comes from the configuration.
func (a *App) describe(sites []*siteCoverage) {
	documents := a.documentsOf(sites)
	served := make(map[*document]bool)
	for server, places := range serversOf(sites) {
		var own []endpoint.ResourceMetadata
		for _, d := range documents {
			if slices.ContainsFunc(places, d.isServedAt) {
				own, served[d] = append(own, d.ResourceMetadata), true
			}
		}
		server.documents.Store(endpoint.NewResources(a.audit, tally{}, own))
	}
	described := make(map[*Protect][]*document)
	for _, d := range documents {
		for _, p := range d.gates {
			described[p] = append(described[p], d)
		}
	}
	for p, documents := range described {
		if len(documents) > 1 || !served[documents[0]] {
			continue // a named route that several sites invoke, or a site without an oauth_server
		}
		c := p.refusal.Challenge()
		c.ResourceMetadata = documents[0].at.String()
		p.described.Store(c.Prepare())
	}
}

// placedServer is an `oauth_server` with the site that it stands on.
type placedServer struct {
	serverPlace
	site *siteCoverage
}

func serversOf(sites []*siteCoverage) map[*Server][]placedServer {
	servers := make(map[*Server][]placedServer)
	for _, s := range sites {
		for _, place := range s.servers {
			servers[place.Server] = append(servers[place.Server], placedServer{place, s})
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
func (a *App) documentsOf(sites []*siteCoverage) []*document {
	var documents []*document
	for _, s := range sites {
		for i := range s.gates {
			p := s.gates[i].Protect
			resource := a.resourceOf(s, &s.gates[i])
			location, err := endpoint.MetadataURL(resource)
			if resource == "" || err != nil || a.describesItself(p, resource) {
				continue
			}
			j := slices.IndexFunc(documents, func(d *document) bool { return d.Resource == resource })
			if j < 0 {
				j = len(documents)
				documents = append(documents, &document{ResourceMetadata: endpoint.ResourceMetadata{Resource: resource}, at: location})
			}
			documents[j].add(s, p)
		}
	}
	return documents
}

// add puts what a `protect` asks for into the document.
func (d *document) add(s *siteCoverage, p *Protect) {
	if !slices.Contains(d.sites, s) {
		d.sites = append(d.sites, s)
	}
	if !slices.Contains(d.gates, p) {
		d.gates = append(d.gates, p)
	}
	for _, issuer := range p.issuers {
		d.Servers = appendNew(d.Servers, issuer.url)
	}
	if p.own != nil && d.Resource == p.shared.own.Audience[0] {
		d.Scopes = appendNew(d.Scopes, p.shared.own.Scopes.Names()...)
	}
	d.Scopes = appendNew(d.Scopes, p.Scopes...)
	for _, rule := range p.Require {
		d.Scopes = appendNew(appendNew(d.Scopes, rule.Scopes...), rule.AnyScope...)
	}
	d.Scopes = oauth.ResourceScopes(d.Scopes)
}

func appendNew(list []string, more ...string) []string {
	for _, item := range more {
		if !slices.Contains(list, item) {
			list = append(list, item)
		}
	}
	return list
}

// describesItself reports whether the issuer's own document is the one: that of its audience, of which nobody else issues
// tokens.
func (a *App) describesItself(p *Protect, resource string) bool {
	return a.issues() && resource == a.issuer.Audience[0] && !slices.ContainsFunc(p.issuers, func(i routeIssuer) bool { return i.external != nil })
}

// resourceOf is the resource identifier of what a gate guards; empty: there is none.
func (a *App) resourceOf(s *siteCoverage, g *guard) string {
	if g.resource != "" {
		return g.resource
	}
	below := commonPath(clientPaths(g.conditions))
	origin, isOwn, err := a.originOf(s, g.Protect)
	switch {
	case err != nil:
		return ""
	case isOwn && below == "":
		return a.issuer.Audience[0]
	}
	return origin + below
}

var errNoOrigin = errors.New("neither the site nor an audience has a host")

// originOf is scheme and host under which clients know a site. Behind another proxy it has not the scheme and the port that
// Caddy listens with, so that a URL of the configuration with one of its hosts comes first: our own resource's, or an audience.
// Own tells that it is the former.
func (a *App) originOf(s *siteCoverage, p *Protect) (origin string, own bool, err error) {
	if p.own != nil && len(p.Audience) == 0 {
		if u, err := url.Parse(endpoint.ResourceMetadataURL(a.issuer)); err == nil && s.mayHave(u.Hostname()) {
			return u.Scheme + "://" + u.Host, true, nil
		}
	}
	for _, issuer := range p.issuers {
		for _, audience := range issuer.audience {
			if u, err := url.Parse(audience); err == nil && checkResource(audience) == nil && s.mayHave(u.Hostname()) {
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
