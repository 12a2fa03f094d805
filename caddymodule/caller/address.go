package caller

import (
	"context"
	"net"
	"net/http"
	"net/netip"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Address returns the network that a request comes from.
func Address(r *http.Request) string {
	text := IP(r.Context())
	if text == "" {
		text = r.RemoteAddr
		if host, _, err := net.SplitHostPort(text); err == nil {
			text = host
		}
	}
	return Network(text)
}

// IP returns the address that a request comes from, by Caddy's own judgement of which proxies speak for clients. It is
// empty where there is no request, as when a stream is looked at.
func IP(ctx context.Context) string {
	text, _ := caddyhttp.GetVar(ctx, caddyhttp.ClientIPVarKey).(string)
	return text
}

// Network returns what an address stands for: an IPv6 address for its /64, which is what one host usually has, any other for
// itself.
func Network(text string) string {
	address, err := netip.ParseAddr(text)
	if err != nil || address.Is4() { // of which there is one spelling
		return text
	}
	address = address.Unmap().WithZone("")
	if address.Is4() {
		return address.String()
	}
	prefix, err := address.Prefix(64)
	if err != nil {
		return text
	}
	return prefix.String()
}
