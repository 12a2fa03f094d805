package admin

import (
	"errors"
	"net/http"
)

var errNoApp = errors.New("no oauth app is running: is there an oauth block in the configuration? If there is, it is still starting")

// readiness is the answer of serveReady.
type readiness struct {
	Ready   bool     `json:"ready"`
	Reasons []string `json:"reasons,omitzero"` // why it is not
}

// serveReady reports whether the node can serve, as the public endpoint does, with the reasons. It needs no issuer.
func serveReady(w http.ResponseWriter, _ *http.Request) {
	reasons := []string{errNoApp.Error()}
	if t := newest(); t != nil {
		reasons = t.Unreadiness()
	}
	status := http.StatusOK
	if len(reasons) > 0 {
		w.Header().Set("Retry-After", "2")
		status = http.StatusServiceUnavailable
	}
	writeAnswer(w, status, readiness{len(reasons) == 0, reasons})
}
