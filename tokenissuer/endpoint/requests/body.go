package requests

import (
	"net/http"
	"time"
)

// bodyTimeout is the time limit for a body.
const bodyTimeout = 10 * time.Second

// BoundBody limits the time for a body, even if it is not read, because the server waits for it before it responds. After a chunked body
// over HTTP/1 it closes the connection: that is required if there was a Content-Length too (RFC 9112 §6.1), which net/http hides.
func BoundBody(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		_ = setBodyDeadline(w, time.Now().Add(bodyTimeout)) // on ErrNotSupported the server's own limits apply
	}
	if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		w.Header().Set("Connection", "close")
	}
}

func setBodyDeadline(w http.ResponseWriter, at time.Time) error {
	return http.NewResponseController(w).SetReadDeadline(at)
}
