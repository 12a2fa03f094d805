package oauth

import "strings"

// Hostname returns the host of an authority, such as a Host header, without its port and without the brackets of an IPv6 address.
func Hostname(authority string) string {
	if address, ok := strings.CutPrefix(authority, "["); ok {
		host, _, _ := strings.Cut(address, "]")
		return host
	}
	host, _, _ := strings.Cut(authority, ":")
	return host
}

// MatchHost reports whether a host without its port matches a pattern. A * in a pattern stands for one whole label, as in Caddy's host
// matcher. An empty pattern matches every host.
func MatchHost(pattern, host string) bool {
	if !strings.Contains(pattern, "*") {
		return pattern == "" || strings.EqualFold(pattern, host)
	}
	for {
		label, patternRest, more := strings.Cut(pattern, ".")
		own, rest, hostMore := strings.Cut(host, ".")
		if more != hostMore || label == "*" && !isLabel(own) || label != "*" && !strings.EqualFold(label, own) {
			return false
		}
		if !more {
			return true
		}
		pattern, host = patternRest, rest
	}
}

// isLabel reports whether a text is a label of a host name (RFC 1123 §2.1), in which underscores are allowed too.
func isLabel(text string) bool {
	for _, c := range []byte(text) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return text != ""
}

// AtHost returns a resource with a host pattern as it is called at one of the hosts that match. A resource without a pattern is returned as
// it is.
func AtHost(resource, host string) string {
	before, pattern, after := cutHost(resource)
	if !strings.Contains(pattern, "*") {
		return resource
	}
	return before + strings.ToLower(host) + after
}

// MatchResource reports whether a resource matches a pattern, whose host may have a *.
func MatchResource(pattern, resource string) bool {
	if !strings.Contains(pattern, "*") {
		return pattern == resource
	}
	scheme, hosts, rest := cutHost(pattern)
	ownScheme, host, ownRest := cutHost(resource)
	return scheme == ownScheme && rest == ownRest && MatchHost(hosts, host)
}

// cutHost cuts the host out of a URL.
func cutHost(location string) (before, host, after string) {
	i := strings.Index(location, "://")
	if i < 0 {
		return location, "", ""
	}
	i += len("://")
	end := len(location)
	if j := strings.IndexAny(location[i:], ":/?"); j >= 0 {
		end = i + j
	}
	return location[:i], location[i:end], location[end:]
}
