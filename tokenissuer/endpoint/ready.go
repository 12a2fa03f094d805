package endpoint

import (
	"net/http"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// readyPath is where a balancer asks whether this node can serve, below the issuer's own path.
const readyPath = "/oauth/ready"

// IsReadiness reports whether a request asks for this issuer's readiness. It is no route: it is served where the operator
// wants it, and elsewhere there is nothing at its path.
func (h *Handler) IsReadiness(r *http.Request) bool { return r.URL.EscapedPath() == h.prefix+readyPath }

// ServeReadiness tells anybody whether this node can serve, and nothing of why it cannot.
func (h *Handler) ServeReadiness(w http.ResponseWriter, r *http.Request, ready bool) {
	begin(w, r)
	found := route{name: "ready", methods: methodsGet, refuse: (*Handler).Refuse}
	found.serve = func(_ *Handler, w http.ResponseWriter, _ *http.Request) error {
		status := http.StatusOK
		if !ready {
			status = setStatusHeaders(w, oauth.Unavailable("not_ready", nil))
		}
		writeBody(w, status, jsonUTF8, readiness{ready})
		return nil
	}
	if err := h.serve(w, r, found, true); err != nil {
		h.refuse(w, r, found, err)
	}
}

type readiness struct {
	Ready bool `json:"ready"`
}
