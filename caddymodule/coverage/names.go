package coverage

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// name is the identifier of the resource that a gate guards, for requests to some hosts of its site.
type name struct {
	host     string // of the requests; a * stands for one label, and an empty host for any
	resource string // its host is a pattern where host is one
	// secure is the identifier for clients that reach the site over TLS through another proxy; empty: it is resource.
	secure string
	// derived reports that the resource is derived from the site's address, and not configured.
	derived bool
}

// names are the names of each gate, those of single hosts first.
type names map[*guard][]name

// namesOf returns the names of all gates. It returns an error if two gates at different addresses would have one resource.
func namesOf(sites []*site, issuer *Issuer) (names, error) {
	all := make(names)
	for g, s := range gatesOf(sites) {
		all[g] = issuer.namesAt(g, s, sites)
	}
	all.dropSharedSecure(sites)
	return all, all.check(sites)
}

// namesAt returns the names of a gate; none: there are none, since neither the site nor the configuration has a host for it.
func (i *Issuer) namesAt(g *guard, s *site, sites []*site) (found []name) {
	if g.view.Resource != "" {
		return []name{{resource: g.view.Resource}}
	}
	below := commonPath(clientPaths(g.conditions), g.Protect.MCP != nil)
	add := func(host, origin string, ofSite bool) {
		n := name{host: strings.ToLower(host), resource: origin + below, derived: true}
		switch isOwn := i.isOrigin(origin) && g.takesOwn() && len(g.Protect.Audience) == 0; {
		case isOwn && below == "":
			n.resource = i.Audience
		case !isOwn && ofSite && s.scheme == "http":
			n.secure = "https://" + bracketed(host) + below
		}
		if !slices.ContainsFunc(found, func(other name) bool { return other.host == n.host }) {
			found = append(found, n)
		}
	}
	hosts := g.hosts(s)
	for _, u := range i.configured(g) {
		switch host := u.Hostname(); {
		case !i.reaches(u, s, sites):
		case slices.ContainsFunc(hosts, func(own string) bool { return oauth.MatchHost(own, host) }):
			add(host, u.Scheme+"://"+u.Host, false)
		case !slices.ContainsFunc(hosts, isFixed):
			add("", u.Scheme+"://"+u.Host, false)
		}
	}
	for _, host := range hosts {
		if !strings.Contains(host, "{") {
			add(host, s.scheme+"://"+s.authority(host), true)
		}
	}
	slices.SortStableFunc(found, func(a, b name) int { return cmp.Compare(vagueness(a.host), vagueness(b.host)) })
	return found
}

// vagueness orders hosts: a single one is 0, a pattern 1, any host 2.
func vagueness(host string) int {
	switch {
	case host == "":
		return 2
	case strings.Contains(host, "*"):
		return 1
	}
	return 0
}

// isFixed reports whether a host of a matcher is known before a request comes.
func isFixed(host string) bool { return !strings.Contains(host, "{") }

// bracketed returns a host as it is written in a URL.
func bracketed(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// isOrigin reports whether an origin is that of the issuer's own resource.
func (i *Issuer) isOrigin(origin string) bool {
	if i == nil {
		return false
	}
	u, err := url.Parse(i.Metadata)
	return err == nil && u.Scheme+"://"+u.Host == origin
}

// configured returns the URLs that give the public origin of a gate's site behind another proxy: that of the issuer's own resource, and the
// audiences that are URLs.
func (i *Issuer) configured(g *guard) (locations []*url.URL) {
	if i != nil && g.takesOwn() && len(g.Protect.Audience) == 0 {
		if u, err := url.Parse(i.Metadata); err == nil {
			locations = append(locations, u)
		}
	}
	for _, issuer := range g.view.Issuers {
		for _, audience := range issuer.Audience {
			if u, err := url.Parse(audience); err == nil && oauth.CheckResource(audience) == nil {
				locations = append(locations, u)
			}
		}
	}
	return locations
}

// reaches reports whether clients that ask for a URL of the configuration reach the site: by its own address, or else because it is
// the one where the issuer's endpoints are, or the only one with a gate for that host. Two ports of one host are two sites.
func (i *Issuer) reaches(u *url.URL, s *site, sites []*site) bool {
	host := u.Hostname()
	if !s.serves(host, sites) {
		return false
	}
	isSite := func(other *site) bool { return other.scheme+"://"+other.authority(host) == oauth.OriginOf(u) }
	var behind []*site
	for _, other := range sites {
		if other.serves(host, sites) && (len(other.gates) > 0 || other.names(host) && isSite(other)) {
			behind = append(behind, other)
		}
	}
	serving := slices.DeleteFunc(slices.Clone(sites), func(other *site) bool { return len(other.servers) == 0 || !other.serves(host, sites) })
	issues := i.isOrigin(u.Scheme+"://"+u.Host) && len(serving) > 0
	if issues {
		behind = serving
	}
	for _, better := range []func(*site) bool{isSite, func(other *site) bool { return other.names(host) }} {
		if slices.ContainsFunc(behind, better) {
			behind = slices.DeleteFunc(behind, func(other *site) bool { return !better(other) })
		}
	}
	if !slices.ContainsFunc(behind, s.sharesListener) {
		return false
	}
	return issues || !slices.ContainsFunc(behind, func(other *site) bool { return !s.sharesListener(other) })
}

// serves reports whether requests for a host may reach the site: no other site of its server names the host when this one does not.
func (s *site) serves(host string, sites []*site) bool {
	return s.mayHave(host) && (s.hasHost(host) || !slices.ContainsFunc(sites, func(other *site) bool {
		return other != s && s.sharesListener(other) && (other.hasHost(host) || other.names(host) && !s.names(host))
	}))
}

// names reports whether a host is one of the site's, or below one with a *.
func (s *site) names(host string) bool {
	return slices.ContainsFunc(s.hosts, func(own string) bool { return oauth.MatchHost(own, host) })
}

func (s *site) sharesListener(other *site) bool { return slices.Equal(s.listen, other.listen) }

// hosts returns the hosts of the requests that reach the gate: the site's, or fewer where a route within the site asks for some.
func (g *guard) hosts(s *site) []string {
	hosts := s.hosts
	for i := range g.conditions {
		within, _ := hostsOf(g.conditions[i : i+1])
		if len(within) == 0 || !g.conditions[i].alwaysAsksForHost() {
			continue
		}
		fewer := slices.DeleteFunc(within, func(host string) bool {
			return len(hosts) > 0 && !slices.ContainsFunc(hosts, func(own string) bool { return oauth.MatchHost(own, host) })
		})
		if len(fewer) > 0 {
			hosts = fewer
		}
	}
	return hosts
}

// dropSharedSecure removes the name over TLS of those gates where it could be another resource's name too.
func (all names) dropSharedSecure(sites []*site) {
	uses := make(map[string]map[string]bool) // of each name the resources that have it
	var patterns []string
	note := func(spelled, resource string) {
		if uses[spelled] == nil {
			uses[spelled] = make(map[string]bool)
			if strings.Contains(spelled, "*") {
				patterns = append(patterns, spelled)
			}
		}
		uses[spelled][resource] = true
	}
	for g := range gatesOf(sites) {
		for _, n := range all[g] {
			note(n.resource, n.resource)
			if n.secure != "" {
				note(n.secure, n.resource)
			}
		}
	}
	for g := range gatesOf(sites) {
		for i := range all[g] {
			n := &all[g][i]
			if n.secure == "" {
				continue
			}
			isShared := len(uses[n.secure]) > 1
			for _, pattern := range patterns {
				isShared = isShared || overlap(pattern, n.secure) && !uses[pattern][n.resource]
			}
			if strings.Contains(n.secure, "*") {
				for other, resources := range uses {
					isShared = isShared || overlap(other, n.secure) && !resources[n.resource]
				}
			}
			if isShared {
				n.secure = ""
			}
		}
	}
}

// check refuses two gates at different addresses whose derived resources are one: a token for the one would pass at the other.
func (all names) check(sites []*site) error {
	type place struct {
		*guard
		*site
		resource string
	}
	known := make(map[string]place)
	var patterns []place
	for g, s := range gatesOf(sites) {
		for _, n := range all[g] {
			if !n.derived {
				continue
			}
			here := place{g, s, n.resource}
			others := patterns
			if exact, ok := known[n.resource]; ok {
				others = append(slices.Clip(patterns), exact)
			} else {
				known[n.resource] = here
			}
			if strings.Contains(n.resource, "*") {
				for _, other := range known {
					others = append(slices.Clip(others), other)
				}
				patterns = append(patterns, here)
			}
			for _, other := range others {
				if !other.sharesListener(s) && overlap(other.resource, n.resource) {
					return fmt.Errorf("%sprotect: at %s the resource would be %s, as of the protect at %s%s: write `resource <url>` in one of them",
						g.where(), s, n.resource, other.where(), other.site)
				}
			}
		}
	}
	return nil
}

// overlap reports whether two resources can be one. A * in the host of either stands for one label.
func overlap(a, b string) bool {
	if a == b || oauth.MatchResource(a, b) || oauth.MatchResource(b, a) {
		return true
	}
	u, err := url.Parse(a)
	other, otherErr := url.Parse(b)
	if err != nil || otherErr != nil || u.Scheme != other.Scheme || u.Port() != other.Port() || u.EscapedPath() != other.EscapedPath() {
		return false
	}
	labels, otherLabels := strings.Split(u.Hostname(), "."), strings.Split(other.Hostname(), ".")
	if len(labels) != len(otherLabels) {
		return false
	}
	for i := range labels {
		if labels[i] != "*" && otherLabels[i] != "*" && !strings.EqualFold(labels[i], otherLabels[i]) {
			return false
		}
	}
	return true
}

// commonPath returns the longest common prefix, in whole segments, of all paths that match the patterns; empty: there is none. Whole reads
// /mcp* as /mcp and the paths below it.
func commonPath(patterns []string, whole bool) string {
	var common []string
	for i, pattern := range patterns {
		literal, isPrefix := strings.CutSuffix(pattern, "*")
		if j := strings.IndexAny(literal, "*?[\\{%"); j >= 0 {
			literal, isPrefix = literal[:j], true
		}
		if isPrefix && (!whole || literal != strings.TrimSuffix(pattern, "*")) { // the last segment may be incomplete, as in /orders*
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
