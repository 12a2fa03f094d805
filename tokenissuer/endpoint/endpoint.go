package endpoint

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Handler serves the issuer's endpoints. Paths are compared exactly, on the path as the client sent it.
type Handler struct {
	issuer   *tokenissuer.Issuer
	audit    *Audit
	tally    Tally
	routes   map[string]route
	places   [][]string // the paths of the routes, as readings have them
	below    []string   // where everything is ours
	prefix   string     // the issuer's own path, usually ""
	origin   string
	cookies  cookies
	pages    *pages.Pages
	metadata []byte
	resource []byte
}

// route is what a path answers to.
type route struct {
	name    string // for whoever counts
	methods string // as Allow lists them; GET includes HEAD
	serve   func(*Handler, http.ResponseWriter, *http.Request) error
	refuse  func(*Handler, http.ResponseWriter, *http.Request, error)
	sharing sharing
}

// allows reports whether the method is among them.
func (found route) allows(method string) bool {
	for allowed := range strings.SplitSeq(found.methods, ", ") {
		if allowed == method {
			return true
		}
	}
	return false
}

const (
	wellKnownServer   = "/.well-known/oauth-authorization-server" // RFC 8414 §3
	wellKnownResource = "/.well-known/oauth-protected-resource"   // RFC 9728 §3

	authorizePath = "/oauth/authorize"
	loginPath     = "/oauth/login"
	consentPath   = "/oauth/consent"
	logoutPath    = "/oauth/logout"
	accountPath   = "/oauth/account"
)

const (
	methodsPost = "POST"
	methodsGet  = "GET, HEAD"
	methodsPage = "GET, HEAD, POST"
)

// NewHandler returns the endpoints of an issuer, with pages that show the brand. It fails when the issuer's URL is none.
func NewHandler(issuer *tokenissuer.Issuer, audit *Audit, tally Tally, brand pages.Brand) (*Handler, error) {
	u, err := url.Parse(issuer.URL)
	if err != nil {
		return nil, err
	}
	h := &Handler{
		issuer: issuer, audit: audit, tally: tally, prefix: strings.TrimSuffix(u.EscapedPath(), "/"), origin: oauth.OriginOf(u),
		cookies: newCookies(issuer.URL),
	}
	if h.pages, err = pages.New(brand); err != nil {
		return nil, err
	}
	if h.metadata, err = serverMetadata(&issuer.Settings, h.pages.Languages()); err != nil {
		return nil, err
	}
	if h.resource, err = resourceMetadata(&issuer.Settings); err != nil {
		return nil, err
	}
	json, page := (*Handler).Refuse, (*Handler).refusePage
	metadata := route{metadataEndpoint, methodsGet, (*Handler).serveMetadata, json, sharedWithAll}
	h.routes = map[string]route{
		h.prefix + "/oauth/token":      {tokenEndpoint, methodsPost, (*Handler).token, json, sharedWithClients},
		h.prefix + "/oauth/revoke":     {"revoke", methodsPost, (*Handler).revoke, json, sharedWithClients},
		h.prefix + "/oauth/introspect": {"introspect", methodsPost, (*Handler).introspect, json, unshared},
		h.prefix + "/oauth/token/info": {"token_info", methodsGet, (*Handler).tokenInfo, json, unshared},
		h.prefix + "/oauth/jwks":       {"jwks", methodsGet, (*Handler).jwks, json, sharedWithAll},
		h.prefix + authorizePath:       {authorizationEndpoint, methodsPage, (*Handler).authorize, page, unshared},
		h.prefix + loginPath:           {loginEndpoint, methodsPage, (*Handler).login, page, unshared},
		h.prefix + consentPath:         {"consent", methodsPage, (*Handler).consent, page, unshared},
		h.prefix + logoutPath:          {"logout", methodsPage, (*Handler).logout, page, unshared},
		h.prefix + accountPath:         {"account", methodsPage, (*Handler).account, page, unshared},
		wellKnownServer:                metadata,
		wellKnownServer + h.prefix:     metadata, // RFC 8414 §3.1: the issuer's path stands behind
		h.prefix + wellKnownServer:     metadata,
	}
	resource := route{metadataEndpoint, methodsGet, (*Handler).serveResourceMetadata, json, sharedWithAll}
	h.routes[wellKnownResource] = resource
	if location, err := url.Parse(ResourceMetadataURL(&issuer.Settings)); err == nil {
		h.routes[location.EscapedPath()] = resource
	}
	for path := range h.routes {
		h.places = append(h.places, readingOf(path))
	}
	h.below = readingOf(h.prefix + "/oauth")
	return h, nil
}

// routeOf returns what the path of a request answers to.
func (h *Handler) routeOf(r *http.Request) (route, bool) {
	path := r.URL.EscapedPath()
	if found, ok := h.routes[path]; ok {
		return found, true
	}
	if h.isAdminOperation(r.URL) {
		return route{memberEndpoint, methodsPost, (*Handler).userToken, (*Handler).refuseJSONAPI, unshared}, true
	}
	return route{name: unknownEndpoint, refuse: (*Handler).Refuse}, false
}

// Owns reports whether the request is for the issuer: its endpoints, everything else under its paths, and whatever somebody
// behind us could read as one of them, so that none of it, and no credential in it, ever reaches an upstream. The query and the
// host do not matter.
func (h *Handler) Owns(r *http.Request) bool {
	if _, ok := h.routeOf(r); ok {
		return true
	}
	own, ok := strings.CutPrefix(r.URL.EscapedPath(), h.prefix)
	return ok && (own == "/oauth" || strings.HasPrefix(own, "/oauth/")) || h.isNear(r.URL)
}

// isNear reports whether a path can be read as one of ours.
func (h *Handler) isNear(u *url.URL) bool {
	return mayMention(u, "oauth") && readingsOf(u, func(read reading) bool {
		return read.isBelow(h.below) || slices.ContainsFunc(h.places, read.isAt)
	})
}

// ServeHTTP answers a request that the handler owns.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begin(w, r)
	found, known := h.routeOf(r)
	if h.share(w, r, found) {
		return
	}
	if err := h.serve(w, r, found, known); err != nil {
		h.refuse(w, r, found, err)
	}
}

// ServeTokenAlias answers at a second path of the token endpoint, which is for the refresh exchange and the password
// grant alone.
func (h *Handler) ServeTokenAlias(w http.ResponseWriter, r *http.Request) {
	begin(w, r)
	found := route{tokenEndpoint, methodsPost, (*Handler).tokenAlias, (*Handler).Refuse, sharedWithClients}
	if h.share(w, r, found) {
		return
	}
	if err := h.serve(w, r, found, true); err != nil {
		h.refuse(w, r, found, err)
	}
}

// ServeUnavailable answers a request that the handler owns, or one for its alias, while nothing can be asked: with the
// form of the endpoint's refusals, for a client that reads nothing else.
func (h *Handler) ServeUnavailable(w http.ResponseWriter, r *http.Request, reason string) {
	begin(w, r)
	found, _ := h.routeOf(r)
	if h.share(w, r, found) {
		return
	}
	h.refuse(w, r, found, oauth.Unavailable(reason, nil))
}

// begin sets what every answer has, and bounds the request's body.
func begin(w http.ResponseWriter, r *http.Request) {
	// Not shared between answers: Caddy's `header` writes into what it replaces text in.
	header, lines := w.Header(), &[...]string{"no-store", "no-cache", "nosniff"}
	header["Cache-Control"] = lines[0:1:1]
	header["Pragma"] = lines[1:2:2]
	header["X-Content-Type-Options"] = lines[2:3:3]
	boundBody(w, r)
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

func (h *Handler) serve(w http.ResponseWriter, r *http.Request, found route, known bool) error {
	if !known {
		return pathUnknown()
	}
	if !found.allows(r.Method) {
		return MethodNotAllowed(found.methods)
	}
	if err := RefuseEarlyData(r); err != nil {
		return err
	}
	return found.serve(h, w, r)
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
		return httpError{status: http.StatusTooEarly, err: oauth.NewError(oauth.InvalidRequest, "early_data")}
	}
	return nil
}

// MethodNotAllowed is the refusal of a method; allow lists those that are (RFC 9110 §15.5.6).
func MethodNotAllowed(allow string) error {
	return httpError{
		status: http.StatusMethodNotAllowed, allow: allow,
		err: oauth.NewError(oauth.InvalidRequest, "method_not_allowed"),
	}
}
