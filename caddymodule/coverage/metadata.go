package coverage

import (
	"net/url"
	"slices"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// document is the metadata of a resource, with the sites and gates that it describes. Where the host of the resource is a pattern, it is
// the metadata of a resource at each host that the pattern stands for.
type document struct {
	endpoint.ResourceMetadata
	at *url.URL // the metadata URL (RFC 9728 §3.1)
	// secure is the resource for clients that reach it over TLS through a trusted proxy, and secureAt its metadata URL. They differ
	// from the others where a site speaks plain HTTP and its URL is not configured.
	secure   string
	secureAt *url.URL
	places   []place
	gates    []described
}

// place is a site, for requests to some of its hosts, as in name.
type place struct {
	*site
	host string
}

// described is a gate with the host of the name under which a document describes it.
type described struct {
	*gate.Protect
	host string
}

// documentsOf returns the metadata of each resource, in the order of the routes, and of the roots of their hosts.
func documentsOf(sites []*site, known names, issuer *Issuer) []*document {
	var documents []*document
	for g, s := range gatesOf(sites) {
		for _, n := range known[g] {
			j := slices.IndexFunc(documents, func(d *document) bool { return d.Resource == n.resource })
			if j < 0 {
				d := newDocument(n.resource, n.secure)
				if d == nil {
					continue
				}
				j, documents = len(documents), append(documents, d)
			}
			documents[j].add(place{s, n.host}, g, issuer)
		}
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
func (d *document) add(at place, g *guard, issuer *Issuer) {
	if !slices.Contains(d.places, at) {
		d.places = append(d.places, at)
	}
	if self := (described{g.Protect, at.host}); !slices.Contains(d.gates, self) {
		d.gates = append(d.gates, self)
	}
	for _, issuer := range g.view.Issuers {
		if issuer.URL != "" && !slices.Contains(d.Servers, issuer.URL) { // a browser session needs no token
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
	scopes := slices.Clone(g.Protect.Scopes)
	for _, rule := range slices.Concat(g.Protect.Require, g.Protect.MCP.Rules()) {
		scopes = slices.Concat(scopes, rule.Scopes, rule.AnyScope)
	}
	return scopes
}

// include adds the issuers of a resource to the document at the root of its host, for clients that read only that.
func (d *document) include(below *document, scopes bool) {
	for _, at := range below.places {
		if !slices.Contains(d.places, at) {
			d.places = append(d.places, at)
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
