package oauth

import (
	"errors"
	"net/url"
	"strings"
)

// maxClientURL bounds a client id that is a URL, in bytes, as client ids are bounded elsewhere.
const maxClientURL = 255

// IsClientURL reports whether a client id looks like the URL of a client id metadata document. CheckClientURL says whether it can be one.
func IsClientURL(id string) bool {
	return strings.HasPrefix(id, "https://") || strings.HasPrefix(id, "http://")
}

// CheckClientURL refuses a client id that cannot be the URL of a metadata document (OAuth Client ID Metadata Document §3), and every
// spelling but one of a URL: the id is compared byte for byte. Plain http is for loopback hosts alone, and only where loopback says so.
func CheckClientURL(id string, loopback bool) error {
	u, err := url.Parse(id)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "" || !IsClientURL(id):
		return errors.New("use an absolute https URL")
	case len(id) > maxClientURL:
		return errors.New("the URL is too long")
	case u.Scheme == "http" && (!loopback || !IsLoopback(u.Hostname())):
		return errors.New("use https")
	case u.User != nil || strings.ContainsAny(id, "#\\ ") || strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c >= 0x7f }):
		return errors.New("credentials, fragments, backslashes and characters beyond ASCII are not allowed")
	case !HasPlainHost(u):
		return errors.New("write the host in ASCII letters, digits, hyphens and dots, other letters as xn--")
	case u.Path == "" || u.Path == "/":
		return errors.New("the path is missing")
	case u.Host != strings.ToLower(u.Host) || strings.HasSuffix(u.Hostname(), ".") || strings.HasSuffix(u.Host, ":") || u.String() != id:
		return errors.New("write the URL in its shortest form")
	case u.Port() != "" && (u.Port()[0] == '0' || u.Scheme == "https" && u.Port() == "443" || u.Scheme == "http" && u.Port() == "80"):
		return errors.New("leave the default port out")
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		if segment == "." || segment == ".." {
			return errors.New("dot segments are not allowed")
		}
	}
	return nil
}
