package gate

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/identity"
)

// answerFilter wraps the client's ResponseWriter. It drops Set-Cookie lines with our cookie names from every response
// head, 1xx included, and adds our own headers to the final one. It permits a protocol switch only if the client asked
// for it. Deadlines reach the wrapped writer through Unwrap.
type answerFilter struct {
	caddyhttp.ResponseWriterWrapper
	// upgrade is the protocol that the client may switch to; empty: there is none.
	upgrade string
	// cookieNames are the names of our cookies, which an upstream must not set.
	cookieNames []string
	// private: a cookie authenticated the request, so shared caches must not store the answer.
	private bool
	// identity holds the identity headers of the answer, for `forward_to response`.
	identity responseIdentity
	// cors holds the CORS headers of the answer; nil: there are none.
	cors *corsGrant
	// body is the client's request body; nil: there is none to watch.
	body        *watchedBody
	wroteHeader bool
}

// newAnswerFilter wraps w for an upstream that must not set cookies of these names.
func newAnswerFilter(w http.ResponseWriter, names []string) *answerFilter {
	return &answerFilter{ResponseWriterWrapper: caddyhttp.ResponseWriterWrapper{ResponseWriter: w}, cookieNames: names}
}

// refusing wraps w for an answer without identity headers. An error route may have an upstream too.
func (p *Protect) refusing(w http.ResponseWriter) *answerFilter {
	f := newAnswerFilter(w, p.shared.cookies)
	f.identity = p.responseIdentity(nil)
	return f
}

// filter removes forbidden headers just before the head is sent. Afterwards the server may read the map concurrently.
func (f *answerFilter) filter(h http.Header) {
	f.identity.clean(h)
	identity.DropCookies(h, f.cookieNames)
}

// WriteHeader filters every head. Any number of 1xx responses may precede the final one; 101 is final, since HTTP ends
// with it.
func (f *answerFilter) WriteHeader(status int) {
	if status == http.StatusSwitchingProtocols && (f.upgrade == "" || !strings.EqualFold(f.Header().Get("Upgrade"), f.upgrade)) {
		f.upgrade = ""
		delete(f.Header(), "Connection")
		delete(f.Header(), "Upgrade")
		status = http.StatusBadGateway
	}
	if status >= 200 || status == http.StatusSwitchingProtocols {
		f.begin()
	} else if !f.wroteHeader {
		f.filter(f.Header())
	}
	f.ResponseWriterWrapper.WriteHeader(status)
}

// Write filters first if it is the call that sends the head.
func (f *answerFilter) Write(p []byte) (int, error) {
	f.begin()
	return f.ResponseWriterWrapper.Write(p)
}

// ReadFrom is like Write and uses sendfile where the wrapped writer supports it.
func (f *answerFilter) ReadFrom(r io.Reader) (int64, error) {
	f.begin()
	return f.ResponseWriterWrapper.ReadFrom(r)
}

// FlushError filters first, because a flush before the first byte sends the head. http.ResponseController calls it before
// unwrapping.
func (f *answerFilter) FlushError() error {
	f.begin()
	return http.NewResponseController(f.ResponseWriter).Flush()
}

// Hijack takes over the connection for the protocol that the client asked for.
func (f *answerFilter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if f.upgrade == "" {
		return nil, nil, errNotAsked
	}
	return http.NewResponseController(f.ResponseWriter).Hijack()
}

// begin prepares the final head. Every method that sends it calls begin first.
func (f *answerFilter) begin() {
	if f.wroteHeader {
		return
	}
	f.wroteHeader = true
	h := f.Header()
	f.filter(h)
	f.body.end(h)
	f.identity.write(h)
	f.cors.allow(h)
	if f.private {
		identity.KeepPrivate(h)
	}
}

// finish runs after the next handler. Trailers of an upstream are in the header only now.
func (f *answerFilter) finish(err error) {
	h := f.Header()
	f.identity.finish(h, err)
	identity.DropCookies(h, f.cookieNames)
}

var (
	_ http.ResponseWriter = (*answerFilter)(nil)
	_ http.Hijacker       = (*answerFilter)(nil)
	_ io.ReaderFrom       = (*answerFilter)(nil)
)
