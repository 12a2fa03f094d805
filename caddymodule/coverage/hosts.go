package coverage

import (
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/browser"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// hostsOfBrowsers returns the origins of the hosts at which browsers sign in, and warnings about hosts at which none can.
func hostsOfBrowsers(sites []*site, issuer *Issuer) (origins, warnings []string) {
	for g, s := range gatesOf(sites) {
		if !g.view.HostSessions {
			continue
		}
		usable := 0
		for _, origin := range s.originsOf(g, sites, issuer) {
			if !keepsCookies(origin) {
				continue
			}
			if usable++; !slices.Contains(origins, origin) {
				origins = append(origins, origin)
			}
		}
		const lost = "challenge browser: no browser can sign in here, since the site has no host with https, or of this machine: " +
			"name the host in the site's address, without *, or write `resource https://…`"
		for _, path := range s.shadowed() {
			warning := g.where() + "challenge browser: " + path + " of this host is ours, and the route that the site has for it sees no request: name that route otherwise"
			if usable > 0 && !slices.Contains(warnings, warning) {
				warnings = append(warnings, warning)
			}
		}
		if usable == 0 && !slices.Contains(warnings, g.where()+lost) {
			warnings = append(warnings, g.where()+lost)
		}
	}
	return origins, warnings
}

// shadowed returns those of our paths for which the site has a backend of its own.
func (s *site) shadowed() (paths []string) {
	for i := range s.backends {
		for _, pattern := range clientPaths(s.backends[i].conditions) {
			for _, path := range browser.Paths() {
				if strings.HasPrefix(pattern, "/oauth") && patternCovers(pattern, path) && !slices.Contains(paths, path) {
					paths = append(paths, path)
				}
			}
		}
	}
	return paths
}

// originsOf returns the origins under which browsers know the hosts of a gate: that of its resource, or else the site's.
func (s *site) originsOf(g *guard, sites []*site, issuer *Issuer) []string {
	if g.view.Resource != "" {
		if u, err := url.Parse(g.view.Resource); err == nil && u.Host != "" {
			return []string{oauth.OriginOf(u)}
		}
		return nil
	}
	var origins []string
	for _, host := range s.hosts {
		if strings.ContainsAny(host, "{*") { // the owner of one name below a wildcard could sign in there as any user
			continue
		}
		u := &url.URL{Scheme: s.scheme, Host: s.authority(host)}
		if issuer != nil && s.servesIssuer(host, sites) { // whose scheme and port are known behind another proxy too
			if own, err := url.Parse(issuer.URL); err == nil && strings.EqualFold(own.Hostname(), host) {
				u = own
			}
		}
		origins = append(origins, oauth.OriginOf(u))
	}
	return origins
}

// servesIssuer reports whether our endpoints are at a host of the site, at its port.
func (s *site) servesIssuer(host string, sites []*site) bool {
	return slices.ContainsFunc(sites, func(other *site) bool {
		return len(other.servers) > 0 && other.scheme == s.scheme && other.port == s.port && other.mayHave(host)
	})
}

// keepsCookies reports whether a browser keeps our cookies at an origin: with https, or at a host of its own machine.
func keepsCookies(origin string) bool {
	u, err := url.Parse(origin)
	if err != nil {
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http" && oauth.IsLoopback(u.Hostname())
}
