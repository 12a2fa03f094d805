package caller

import (
	"context"
	"net"
	"net/http"
	"net/netip"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Address returns the client's network; see Network.
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

// IP returns the client's address, as Caddy's trusted_proxies determine it. It returns "" without a request, as when a
// stream is rechecked.
func IP(ctx context.Context) string {
	text, _ := caddyhttp.GetVar(ctx, caddyhttp.ClientIPVarKey).(string)
	return text
}

// Network returns the /64 of an IPv6 address, which one host usually has, and any other address unchanged.
func Network(text string) string {
	address, err := netip.ParseAddr(text)
	if err != nil || address.Is4() { // has only one spelling
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
