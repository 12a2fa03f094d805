package identity

import (
	"net/http"
	"slices"
	"strings"
)

// WithoutCookies removes the cookies of these names from the Cookie lines of a header, keeps every other byte, and returns what it
// has removed, each as it was. It replaces the lines, because copies of the request share them.
func WithoutCookies(h http.Header, names ...string) (removed []string) {
	lines := h["Cookie"]
	if !slices.ContainsFunc(lines, func(line string) bool { return mentionsCookie(line, names) }) {
		return nil
	}
	kept := make([]string, 0, len(lines))
	for _, line := range lines {
		line, removed = withoutCookiesInLine(line, names, removed)
		if strings.Trim(line, "; \t") != "" {
			kept = append(kept, line)
		}
	}
	if len(kept) == 0 {
		delete(h, "Cookie")
		return removed
	}
	h["Cookie"] = kept
	return removed
}

// mentionsCookie is a cheap check that spares most requests the parsing.
func mentionsCookie(line string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return strings.Contains(line, name) })
}

// withoutCookiesInLine returns a line without the cookies of these names, which it appends to removed.
func withoutCookiesInLine(line string, names, removed []string) (rest string, all []string) {
	if !mentionsCookie(line, names) {
		return line, removed
	}
	var kept []string
	for i, pair := range strings.Split(line, ";") {
		switch {
		case slices.Contains(names, cookieName(pair)):
			removed = append(removed, pair)
		case i > 0 && len(kept) == 0: // drop the separator between this cookie and the removed one
			kept = append(kept, strings.TrimLeft(pair, " \t"))
		default:
			kept = append(kept, pair)
		}
	}
	return strings.Join(kept, ";"), removed
}

// cookieName returns the name under which the next reader finds a cookie. Browsers store `=name=value` with an empty name
// and send it back as `name=value` (RFC 6265bis §5.4), so its name is the latter's.
func cookieName(pair string) string {
	pair, _, _ = strings.Cut(pair, ";")
	name, _ := splitCookie(pair)
	return name
}

func splitCookie(pair string) (name, value string) {
	name, value, _ = strings.Cut(strings.TrimLeft(pair, "= \t"), "=")
	return strings.TrimRight(name, " \t"), strings.Trim(value, " \t")
}

// CookieValues returns the values of all cookies that a reader could find under the name.
func CookieValues(h http.Header, name string) []string {
	var values []string
	for _, line := range h["Cookie"] {
		if !strings.Contains(line, name) {
			continue
		}
		for pair := range strings.SplitSeq(line, ";") {
			if found, value := splitCookie(pair); found == name {
				values = append(values, value)
			}
		}
	}
	return values
}

// DropCookies removes the Set-Cookie lines with these names from a response, and from its trailers.
func DropCookies(h http.Header, names []string) {
	dropCookieLines(h, "Set-Cookie", names)
	dropCookieLines(h, http.TrailerPrefix+"Set-Cookie", names)
}

func dropCookieLines(h http.Header, key string, names []string) {
	lines := h[key]
	isOurs := func(line string) bool { return slices.Contains(names, cookieName(line)) }
	if !slices.ContainsFunc(lines, isOurs) {
		return
	}
	if lines = slices.DeleteFunc(slices.Clone(lines), isOurs); len(lines) > 0 {
		h[key] = lines
	} else {
		delete(h, key)
	}
}

// KeepPrivate keeps shared caches from storing a response to a token in a cookie, as RFC 9111 §3.5 does for the
// Authorization header, unless the upstream allowed it explicitly.
func KeepPrivate(h http.Header) {
	lines := h["Cache-Control"]
	for _, line := range lines {
		for directive := range strings.SplitSeq(line, ",") {
			name, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(directive)), "=")
			switch name {
			case "private", "no-store", "public", "s-maxage", "must-revalidate":
				return
			}
		}
	}
	h["Cache-Control"] = append(slices.Clip(lines), "private")
}
