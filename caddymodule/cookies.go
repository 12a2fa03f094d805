package caddymodule

import (
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// withoutCookies removes the cookies of these names from the Cookie lines of a header, and keeps every other byte. The
// lines are replaced and not written to, because copies of the request share them.
func withoutCookies(h http.Header, names ...string) {
	lines := h["Cookie"]
	if !slices.ContainsFunc(lines, func(line string) bool { return mentionsCookie(line, names) }) {
		return
	}
	kept := make([]string, 0, len(lines))
	for _, line := range lines {
		if line = withoutCookiesInLine(line, names); strings.Trim(line, "; \t") != "" {
			kept = append(kept, line)
		}
	}
	if len(kept) == 0 {
		delete(h, "Cookie")
		return
	}
	h["Cookie"] = kept
}

// mentionsCookie is the quick look that spares most requests the splitting.
func mentionsCookie(line string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return strings.Contains(line, name) })
}

func withoutCookiesInLine(line string, names []string) string {
	if !mentionsCookie(line, names) {
		return line
	}
	var kept []string
	for i, pair := range strings.Split(line, ";") {
		switch {
		case slices.Contains(names, cookieName(pair)):
		case i > 0 && len(kept) == 0: // what stood between this one and the one before it goes with that one
			kept = append(kept, strings.TrimLeft(pair, " \t"))
		default:
			kept = append(kept, pair)
		}
	}
	return strings.Join(kept, ";")
}

// cookieName is the name under which a cookie arrives at the next reader of `name=value; …`. A cookie without a name,
// `=name=value`, is stored by browsers with an empty name and sent back as `name=value` (RFC 6265bis §5.4): it counts
// as what it comes back as.
func cookieName(pair string) string {
	pair, _, _ = strings.Cut(pair, ";")
	name, _ := splitCookie(pair)
	return name
}

func splitCookie(pair string) (name, value string) {
	name, value, _ = strings.Cut(strings.TrimLeft(pair, "= \t"), "=")
	return strings.TrimRight(name, " \t"), strings.Trim(value, " \t")
}

// cookieValues returns the values of all cookies of a name, under which any reader could find them.
func cookieValues(h http.Header, name string) []string {
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

// setCookieFilter keeps an upstream from setting our cookies: it drops their Set-Cookie lines from every response head,
// informational ones too, and keeps everything else. Hijacking and deadlines reach the writer below through Unwrap.
type setCookieFilter struct {
	caddyhttp.ResponseWriterWrapper
	names []string
	// renewed are Set-Cookie lines of ours, which go with the final head.
	renewed []string
	// private: the answer is for whom a cookie stands, and for no shared cache.
	private     bool
	wroteHeader bool
}

// newSetCookieFilter wraps w for an upstream that must not set cookies of these names.
func newSetCookieFilter(w http.ResponseWriter, names []string) *setCookieFilter {
	return &setCookieFilter{ResponseWriterWrapper: caddyhttp.ResponseWriterWrapper{ResponseWriter: w}, names: names}
}

// filter cleans the header just before it is sent. After that the map may be read by the server at the same time.
func (f *setCookieFilter) filter() {
	if f.wroteHeader {
		return
	}
	lines := f.Header()["Set-Cookie"]
	isOurs := func(line string) bool { return slices.Contains(f.names, cookieName(line)) }
	if !slices.ContainsFunc(lines, isOurs) {
		return
	}
	if lines = slices.DeleteFunc(slices.Clone(lines), isOurs); len(lines) > 0 {
		f.Header()["Set-Cookie"] = lines
	} else {
		f.Header().Del("Set-Cookie")
	}
}

// WriteHeader filters every head. Only a final one ends the filtering: 1xx may come any number of times before it, but
// for 101, after which there is no HTTP any more.
func (f *setCookieFilter) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		f.begin()
	} else {
		f.filter()
	}
	f.ResponseWriterWrapper.WriteHeader(status)
}

// Write filters when it is the first to be called, for then it sends the head.
func (f *setCookieFilter) Write(p []byte) (int, error) {
	f.begin()
	return f.ResponseWriterWrapper.Write(p)
}

// ReadFrom is Write for a reader, with sendfile where the writer below has it.
func (f *setCookieFilter) ReadFrom(r io.Reader) (int64, error) {
	f.begin()
	return f.ResponseWriterWrapper.ReadFrom(r)
}

// FlushError filters as well, because a flush before the first byte sends the head too. http.ResponseController calls
// it before it would unwrap us.
func (f *setCookieFilter) FlushError() error {
	f.begin()
	return http.NewResponseController(f.ResponseWriter).Flush()
}

// begin is for everything that sends the final head.
func (f *setCookieFilter) begin() {
	f.filter()
	if f.wroteHeader {
		return
	}
	f.wroteHeader = true
	if f.private {
		keepPrivate(f.Header())
	}
	setCookies(f.Header(), f.renewed)
}

// setCookies adds Set-Cookie lines of ours to an answer, which no cache may keep then. Some caches listen to headers of
// their own instead of Cache-Control (RFC 9213).
func setCookies(h http.Header, lines []string) {
	if len(lines) == 0 {
		return
	}
	h["Set-Cookie"] = append(slices.Clip(h["Set-Cookie"]), lines...)
	h["Cache-Control"] = []string{"no-store"}
	for name := range h {
		if strings.HasSuffix(name, "-Cache-Control") || name == "Surrogate-Control" {
			delete(h, name)
		}
	}
}

// keepPrivate keeps shared caches from an answer to a token in a cookie, as RFC 9111 §3.5 does for one in the Authorization
// header: unless the upstream has allowed it in words that hold there too.
func keepPrivate(h http.Header) {
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

var (
	_ http.ResponseWriter = (*setCookieFilter)(nil)
	_ io.ReaderFrom       = (*setCookieFilter)(nil)
)
