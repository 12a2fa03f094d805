package endpoint

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/registration"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/personaltoken"
	core "github.com/gatehouse-auth/gatehouse/tokenissuer/registration"
)

// Handler serves the issuer's endpoints. It compares paths byte for byte, as the client sent them.
type Handler struct {
	issuer   *tokenissuer.Issuer
	issued   tokenissuer.IssuedTokens
	audit    *Audit
	counters Counters
	routes   map[string]route
	places   [][]string // the routes' paths, as segments
	below    []string   // the prefix under which every path is ours
	prefix   string     // the path of the issuer's URL, usually ""
	origin   string
	cookies  cookies
	pages    *pages.Pages
	methods  SignInMethods
	metadata atomic.Pointer[[]byte]
	// registration is where clients register; nil: they cannot.
	registration *registration.Endpoint
	// tokens are the personal access tokens; nil: there are none.
	tokens   *personaltoken.Tokens
	resource []byte
}

// route describes an endpoint.
type route struct {
	name    string // for metrics
	methods string // as in Allow; GET includes HEAD
	serve   func(*Handler, http.ResponseWriter, *http.Request) error
	refuse  func(*Handler, http.ResponseWriter, *http.Request, error)
	sharing sharing
}

// allows reports whether the route has the method.
func (found route) allows(method string) bool {
	for allowed := range strings.SplitSeq(found.methods, ", ") {
		if allowed == method {
			return true
		}
	}
	return false
}

const (
	wellKnownServer = "/.well-known/oauth-authorization-server" // RFC 8414 §3
	wellKnownOpenID = "/.well-known/openid-configuration"       // OpenID Connect Discovery §4

	authorizePath = "/oauth/authorize"
	loginPath     = "/oauth/login"
	consentPath   = "/oauth/consent"
	logoutPath    = "/oauth/logout"
	accountPath   = "/oauth/account"
	userInfoPath  = "/oauth/userinfo"
	registerPath  = "/oauth/register"
)

const (
	methodsPost = "POST"
	methodsGet  = "GET, HEAD"
	methodsPage = "GET, HEAD, POST"
)

// NewHandler returns the endpoints of an issuer, at which people sign in by these methods and whose pages show the brand. It fails if the issuer's URL or the logo is
// invalid.
func NewHandler(issuer *tokenissuer.Issuer, audit *Audit, counters Counters, methods SignInMethods, brand pages.Brand) (*Handler, error) {
	u, err := url.Parse(issuer.URL)
	if err != nil {
		return nil, err
	}
	h := &Handler{
		issuer: issuer, issued: issuer.IssuedTokens(), audit: audit, counters: counters, prefix: strings.TrimSuffix(u.EscapedPath(), "/"), origin: oauth.OriginOf(u),
		cookies: newCookies(issuer.URL), methods: methods,
	}
	if h.pages, err = pages.New(brand); err != nil {
		return nil, err
	}
	if err = h.PublishMetadata(); err != nil {
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
		h.prefix + loginPath:           {loginEndpoint, methodsPage, navigated((*Handler).login), page, unshared},
		h.prefix + consentPath:         {"consent", methodsPage, navigated((*Handler).consent), page, unshared},
		h.prefix + logoutPath:          {"logout", methodsPage, navigated((*Handler).logout), page, unshared},
		h.prefix + accountPath:         {"account", methodsPage, navigated((*Handler).account), page, unshared},
		wellKnownServer:                metadata,
		wellKnownServer + h.prefix:     metadata, // RFC 8414 §3.1: the issuer's path follows
		h.prefix + wellKnownServer:     metadata,
	}
	h.addOpenIDRoutes(metadata)
	h.addCallbacks()
	resource := route{metadataEndpoint, methodsGet, (*Handler).serveResourceMetadata, json, sharedWithAll}
	h.routes[WellKnownResource] = resource
	if location, err := url.Parse(ResourceMetadataURL(&issuer.Settings)); err == nil {
		h.routes[location.EscapedPath()] = resource
	}
	for path := range h.routes {
		h.places = append(h.places, requests.SegmentsOf(path))
	}
	h.below = requests.SegmentsOf(h.prefix + "/oauth")
	return h, nil
}

// navigated is serve for a page: scripts of an application at our origin, which send the user's cookies, get nothing of it.
func navigated(serve func(*Handler, http.ResponseWriter, *http.Request) error) func(*Handler, http.ResponseWriter, *http.Request) error {
	return func(h *Handler, w http.ResponseWriter, r *http.Request) error {
		if !requests.IsNavigation(r) {
			return requests.NotAVisit()
		}
		return serve(h, w, r)
	}
}

// MountRegistration serves a Registrar. It is called before requests come.
func (h *Handler) MountRegistration(registrar *core.Registrar) error {
	h.registration = &registration.Endpoint{Registrar: registrar, URL: strings.TrimSuffix(h.issuer.URL, "/") + registerPath}
	h.routes[h.prefix+registerPath] = route{"register", methodsPost, (*Handler).register, (*Handler).Refuse, sharedWithAll}
	return h.PublishMetadata()
}

// managementRoute is where clients manage what they have registered.
var managementRoute = route{"registration", "GET, HEAD, PUT, DELETE", (*Handler).manageRegistration, (*Handler).Refuse, sharedWithAll}

// registeredClient returns the client whose registration is managed at a path.
func (h *Handler) registeredClient(path string) (id string, ok bool) {
	id, below := strings.CutPrefix(path, h.prefix+registerPath+"/")
	return id, below && h.registration != nil && id != "" && !strings.ContainsAny(id, "/%")
}

func (h *Handler) register(w http.ResponseWriter, r *http.Request) error {
	id, err := h.registration.Register(w, r, h.audit.Address(r))
	if err == nil {
		h.audit.Accepted(r, "client registered itself", zap.String("client_id", id))
	}
	return err
}

func (h *Handler) manageRegistration(w http.ResponseWriter, r *http.Request) error {
	id, _ := h.registeredClient(r.URL.EscapedPath())
	done, err := h.registration.Manage(w, r, id, h.audit.Address(r))
	if err == nil {
		h.audit.Accepted(r, done, zap.String("client_id", id))
	}
	return err
}

// routeOf returns the route for the path of a request.
func (h *Handler) routeOf(r *http.Request) (route, bool) {
	path := r.URL.EscapedPath()
	if found, ok := h.routes[path]; ok {
		return found, found.serve != nil
	}
	if _, ok := h.registeredClient(path); ok {
		return managementRoute, true
	}
	if h.isAdminOperation(r.URL) {
		return route{memberEndpoint, methodsPost, (*Handler).userToken, (*Handler).refuseJSONAPI, unshared}, true
	}
	return noRoute, false
}

// noRoute is a path of ours at which there is nothing.
var noRoute = route{name: unknownEndpoint, refuse: (*Handler).refuseUnknown}

// refuseUnknown answers a browser that would show the answer with a page, and anything else as the endpoints for programs do.
func (h *Handler) refuseUnknown(w http.ResponseWriter, r *http.Request, err error) {
	if r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" {
		h.refusePage(w, r, err)
		return
	}
	h.Refuse(w, r, err)
}

// Owns reports whether the request is for the issuer: its endpoints, everything else under its paths, and any path that
// an upstream could read as one of them. Such a request, and the credentials in it, must not reach an upstream. Owns
// ignores query and host.
func (h *Handler) Owns(r *http.Request) bool {
	if _, ok := h.routes[r.URL.EscapedPath()]; ok || h.isAdminOperation(r.URL) {
		return true
	}
	own, ok := strings.CutPrefix(r.URL.EscapedPath(), h.prefix)
	return ok && (own == "/oauth" || strings.HasPrefix(own, "/oauth/")) || h.isNear(r.URL)
}

// isNear reports whether an upstream could read a path as one of ours.
func (h *Handler) isNear(u *url.URL) bool {
	return requests.MayMention(u, "oauth") && requests.PathReadings(u, func(read requests.PathReading) bool {
		return read.IsBelow(h.below) || slices.ContainsFunc(h.places, read.IsAt)
	})
}

// ServeHTTP answers a request for which Owns is true.
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

// ServeTokenAlias serves the alias of the token endpoint, which supports the refresh_token and password grants alone.
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

// ServeUnavailable answers a request for the issuer, or for its alias, with 503 in the form of that endpoint's errors.
func (h *Handler) ServeUnavailable(w http.ResponseWriter, r *http.Request, reason string) {
	begin(w, r)
	found, _ := h.routeOf(r)
	if h.share(w, r, found) {
		return
	}
	h.refuse(w, r, found, oauth.Unavailable(reason, nil))
}

// begin sets the headers of every response, and bounds the request's body.
func begin(w http.ResponseWriter, r *http.Request) {
	// Not shared between responses: Caddy's `header` handler edits values in place.
	header, lines := w.Header(), &[...]string{"no-store", "no-cache", "nosniff"}
	header["Cache-Control"] = lines[0:1:1]
	header["Pragma"] = lines[1:2:2]
	header["X-Content-Type-Options"] = lines[2:3:3]
	requests.BoundBody(w, r)
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request, found route, known bool) error {
	if !known {
		return pathUnknown()
	}
	if !found.allows(r.Method) {
		return requests.MethodNotAllowed(found.methods)
	}
	if err := requests.RefuseEarlyData(r); err != nil {
		return err
	}
	return found.serve(h, w, r)
}

// Refuse logs an error and answers with it.
func (h *Handler) Refuse(w http.ResponseWriter, r *http.Request, err error) {
	h.audit.Refused(r, "endpoint request refused", err)
	answers.WriteError(w, r, err, h.issuer.URL)
}
