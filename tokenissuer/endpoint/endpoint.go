package endpoint

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

// Handler serves the issuer's endpoints. Paths are compared exactly, on the path as the client sent it.
type Handler struct {
	issuer   *tokenissuer.Issuer
	audit    *Audit
	routes   map[string]route
	prefix   string // the issuer's own path, usually ""
	metadata []byte
	resource []byte
}

// route is what a path answers to.
type route struct {
	method string // POST, or GET, which includes HEAD
	serve  func(*Handler, http.ResponseWriter, *http.Request) error
}

const (
	wellKnownServer   = "/.well-known/oauth-authorization-server" // RFC 8414 §3
	wellKnownResource = "/.well-known/oauth-protected-resource"   // RFC 9728 §3
)

// NewHandler returns the endpoints of an issuer. It fails when the issuer's URL is none.
func NewHandler(issuer *tokenissuer.Issuer, audit *Audit) (*Handler, error) {
	u, err := url.Parse(issuer.URL)
	if err != nil {
		return nil, err
	}
	h := &Handler{issuer: issuer, audit: audit, prefix: strings.TrimSuffix(u.EscapedPath(), "/")}
	if h.metadata, err = serverMetadata(issuer); err != nil {
		return nil, err
	}
	if h.resource, err = resourceMetadata(issuer); err != nil {
		return nil, err
	}
	metadata := route{http.MethodGet, (*Handler).serveMetadata}
	h.routes = map[string]route{
		h.prefix + "/oauth/token":      {http.MethodPost, (*Handler).token},
		h.prefix + "/oauth/revoke":     {http.MethodPost, (*Handler).revoke},
		h.prefix + "/oauth/introspect": {http.MethodPost, (*Handler).introspect},
		h.prefix + "/oauth/token/info": {http.MethodGet, (*Handler).tokenInfo},
		h.prefix + "/oauth/jwks":       {http.MethodGet, (*Handler).jwks},
		wellKnownServer:                metadata,
		wellKnownServer + h.prefix:     metadata, // RFC 8414 §3.1: the issuer's path stands behind
		h.prefix + wellKnownServer:     metadata,
	}
	resource := route{http.MethodGet, (*Handler).serveResourceMetadata}
	h.routes[wellKnownResource] = resource
	if location, err := url.Parse(ResourceMetadataURL(issuer)); err == nil {
		h.routes[location.EscapedPath()] = resource
	}
	return h, nil
}

// Owns tells whether the request is for the issuer: its endpoints, and everything else under its paths, so that no
// part of them ever reaches an upstream. The query and the host do not matter.
func (h *Handler) Owns(r *http.Request) bool {
	path := r.URL.EscapedPath()
	if _, ok := h.routes[path]; ok {
		return true
	}
	own, ok := strings.CutPrefix(path, h.prefix)
	return ok && (own == "/oauth" || strings.HasPrefix(own, "/oauth/") || isAdminOperation(own))
}

// isAdminOperation tells whether a path is of the operation by which an organisation's admin obtains tokens.
func isAdminOperation(path string) bool {
	return strings.HasPrefix(path, "/api/v1/organisations/me/users/") && strings.HasSuffix(path, "/access_tokens")
}

// ServeHTTP answers a request that the handler owns.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header()["Cache-Control"] = noStore
	w.Header()["Pragma"] = noCache
	w.Header()["X-Content-Type-Options"] = noSniff
	boundBody(w, r)
	if err := h.serve(w, r); err != nil {
		h.Refuse(w, r, err)
	}
}

// boundBody bounds what a body can do to its connection. It has to come within bodyTimeout even when nobody reads it,
// because the server waits for it before it answers. A chunked one is the last thing on its connection: beside a
// Content-Length it must be (RFC 9112 §6.1), and net/http hides whether there was one.
func boundBody(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		_ = setBodyDeadline(w, time.Now().Add(bodyTimeout)) // ErrNotSupported: then the server's own limits hold
	}
	if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		w.Header().Set("Connection", "close")
	}
}

func setBodyDeadline(w http.ResponseWriter, at time.Time) error {
	return http.NewResponseController(w).SetReadDeadline(at)
}

var (
	noStore = []string{"no-store"}
	noCache = []string{"no-cache"}
	noSniff = []string{"nosniff"}
)

func (h *Handler) serve(w http.ResponseWriter, r *http.Request) error {
	route, ok := h.routes[r.URL.EscapedPath()]
	if !ok {
		return httpError{status: http.StatusNotFound, err: tokenissuer.NewError(notFound, "path_unknown").WithDescription("There is nothing at this path.")}
	}
	if r.Method != route.method && (route.method != http.MethodGet || r.Method != http.MethodHead) {
		allow := route.method
		if allow == http.MethodGet {
			allow = "GET, HEAD"
		}
		return MethodNotAllowed(allow)
	}
	if err := RefuseEarlyData(r); err != nil {
		return err
	}
	return route.serve(h, w, r)
}

// Refuse answers with an error: once to the client and once to the log.
func (h *Handler) Refuse(w http.ResponseWriter, r *http.Request, err error) {
	h.audit.Refused(r, "endpoint request refused", err)
	writeOAuthError(w, r, err, h.issuer.URL)
}

// RefuseEarlyData is the error for a request in TLS early data, which an attacker can replay. Whatever the Early-Data
// header says, it is there (RFC 8470 §5.1: several and invalid ones count as 1). GET and HEAD change nothing and pass.
func RefuseEarlyData(r *http.Request) error {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	if (r.TLS != nil && !r.TLS.HandshakeComplete) || r.Header["Early-Data"] != nil {
		return httpError{status: http.StatusTooEarly, err: tokenissuer.NewError(tokenissuer.InvalidRequest, "early_data")}
	}
	return nil
}

// MethodNotAllowed is the refusal of a method; allow lists those that are (RFC 9110 §15.5.6).
func MethodNotAllowed(allow string) error {
	return httpError{
		status: http.StatusMethodNotAllowed, allow: allow,
		err: tokenissuer.NewError(tokenissuer.InvalidRequest, "method_not_allowed"),
	}
}
