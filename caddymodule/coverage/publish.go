package coverage

import (
	"cmp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate"
	"github.com/gatehouse-auth/gatehouse/caddymodule/hostpaths"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// MetadataServer is an `oauth_server`. It serves the metadata of the resources that the gates of its site guard.
type MetadataServer interface {
	caddyhttp.MiddlewareHandler
	// Publish replaces the resources whose metadata it serves.
	Publish(resources []endpoint.ResourceMetadata)
	// Where returns its position in the Caddyfile, as file:line; empty: it has none.
	Where() string
}

// Serve returns a handler for the metadata of resources.
type Serve func([]endpoint.ResourceMetadata) *endpoint.Resources

// describe builds the metadata of all guarded routes from the configuration, publishes it at the sites and each `oauth_server`, and gives
// each `protect` the URL of its own.
func describe(sites []*site, known names, issuer *Issuer, serve Serve) {
	documents := documentsOf(sites, known, issuer)
	served := publish(sites, documents, serve)
	servers := make(map[MetadataServer][]placedServer)
	for _, s := range sites {
		for _, place := range s.servers {
			servers[place.MetadataServer] = append(servers[place.MetadataServer], place)
		}
	}
	for server, places := range servers {
		var own []endpoint.ResourceMetadata
		for _, d := range documents {
			if !slices.ContainsFunc(places, d.isServedAt) {
				continue
			}
			published := d.ResourceMetadata
			published.AtRoot = d.AtRoot && slices.ContainsFunc(places, func(place placedServer) bool { return d.isAbout(place.site) })
			own, served[d] = append(own, published), true
		}
		server.Publish(own)
	}
	urls := make(map[*gate.Protect][]gate.MetadataURL)
	for _, d := range documents {
		for _, g := range d.gates {
			// A named route that several sites invoke has several for a host. A site with nothing but named routes serves none by itself.
			only := !slices.ContainsFunc(documents, func(other *document) bool { return other != d && slices.Contains(other.gates, g) })
			if only && served[d] {
				urls[g.Protect] = append(urls[g.Protect], gate.MetadataURL{Host: g.host, Plain: d.at.String(), Secure: d.secureAt.String()})
			}
		}
	}
	for p, known := range urls {
		slices.SortStableFunc(known, func(a, b gate.MetadataURL) int { return cmp.Compare(vagueness(a.Host), vagueness(b.Host)) })
		p.Describe(known)
	}
}

// publish makes each site serve its documents before its routes, and returns the documents that are served this way.
func publish(sites []*site, documents []*document, serve Serve) map[*document]bool {
	documents = slices.Clone(documents)
	slices.SortStableFunc(documents, func(a, b *document) int { return cmp.Compare(vagueness(a.at.Hostname()), vagueness(b.at.Hostname())) })
	served := make(map[*document]bool)
	published := make(map[*hostpaths.Routes][]hostpaths.Site)
	for _, s := range sites {
		if s.paths == nil {
			continue
		}
		var hosts []string
		for _, d := range documents {
			for _, at := range d.places {
				if at.site == s && !slices.Contains(hosts, at.host) {
					hosts = append(hosts, at.host)
				}
			}
		}
		slices.SortStableFunc(hosts, func(a, b string) int { return cmp.Compare(vagueness(a), vagueness(b)) })
		for _, host := range hosts {
			var plain, secure []endpoint.ResourceMetadata
			for _, d := range documents {
				if !slices.ContainsFunc(d.places, func(at place) bool { return at.site == s && (at.host == host || oauth.MatchHost(at.host, host)) }) {
					continue
				}
				served[d] = true
				other := d.ResourceMetadata
				other.Resource = d.secure
				plain, secure = append(plain, d.ResourceMetadata), append(secure, other)
			}
			published[s.paths] = append(published[s.paths], hostpaths.Site{Hosts: s.matchers, Host: host, Documents: serve(plain), Secure: serve(secure)})
		}
	}
	for paths, sites := range published {
		slices.SortStableFunc(sites, func(a, b hostpaths.Site) int { return min(len(b.Hosts), 1) - min(len(a.Hosts), 1) }) // that for any host comes last
		paths.Publish(sites)
	}
	return served
}

// isServedAt reports whether requests for the metadata reach this `oauth_server`.
func (d *document) isServedAt(place placedServer) bool {
	for _, c := range place.conditions {
		patterns, _ := pathsOf(c.sets)
		if len(patterns) > 0 && !slices.ContainsFunc(patterns, func(p string) bool { return patternCovers(p, strings.ToLower(d.at.Path)) }) {
			return false
		}
	}
	return d.isAbout(place.site) || place.site.hasAuthority(d.at)
}

// isAbout reports whether the resource is at a site.
func (d *document) isAbout(s *site) bool {
	return slices.ContainsFunc(d.places, func(at place) bool { return at.site == s })
}
