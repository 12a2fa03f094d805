package gate

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
)

// watchedBody notices whether a client's body was read to its end. net/http does so too, and closes a connection on which
// the rest of a body is still to come; but it looks at the request's own body, which Caddy has replaced by then. Without
// this, what follows on the connection would be read as another request: somebody else's, behind a proxy that shares its
// connections.
type watchedBody struct {
	io.ReadCloser
	read atomic.Bool
}

// watchBody watches over the body of a request over HTTP/1; nil: there is none, or it is not on a connection of its own.
func watchBody(r *http.Request) *watchedBody {
	if r.ProtoMajor != 1 || r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return nil
	}
	b := &watchedBody{ReadCloser: r.Body}
	r.Body = b
	return b
}

// Read notices the end.
func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.read.Store(true)
	}
	return n, err
}

// end has the connection closed after an answer to a request whose body has not come to its end.
func (b *watchedBody) end(h http.Header) {
	if b != nil && !b.read.Load() {
		h.Set("Connection", "close")
	}
}
