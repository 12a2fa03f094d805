package coverage

import (
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// document is the metadata of a resource, with the sites and gates that it describes.
type document struct {
	endpoint.ResourceMetadata
	at *url.URL // the metadata URL (RFC 9728 §3.1)
	// secure is the resource for clients that reach it over TLS through a trusted proxy, and secureAt its metadata URL. They differ
	// from the others where a site speaks plain HTTP and its URL is not configured.
	secure   string
	secureAt *url.URL
	sites    []*site
	gates    []*gate.Protect
}

// documentsOf returns the metadata of each resource, in the order of the routes, and of the roots of their hosts.
func documentsOf(sites []*site, issuer *Issuer) []*document {
	var documents []*document
	secure := issuer.secureResources(sites)
	for g, s := range gatesOf(sites) {
		resource := issuer.resourceOf(s, g)
		j := slices.IndexFunc(documents, func(d *document) bool { return d.Resource == resource })
		if j < 0 {
			d := newDocument(resource, secure[resource])
			if d == nil {
				continue
			}
			j, documents = len(documents), append(documents, d)
		}
		documents[j].add(s, g, issuer)
	}
	documents = slices.DeleteFunc(documents, func(d *document) bool { return len(d.Servers) == 0 })
	return issuer.withRoots(documents)
}

// newDocument returns a document about a resource; nil: it has no metadata URL. Secure is empty where it is the same.
func newDocument(resource, secure string) *document {
	at, err := endpoint.MetadataURL(resource)
	if resource == "" || err != nil {
		return nil
	}
	d := &document{ResourceMetadata: endpoint.ResourceMetadata{Resource: resource}, at: at, secure: resource, secureAt: at}
	if at, err := endpoint.MetadataURL(secure); secure != "" && err == nil {
		d.secure, d.secureAt = secure, at
	}
	return d
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
		if issuer.URL != "" && !slices.Contains(d.Servers, issuer.URL) { // whoever signs in at a provider asks for no token
			d.Servers = append(d.Servers, issuer.URL)
		}
	}
	if g.takesOwn() && d.Resource == issuer.Audience {
		d.Scopes = append(d.Scopes, issuer.Scopes...)
	}
	d.Scopes = oauth.ResourceScopes(slices.Concat(d.Scopes, g.scopes()))
}

// scopes returns those that requests to the gate may need.
func (g *guard) scopes() []string {
	scopes := slices.Clone(g.Scopes)
	for _, rule := range slices.Concat(g.Require, g.MCP.Rules()) {
		scopes = slices.Concat(scopes, rule.Scopes, rule.AnyScope)
	}
	return scopes
}

// include adds to the document at the root of a host what is said of a resource below it: clients that look nowhere else find there
// who issues tokens.
func (d *document) include(below *document, scopes bool) {
	for _, s := range below.sites {
		if !slices.Contains(d.sites, s) {
			d.sites = append(d.sites, s)
		}
	}
	for _, server := range below.Servers {
		if !slices.Contains(d.Servers, server) {
			d.Servers = append(d.Servers, server)
		}
	}
	if scopes {
		d.Scopes = oauth.ResourceScopes(slices.Concat(d.Scopes, below.Scopes))
	}
}

// withRoots adds, for each host, the document at its root. That of a host with one resource is the resource's own.
func (i *Issuer) withRoots(documents []*document) []*document {
	byHost := make(map[string][]*document)
	var hosts []string
	for _, d := range documents {
		host := oauth.OriginOf(d.at)
		if byHost[host] == nil {
			hosts = append(hosts, host)
		}
		byHost[host] = append(byHost[host], d)
	}
	for _, host := range hosts {
		all := byHost[host]
		root := i.rootOf(host, all)
		if root == nil && len(all) == 1 {
			all[0].AtRoot = true
			continue
		}
		made := root == nil
		if made {
			secure := ""
			if all[0].secure != all[0].Resource {
				secure = oauth.OriginOf(all[0].secureAt)
			}
			root = newDocument(host, secure)
		}
		for _, d := range all {
			if d != root {
				root.include(d, made)
			}
		}
		if !slices.Contains(documents, root) {
			documents = append(documents, root)
		}
	}
	return documents
}

// rootOf returns the document of the resource that is the whole host: a gate's, or the issuer's own; nil: there is none.
func (i *Issuer) rootOf(host string, documents []*document) *document {
	for _, d := range documents {
		if d.at.EscapedPath() == endpoint.WellKnownResource {
			return d
		}
	}
	if i == nil {
		return nil
	}
	own := newDocument(i.Audience, "")
	if own == nil || own.at.EscapedPath() != endpoint.WellKnownResource || oauth.OriginOf(own.at) != host {
		return nil
	}
	own.Servers, own.Scopes = []string{i.URL}, oauth.ResourceScopes(i.Scopes)
	return own
}

// resourceOf returns the identifier of the resource that a gate guards; empty: there is none.
func (i *Issuer) resourceOf(s *site, g *guard) string {
	if g.view.Resource != "" {
		return g.view.Resource
	}
	below := commonPath(clientPaths(g.conditions), g.MCP != nil)
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
	return s.origin(), false
}

// secureResources returns, for each resource whose URL begins with http because its site speaks plain HTTP, what clients call it that
// reach the site over TLS through another proxy, at the usual port. What two resources would be called is left out.
func (i *Issuer) secureResources(sites []*site) map[string]string {
	secure, taken := make(map[string]string), make(map[string]int)
	for g, s := range gatesOf(sites) {
		resource := i.resourceOf(s, g)
		if secure[resource] != "" {
			continue
		}
		taken[resource]++
		u, err := url.Parse(resource)
		if origin, own := i.originOf(s, g); err != nil || own || g.view.Resource != "" || u.Scheme != "http" || origin != s.origin() {
			continue
		}
		u.Scheme, u.Host = "https", strings.TrimSuffix(u.Host, ":"+u.Port())
		secure[resource] = u.String()
		taken[u.String()]++
	}
	for resource, other := range secure {
		if taken[other] > 1 {
			delete(secure, resource)
		}
	}
	return secure
}

// commonPath returns the longest path below which all paths that match the patterns are; empty: there is none. Whole: what stands before
// a * at the end is a whole part of a path, as where somebody has written /mcp* for /mcp and what is below it.
func commonPath(patterns []string, whole bool) string {
	var common []string
	for i, pattern := range patterns {
		literal, isPrefix := strings.CutSuffix(pattern, "*")
		if j := strings.IndexAny(literal, "*?[\\{%"); j >= 0 {
			literal, isPrefix = literal[:j], true
		}
		if isPrefix && (!whole || literal != strings.TrimSuffix(pattern, "*")) { // the last part may go on, as in /orders*
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
