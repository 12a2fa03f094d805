package oauth

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// OriginOf returns the origin of a URL as browsers send it: scheme and host, with a port unless it is the scheme's
// default (RFC 6454 §6.2).
func OriginOf(u *url.URL) string {
	ownPort := map[string]string{"https": ":443", "http": ":80"}[u.Scheme]
	return u.Scheme + "://" + strings.TrimSuffix(strings.ToLower(u.Host), ownPort)
}

// serialized matches an origin as browsers send it, and also one with the scheme's default port.
var serialized = regexp.MustCompile(`^[a-z][a-z0-9+.-]*://([a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])(:[1-9][0-9]{0,4})?$`)

// HasPlainHost reports whether the host of a URL is a name in ASCII letters, digits, hyphens and dots, or an address. People who are shown
// another one may take it for the one that it looks like: url.Parse takes and decodes letters beyond ASCII.
func HasPlainHost(u *url.URL) bool { return serialized.MatchString(OriginOf(u)) }

// ValidateOrigin refuses text that no browser sends as an Origin and that would therefore never match.
func ValidateOrigin(origin string) error {
	u, err := url.Parse(origin)
	if err != nil || !serialized.MatchString(origin) || OriginOf(u) != origin {
		return fmt.Errorf("%q: write an origin as browsers send it, like https://app.example.com or http://localhost:3000: "+
			"in lower case, without a path, a slash at the end, or the scheme's own port", origin)
	}
	return nil
}
