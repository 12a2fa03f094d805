package admin

import (
	"errors"
	"net/http"
)

var errNoApp = errors.New("no oauth app is running: is there an oauth block in the configuration? If there is, it is still starting")

// readiness says whether the node can serve.
type readiness struct {
	Ready   bool     `json:"ready"`
	Reasons []string `json:"reasons,omitzero"` // why it is not
}

// serveReady says whether the node can serve, as the public answer does, with the reasons. It answers whatever state the
// issuer is in.
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
