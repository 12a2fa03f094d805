package endpoint

import "net/http"

// sharing determines which origins may read an endpoint's responses (Fetch §3.3), always without credentials, because these endpoints
// ignore cookies.
type sharing int

const (
	// unshared is for pages, and for endpoints that only servers call.
	unshared sharing = iota
	// sharedWithAll is for public documents.
	sharedWithAll
	// sharedWithClients is for endpoints that browser applications call; see clients.Origins.
	sharedWithClients
)

const (
	// ExposedHeaders are the response headers that browser applications need.
	ExposedHeaders = "WWW-Authenticate, Retry-After"
	// PreflightMaxAge is the Access-Control-Max-Age of preflights, in seconds.
	PreflightMaxAge = "600"
)

// share sets the CORS headers of a response, including errors, and answers preflights. It reports whether it has answered.
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
	if len(origins) != 1 || !h.clients.Origins.Allow(r.Context(), origins[0]) {
		return false
	}
	return letRead(w, r, origins[0], found.methods)
}

// shareWithAll is like share for a public document.
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
	header.Set("Access-Control-Allow-Headers", "Authorization, *") // the asterisk does not cover Authorization
	header.Set("Access-Control-Max-Age", PreflightMaxAge)
	w.WriteHeader(http.StatusNoContent)
	return true
}
