package hostpaths

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Site is what a site of the server publishes about its guarded routes (RFC 9728).
type Site struct {
	// Hosts match the requests for the site; none: it gets the requests that no other site matches.
	Hosts []*caddyhttp.MatchHost
	// Host is the host of the documents, with a * for one label; empty: they are for all hosts.
	Host string
	// Documents are its metadata, and Secure those for requests that reached a trusted proxy over TLS. Nil: it has none.
	Documents, Secure *endpoint.Resources
}

// metadata are the documents of all sites of a server.
type metadata struct {
	awaitRoutes func(context.Context) error
	sites       atomic.Pointer[[]Site]
}

// Publish replaces the metadata of the server's sites, which are in the order of its routes.
func (h *Routes) Publish(sites []Site) { h.metadata.sites.Store(&sites) }

// serve answers a request for a document, and reports whether it did. Requests without a document are left to the site.
func (m *metadata) serve(w http.ResponseWriter, r *http.Request) bool {
	if !endpoint.IsResourceMetadataPath(r.URL.Path) {
		return false
	}
	sites := m.sites.Load()
	if sites == nil && m.awaitRoutes(r.Context()) == nil { // apps start in no order
		sites = m.sites.Load()
	}
	if sites == nil {
		return false
	}
	documents := documentsFor(*sites, r)
	if !documents.Has(r) {
		return false
	}
	caddyhttp.SetVar(r.Context(), caddyhttp.LogSkipVar, true)
	documents.ServeHTTP(w, r)
	return true
}

// documentsFor returns the documents of the site that a request is for.
func documentsFor(sites []Site, r *http.Request) *endpoint.Resources {
	for i := range sites {
		site := &sites[i]
		if !site.has(r) {
			continue
		}
		if ThroughTLS(r) {
			return site.Secure
		}
		return site.Documents
	}
	return nil
}

func (s *Site) has(r *http.Request) bool {
	if !oauth.MatchHost(s.Host, oauth.Hostname(r.Host)) {
		return false
	}
	for _, hosts := range s.Hosts {
		if match, err := hosts.MatchWithError(r); match && err == nil {
			return true
		}
	}
	return len(s.Hosts) == 0
}

// ThroughTLS reports whether a trusted proxy has received the request over TLS.
func ThroughTLS(r *http.Request) bool {
	said := r.Header["X-Forwarded-Proto"]
	if len(said) == 0 {
		return false
	}
	trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool)
	first, _, _ := strings.Cut(said[0], ",")
	return trusted && strings.EqualFold(strings.TrimSpace(first), "https")
}
