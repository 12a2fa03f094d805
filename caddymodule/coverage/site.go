package coverage

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/caddymodule/hostpaths"
)

// site holds what one server does for one list of hosts.
type site struct {
	hosts    []string               // none: any
	matchers []*caddyhttp.MatchHost // of the hosts
	paths    *hostpaths.Routes      // ours before the routes of its server; nil: none
	listen   []string               // the addresses of the server
	scheme   string                 // of the first address, like port
	port     string
	backends []backend
	gates    []guard
	servers  []placedServer
	consoles []string // positions of each `oauth_console`
}

// site returns the site of a flow.
func (w *walk) site(f flow) *site {
	hosts, matchers := hostsOf(f.conditions)
	for _, s := range w.sites {
		if slices.Equal(s.hosts, hosts) {
			return s
		}
	}
	s := &site{hosts: hosts, matchers: matchers, paths: w.paths, listen: w.server.Listen}
	s.scheme, s.port = listens(w.app, w.server)
	w.sites = append(w.sites, s)
	return s
}

// hostsOf returns the hosts of the outermost condition that has any.
func hostsOf(conditions []condition) (hosts []string, matchers []*caddyhttp.MatchHost) {
	for _, c := range conditions {
		for _, set := range c.sets {
			for _, matcher := range set {
				if host, ok := matcher.(*caddyhttp.MatchHost); ok {
					hosts, matchers = append(hosts, *host...), append(matchers, host)
				}
			}
		}
		if len(hosts) > 0 {
			break
		}
	}
	return hosts, matchers
}

// listens returns the scheme and the port under which clients reach a server.
func listens(app *caddyhttp.App, server *caddyhttp.Server) (scheme, port string) {
	scheme = "http"
	for _, listener := range server.Listen {
		address, err := caddy.ParseNetworkAddress(listener)
		if err != nil || address.IsUnixNetwork() {
			continue
		}
		plain := app.HTTPPort
		if plain == 0 {
			plain = caddyhttp.DefaultHTTPPort
		}
		if len(server.TLSConnPolicies) > 0 && int(address.StartPort) != plain {
			scheme = "https"
		}
		return scheme, strconv.FormatUint(uint64(address.StartPort), 10)
	}
	return scheme, ""
}

// authority returns a host with the site's port, unless that is the default of its scheme.
func (s *site) authority(host string) string {
	if s.port == "" || s.port == map[string]string{"http": "80", "https": "443"}[s.scheme] {
		return bracketed(host)
	}
	return net.JoinHostPort(host, s.port)
}

// String returns the site's URLs, or its addresses if it has no hosts.
func (s *site) String() string {
	names := make([]string, 0, len(s.hosts))
	for _, host := range s.hosts {
		names = append(names, s.scheme+"://"+s.authority(host))
	}
	if len(names) == 0 {
		names = s.listen
	}
	return strings.Join(names, " ")
}

// hasHost reports whether a host is one of the site's.
func (s *site) hasHost(host string) bool {
	return slices.ContainsFunc(s.hosts, func(own string) bool { return strings.EqualFold(own, host) })
}

// hasAuthority reports whether a URL has one of the site's hosts, and its port if it names one.
func (s *site) hasAuthority(u *url.URL) bool {
	return slices.ContainsFunc(s.hosts, func(own string) bool {
		return strings.EqualFold(own, u.Hostname()) && (u.Port() == "" || strings.EqualFold(s.authority(own), u.Host))
	})
}

// mayHave reports whether a site may serve a host. One without hosts may serve any.
func (s *site) mayHave(host string) bool {
	return len(s.hosts) == 0 || s.hasHost(host) || slices.ContainsFunc(s.hosts, func(own string) bool {
		if rest, wild := strings.CutPrefix(own, "*."); wild {
			_, parent, _ := strings.Cut(host, ".")
			return strings.EqualFold(rest, parent)
		}
		return strings.ContainsAny(own, "{*")
	})
}
