package requestpath

import (
	"net/netip"
	"strings"
)

// IsPlainHost reports whether Caddy's matcher `host` and every upstream take the Host of a request for the same name. Caddy
// compares it as it stands, while upstreams may decode it, or cut it at its first colon. One that is not the CanonicalHost makes a
// reading more, and a request without a host is plain.
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

// CanonicalHost returns a plain Host as upstreams compare it: its name in lower case and without the dots at its end, and without an empty
// or a default port. It does not allocate if that is how it is.
func CanonicalHost(authority string) string {
	name, port := splitPort(authority)
	if port == ":" || port == ":80" || port == ":443" {
		port = ""
	}
	canonical := canonicalName(name)
	if canonical == name && len(name)+len(port) == len(authority) {
		return authority
	}
	return canonical + port
}

// IsNameCanonical reports whether the name in a plain Host is that in the CanonicalHost.
func IsNameCanonical(authority string) bool {
	name, _ := splitPort(authority)
	return canonicalName(name) == name
}

func canonicalName(name string) string { return strings.ToLower(strings.TrimRight(name, ".")) }

// splitPort returns the port with its colon.
func splitPort(authority string) (name, port string) {
	at := strings.LastIndexByte(authority, ':')
	if at < 0 || at < strings.IndexByte(authority, ']') {
		return authority, ""
	}
	return authority[:at], authority[at:]
}

func isPort(text string) bool { return strings.Trim(text, "0123456789") == "" }
