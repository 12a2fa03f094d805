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
	pair = strings.TrimLeft(pair, "= \t")
	name, _, _ := strings.Cut(pair, "=")
	return strings.TrimRight(name, " \t")
}

// setCookieFilter keeps an upstream from setting our cookies: it drops their Set-Cookie lines from every response head,
// informational ones too, and keeps everything else. Hijacking and deadlines reach the writer below through Unwrap.
type setCookieFilter struct {
	caddyhttp.ResponseWriterWrapper
	names       []string
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
	f.filter()
	f.wroteHeader = f.wroteHeader || status >= 200 || status == http.StatusSwitchingProtocols
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

// begin is for everything that sends the final head without calling WriteHeader.
func (f *setCookieFilter) begin() {
	f.filter()
	f.wroteHeader = true
}

var (
	_ http.ResponseWriter = (*setCookieFilter)(nil)
	_ io.ReaderFrom       = (*setCookieFilter)(nil)
)
