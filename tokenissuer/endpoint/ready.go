package endpoint

import (
	"net/http"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// readyPath is the path of the readiness check for load balancers, relative to the issuer's path.
const readyPath = "/oauth/ready"

// IsReadiness reports whether a request is for the readiness check. It is not in the routes, because the operator chooses
// where it is served.
func (h *Handler) IsReadiness(r *http.Request) bool { return r.URL.EscapedPath() == h.prefix+readyPath }

// ServeReadiness reports whether this node can serve requests, and not why it cannot.
func (h *Handler) ServeReadiness(w http.ResponseWriter, r *http.Request, ready bool) {
	begin(w, r)
	found := route{name: "ready", methods: methodsGet, refuse: (*Handler).Refuse}
	found.serve = func(_ *Handler, w http.ResponseWriter, _ *http.Request) error {
		status := http.StatusOK
		if !ready {
			status = answers.SetStatusHeaders(w, oauth.Unavailable("not_ready", nil))
		}
		answers.WriteBody(w, status, answers.JSON, readiness{ready})
		return nil
	}
	if err := h.serve(w, r, found, true); err != nil {
		h.refuse(w, r, found, err)
	}
}

type readiness struct {
	Ready bool `json:"ready"`
}
