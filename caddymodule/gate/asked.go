package gate

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// asksAtFixedAddress reports whether another proxy may ask about the requests of all browsers at one address, as Traefik does.
// The proxy sends method and target of the browser's request in toldHeaders.
func asksAtFixedAddress(p *Protect) bool {
	return p.UsesHostSessions() && p.ForwardTo == forwardToResponse && p.Resource != ""
}

// toldHeaders count only from a trusted proxy.
var toldHeaders = []string{"X-Forwarded-Method", "X-Forwarded-Uri"}

// dropTold removes the headers that only the gate reads from a request that passes, in place.
func (b *hostSignIn) dropTold(r *http.Request) {
	if !b.told {
		return
	}
	for _, name := range toldHeaders {
		if !slices.Contains(b.trusted, name) {
			delete(r.Header, name)
		}
	}
}

// asked returns the request of a browser about which a trusted proxy asks at a fixed address, and any other request unchanged.
// Its host is that of the route's resource. Use it for the session and the sign-in only. Rules are checked for the request that
// arrived, or a client that chooses method and target would choose the rules.
func (b *hostSignIn) asked(r *http.Request) *http.Request {
	trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool)
	if !trusted || !b.told {
		return r
	}
	resource, err := url.Parse(b.resource)
	if _, ok := b.tokens.shared.hosts.Find(r); ok || err != nil || !b.tokens.shared.hosts.Hosts.Has(oauth.OriginOf(resource)) {
		return r
	}
	asked := *r
	asked.Host = resource.Host
	if r.Method == http.MethodGet || r.Method == http.MethodHead { // with which a proxy asks whatever the browser's method is; untold it counts as unsafe
		asked.Method = single(r.Header["X-Forwarded-Method"])
	}
	if asked.URL, err = url.ParseRequestURI(single(r.Header["X-Forwarded-Uri"])); err != nil {
		asked.URL = &url.URL{Path: "/"}
	}
	if _, ok := r.Header["Sec-Websocket-Key"]; ok { // Upgrade does not reach us
		asked.Header = maps.Clone(r.Header)
		asked.Header["Upgrade"] = []string{webSocketProtocol}
	}
	return asked.WithContext(context.WithValue(r.Context(), caddyhttp.OriginalRequestCtxKey, asked))
}
