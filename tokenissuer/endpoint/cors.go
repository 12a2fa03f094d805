package endpoint

import "net/http"

// sharing says which pages of other origins may read an endpoint's answers (Fetch §3.3). Never with credentials: a browser sends
// none along, and no cookie of ours counts at these endpoints.
type sharing int

const (
	// unshared endpoints are pages for people, and what only servers call.
	unshared sharing = iota
	// sharedWithAll are documents that are public.
	sharedWithAll
	// sharedWithClients are endpoints that applications in browsers call: see tokenissuer.Origins.
	sharedWithClients
)

const (
	// ExposedHeaders are those of an answer that a page needs: why it was refused, and when it may come back.
	ExposedHeaders = "WWW-Authenticate, Retry-After"
	// PreflightMaxAge is how long, in seconds, a browser may remember the answer to a preflight.
	PreflightMaxAge = "600"
)

// share lets a page of another origin read the answer, errors too, and answers its preflight. It reports whether it has
// answered.
func (h *Handler) share(w http.ResponseWriter, r *http.Request, found route) (answered bool) {
	origins := r.Header["Origin"]
	switch found.sharing {
	case unshared:
		return false
	case sharedWithAll:
		return shareWithAll(w, r, found.methods)
	}
	if len(origins) == 0 {
		return false
	}
	w.Header().Add("Vary", "Origin")
	if len(origins) != 1 || !h.issuer.Origins.Allow(r.Context(), origins[0]) {
		return false
	}
	return letRead(w, r, origins[0], found.methods)
}

// shareWithAll is share for a public document.
func shareWithAll(w http.ResponseWriter, r *http.Request, methods string) (answered bool) {
	return letRead(w, r, "*", methods)
}

func letRead(w http.ResponseWriter, r *http.Request, origin, methods string) (answered bool) {
	header := w.Header()
	header.Set("Access-Control-Allow-Origin", origin)
	if r.Method != http.MethodOptions || r.Header.Get("Origin") == "" || r.Header.Get("Access-Control-Request-Method") == "" {
		header.Set("Access-Control-Expose-Headers", ExposedHeaders)
		return false
	}
	header.Set("Access-Control-Allow-Methods", methods)
	header.Set("Access-Control-Allow-Headers", "Authorization, *") // the asterisk does not stand for it
	header.Set("Access-Control-Max-Age", PreflightMaxAge)
	w.WriteHeader(http.StatusNoContent)
	return true
}
