package gate

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/caddymodule/identity"
)

// answerFilter is between whoever answers a request and the client. It keeps an upstream from setting our cookies: it drops
// their Set-Cookie lines from every response head, informational ones too. It adds what we have to say ourselves, and keeps
// everything else. The answer becomes a tunnel only when the client has asked for one. Deadlines reach the writer below through
// Unwrap.
type answerFilter struct {
	caddyhttp.ResponseWriterWrapper
	// upgrade is the protocol that the client may switch to; empty: there is none.
	upgrade string
	// names are those of our cookies.
	names []string
	// renewed are Set-Cookie lines of ours, which go with the final head.
	renewed []string
	// private: the answer is for whom a cookie stands, and for no shared cache.
	private bool
	// told is who is calling, where the answer says so.
	told upstreamIdentity
	// page is whoever of another origin may read the answer.
	page foreignPage
	// body is the client's; nil: there is none to watch.
	body        *watchedBody
	wroteHeader bool
}

// newAnswerFilter wraps w for an upstream that must not set cookies of these names.
func newAnswerFilter(w http.ResponseWriter, names []string) *answerFilter {
	return &answerFilter{ResponseWriterWrapper: caddyhttp.ResponseWriterWrapper{ResponseWriter: w}, names: names}
}

// refusing wraps w for an answer that tells nobody who is calling: error routes may have an upstream too.
func (p *Protect) refusing(w http.ResponseWriter) *answerFilter {
	f := newAnswerFilter(w, p.cookies.issuer)
	f.told = p.tell(nil)
	return f
}

// filter cleans the header just before it is sent. After that the map may be read by the server at the same time.
func (f *answerFilter) filter(h http.Header) {
	f.told.clean(h)
	identity.DropCookies(h, f.names)
}

// WriteHeader filters every head. Only a final one ends the filtering: 1xx may come any number of times before it, but
// for 101, after which there is no HTTP any more.
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

// Write filters when it is the first to be called, for then it sends the head.
func (f *answerFilter) Write(p []byte) (int, error) {
	f.begin()
	return f.ResponseWriterWrapper.Write(p)
}

// ReadFrom is Write for a reader, with sendfile where the writer below has it.
func (f *answerFilter) ReadFrom(r io.Reader) (int64, error) {
	f.begin()
	return f.ResponseWriterWrapper.ReadFrom(r)
}

// FlushError filters as well, because a flush before the first byte sends the head too. http.ResponseController calls
// it before it would unwrap us.
func (f *answerFilter) FlushError() error {
	f.begin()
	return http.NewResponseController(f.ResponseWriter).Flush()
}

// Hijack gives the connection away for a protocol that the client has asked for.
func (f *answerFilter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if f.upgrade == "" {
		return nil, nil, errNotAsked
	}
	return http.NewResponseController(f.ResponseWriter).Hijack()
}

// begin is for everything that sends the final head.
func (f *answerFilter) begin() {
	if f.wroteHeader {
		return
	}
	f.wroteHeader = true
	h := f.Header()
	f.filter(h)
	f.body.end(h)
	f.told.write(h)
	f.page.allow(h)
	if f.private {
		identity.KeepPrivate(h)
	}
	identity.SetCookies(h, f.renewed)
}

// finish is for after the next handler: what an upstream has as trailers is in the header only now. Our own cookies are written
// once more, for a writer that holds the head back.
func (f *answerFilter) finish(err error) {
	h := f.Header()
	f.told.finish(h, err)
	identity.DropCookies(h, f.names)
	if f.wroteHeader && err == nil {
		identity.SetCookies(h, f.renewed)
	}
}

var (
	_ http.ResponseWriter = (*answerFilter)(nil)
	_ http.Hijacker       = (*answerFilter)(nil)
	_ io.ReaderFrom       = (*answerFilter)(nil)
)
