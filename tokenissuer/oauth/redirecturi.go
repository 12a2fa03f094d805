package oauth

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"
)

// WithoutPort removes the port from an http URI on a loopback host, and reports whether it is such a URI. "localhost"
// counts although RFC 8252 §8.3 advises against it: many applications know no other name, and browsers resolve it to
// loopback.
func WithoutPort(uri string) (portless string, loopback bool) {
	for _, origin := range []string{"http://127.0.0.1", "http://[::1]", "http://localhost"} {
		rest, ok := strings.CutPrefix(uri, origin)
		if !ok {
			continue
		}
		if numbered, found := strings.CutPrefix(rest, ":"); found {
			digits := len(numbered) - len(strings.TrimLeft(numbered, "0123456789"))
			if port, err := strconv.ParseUint(numbered[:digits], 10, 16); err != nil || port == 0 || numbered[0] == '0' {
				return "", false
			}
			rest = numbered[digits:]
		}
		if rest != "" && rest[0] != '/' && rest[0] != '?' {
			return "", false
		}
		return origin + rest, true
	}
	return "", false
}

// ValidateRedirectURI says what is wrong with a redirect URI that is to be registered.
func ValidateRedirectURI(uri string) error {
	if err := CheckRedirectURI(uri); err != nil {
		return fmt.Errorf("redirect URI %q: %w", uri, err)
	}
	return nil
}

// IsLoopback reports whether a host is localhost, a name below it (RFC 6761 §6.3) or a loopback address.
func IsLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || strings.HasSuffix(strings.ToLower(host), ".localhost") || err == nil && address.IsLoopback()
}

// CheckRedirectURI refuses unsafe targets: relative URIs, wildcards (which would match nothing), fragments (RFC 6749
// §3.1.2), credentials, parameters that the response itself sets, and schemes that run code or lead to no
// application.
func CheckRedirectURI(uri string) error {
	u, err := url.Parse(uri)
	if err != nil || !u.IsAbs() {
		return errors.New("use an absolute URI")
	}
	if strings.Contains(uri, "#") || u.User != nil || strings.ContainsFunc(uri, unicode.IsControl) || strings.ContainsAny(uri, " \\") {
		return errors.New("fragments, credentials, spaces, backslashes and control characters are not allowed")
	}
	if strings.Contains(uri, "*") {
		return errors.New("a * stands for nothing, because redirect URIs are compared byte for byte: name each of them")
	}
	switch strings.ToLower(u.Scheme) {
	case "javascript", "data", "vbscript", "file", "filesystem", "blob", "about", "view-source", "urn", "mailto", "tel", "ftp", "ws", "wss":
		return fmt.Errorf("scheme %q is not allowed", u.Scheme)
	case "http", "https":
		if u.Host == "" {
			return errors.New("the host is missing")
		}
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil { // at a semicolon, where some readers see another parameter
		return errors.New("the query must be pairs that & separates, percent-encoded")
	}
	for _, name := range []string{"code", "state", "response", "error", "iss"} {
		if query.Has(name) {
			return fmt.Errorf("the query must not hold %q: the answer sets it", name)
		}
	}
	return nil
}
