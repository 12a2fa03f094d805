package oauth

import (
	"fmt"
	"net/url"
	"path"
	"strings"
)

// FoldResource returns the form of a resource indicator in which two spellings of one resource are equal: scheme and host in
// lower case, and without a slash at the end of the path. It returns false for what is no absolute URI, or has a fragment
// (RFC 8707 §2).
func FoldResource(indicator string) (folded string, ok bool) {
	u, err := url.Parse(indicator)
	if err != nil || !u.IsAbs() || strings.Contains(indicator, "#") {
		return "", false
	}
	rest, query, hasQuery := strings.Cut(indicator[len(u.Scheme)+len(":"):], "?")
	if authority, hierarchical := strings.CutPrefix(rest, "//"); hierarchical {
		path := ""
		if i := strings.IndexByte(authority, '/'); i >= 0 {
			authority, path = authority[:i], authority[i:]
		}
		host := strings.LastIndexByte(authority, '@') + 1
		rest = "//" + authority[:host] + strings.ToLower(authority[host:]) + path
	}
	if rest = strings.TrimSuffix(rest, "/"); rest == "" || rest == "/" || rest == "//" {
		return "", false
	}
	folded = u.Scheme + ":" + rest // url.Parse has folded the scheme
	if hasQuery {
		folded += "?" + query
	}
	return folded, true
}

// SameResource reports whether two audiences are equal, or two spellings of one resource.
func SameResource(a, b string) bool {
	if a == b {
		return true
	}
	folded, ok := FoldResource(a)
	other, otherOK := FoldResource(b)
	return ok && otherOK && folded == other
}

// CheckResource validates a resource identifier (RFC 9728 §1.2): an https URL without a fragment. A query is refused too:
// it would only be another spelling.
func CheckResource(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Host == "", u.User != nil, strings.ContainsAny(text, "?#"), u.Path != "" && path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/") && u.Path != "/":
		return fmt.Errorf("resource %q is no URL of a resource: write it as https://api.example.com/orders", text)
	case u.Scheme == "https", u.Scheme == "http" && IsLoopback(u.Hostname()):
		return nil
	}
	return fmt.Errorf("resource %q must be https, or on a loopback host", text)
}
