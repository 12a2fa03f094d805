package endpoint

import (
	"net/http"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// readyPath and livePath are the paths of the checks for load balancers and supervisors, relative to the issuer's path.
const (
	readyPath = "/oauth/ready"
	livePath  = "/oauth/live"
)

// IsHealth reports whether a request is for one of the checks. They have no routes, because the operator chooses where they are served.
func (h *Handler) IsHealth(r *http.Request) bool {
	path := r.URL.EscapedPath()
	return path == h.site.prefix+readyPath || path == h.site.prefix+livePath
}

// ServeHealth serves the check that the request is for. That of livePath only says that the program answers: a supervisor that restarts
// nodes must not do so because the database is away. That of readyPath reports whether this node can serve, and not why it cannot.
func (h *Handler) ServeHealth(w http.ResponseWriter, r *http.Request, ready func() bool) {
	begin(w, r)
	found := route{name: "ready", methods: methodsGet, refuse: h.browser.refuseJSON}
	found.serve = func(w http.ResponseWriter, _ *http.Request) error {
		is, status := ready(), http.StatusOK
		if !is {
			status = answers.SetStatusHeaders(w, oauth.Unavailable("not_ready", nil))
		}
		answers.WriteBody(w, status, answers.JSON, readiness{is})
		return nil
	}
	if r.URL.EscapedPath() == h.site.prefix+livePath {
		found.name = "live"
		found.serve = func(w http.ResponseWriter, _ *http.Request) error {
			return answers.WriteJSON(w, map[string]bool{"live": true})
		}
	}
	h.serve(w, r, found)
}

type readiness struct {
	Ready bool `json:"ready"`
}
