package gate

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
)

// watchedBody records whether a client's body was read to its end. If it was not, the connection must be closed, or the
// rest of the body would be read as another request: another client's, behind a proxy that shares connections. net/http
// checks this on the request's original body, which Caddy has replaced by then.
type watchedBody struct {
	io.ReadCloser
	reachedEOF atomic.Bool
}

// watchBody wraps the body of an HTTP/1 request. It returns nil if the request has none or is not HTTP/1.
func watchBody(r *http.Request) *watchedBody {
	if r.ProtoMajor != 1 || r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return nil
	}
	b := &watchedBody{ReadCloser: r.Body}
	r.Body = b
	return b
}

// Read records the end of the body.
func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.reachedEOF.Store(true)
	}
	return n, err
}

// end requests that the connection be closed if the body was not read to its end.
func (b *watchedBody) end(h http.Header) {
	if b != nil && !b.reachedEOF.Load() {
		h.Set("Connection", "close")
	}
}
