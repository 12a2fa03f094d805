package requestpath

import (
	"net/netip"
	"strings"
)

// IsPlainHost reports whether Caddy's matcher `host` and every upstream take the Host of a request for the same name. Caddy
// compares it as it stands, while upstreams may decode it, or cut it at its first colon. A dot at its end makes a reading more,
// and a request without a host is plain.
func IsPlainHost(authority string) bool {
	if address, isBracketed := strings.CutPrefix(authority, "["); isBracketed {
		address, rest, _ := strings.Cut(address, "]")
		port, hasPort := strings.CutPrefix(rest, ":")
		_, err := netip.ParseAddr(address)
		return err == nil && strings.Contains(address, ":") && (rest == "" || hasPort) && isPort(port)
	}
	name, port, _ := strings.Cut(authority, ":")
	for i := range len(name) {
		if c := name[i]; !isUnreserved(c) || c == '~' {
			return false
		}
	}
	return isPort(port)
}

// WithoutDot returns a plain Host without the dots at the end of its name, which many upstreams ignore. It does not allocate if there are
// none.
func WithoutDot(authority string) string {
	name, _, _ := strings.Cut(authority, ":")
	if !strings.HasSuffix(name, ".") {
		return authority
	}
	return strings.TrimRight(name, ".") + authority[len(name):]
}

func isPort(text string) bool { return strings.Trim(text, "0123456789") == "" }
