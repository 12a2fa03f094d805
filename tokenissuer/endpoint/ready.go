package endpoint

import (
	"net/http"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// readyPath is the path of the readiness check for load balancers, relative to the issuer's path.
const readyPath = "/oauth/ready"

// IsReadiness reports whether a request is for the readiness check. The check has no route, because the operator chooses where it is
// served.
func (h *Handler) IsReadiness(r *http.Request) bool {
	return r.URL.EscapedPath() == h.site.prefix+readyPath
}

// ServeReadiness reports whether this node can serve requests. It does not say why it cannot.
func (h *Handler) ServeReadiness(w http.ResponseWriter, r *http.Request, ready bool) {
	begin(w, r)
	found := route{name: "ready", methods: methodsGet, refuse: h.browser.refuseJSON}
	found.serve = func(w http.ResponseWriter, _ *http.Request) error {
		status := http.StatusOK
		if !ready {
			status = answers.SetStatusHeaders(w, oauth.Unavailable("not_ready", nil))
		}
		answers.WriteBody(w, status, answers.JSON, readiness{ready})
		return nil
	}
	h.serve(w, r, found)
}

type readiness struct {
	Ready bool `json:"ready"`
}
