package mcp

import (
	"net/url"
	"slices"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// ExposedHeaders are the response headers that pages which call a server need.
const ExposedHeaders = endpoint.ExposedHeaders + ", Mcp-Session-Id, Mcp-Protocol-Version"

// Origins are the origins whose pages may call a server without being named: its own.
type Origins []string

// OriginsOf returns the origins of resources.
func OriginsOf(resources []string) (origins Origins) {
	for _, resource := range resources {
		if u, err := url.Parse(resource); err == nil && u.Host != "" && !slices.Contains(origins, oauth.OriginOf(u)) {
			origins = append(origins, oauth.OriginOf(u))
		}
	}
	return origins
}

// Allow reports whether a page of an origin may call the server: one of the server's own origins, or one of the machine on which the
// browser runs, where clients such as the MCP inspector are. A page of any other name may have been rebound to the server's address.
func (o Origins) Allow(origin string) bool {
	if slices.Contains(o, origin) {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && oauth.OriginOf(u) == origin && oauth.IsLoopback(u.Hostname())
}

// Foreign is the error of a request that a page of another origin has caused.
func Foreign() error {
	return oauth.NewError(oauth.AccessDenied, "origin_foreign").WithDescription("Pages of this origin cannot call this server.")
}

// ReachesPast is the error of a request for another protocol, over which tools could be called unseen.
func ReachesPast() error {
	return oauth.NewError(oauth.AccessDenied, "upgrade_unread").WithDescription("This server takes no other protocol, since its tools have rules.")
}
