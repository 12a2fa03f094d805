package oauth

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// OriginOf returns the origin of a URL as browsers send it: scheme and host, with a port unless it is the scheme's own (RFC 6454 §6.2).
func OriginOf(u *url.URL) string {
	ownPort := map[string]string{"https": ":443", "http": ":80"}[u.Scheme]
	return u.Scheme + "://" + strings.TrimSuffix(strings.ToLower(u.Host), ownPort)
}

// serialized is an origin as browsers send it, but for a port that is the scheme's own.
var serialized = regexp.MustCompile(`^[a-z][a-z0-9+.-]*://([a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])(:[1-9][0-9]{0,4})?$`)

// ValidateOrigin refuses what no browser ever sends as an Origin, and so what would never match.
func ValidateOrigin(origin string) error {
	u, err := url.Parse(origin)
	if err != nil || !serialized.MatchString(origin) || OriginOf(u) != origin {
		return fmt.Errorf("%q: write an origin as browsers send it, like https://app.example.com or http://localhost:3000: "+
			"in lower case, without a path, a slash at the end, or the scheme's own port", origin)
	}
	return nil
}
