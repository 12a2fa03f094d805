package endpoint

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer/grants"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/tracing"
)

// Handler routes requests to the issuer's endpoints. It compares paths byte for byte, as the client sent them.
type Handler struct {
	routes   map[string]route
	alias    route
	places   [][]string // the routes' paths, as segments
	below    []string   // the prefix under which every path is ours
	site     site
	counters Counters
	clients  *clients.Clients

	browser      *browser
	account      *accountPages
	members      *memberTokens
	documents    *documents
	registration *registrations
}

// route describes an endpoint.
type route struct {
	name    string // for metrics
	methods string // as in Allow; GET includes HEAD
	serve   func(http.ResponseWriter, *http.Request) error
	refuse  func(http.ResponseWriter, *http.Request, error)
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

// NewHandler returns the endpoints of an issuer. methods are the ways to sign in. NewHandler fails if the issuer's URL is invalid.
func NewHandler(p *issuer.Parts, tokens *grants.Grants, audit *Audit, counters Counters, methods SignInMethods, shown *pages.Pages) (*Handler, error) {
	u, err := url.Parse(p.URL)
	if err != nil {
		return nil, err
	}
	at := site{prefix: strings.TrimSuffix(u.EscapedPath(), "/"), origin: oauth.OriginOf(u)}
	h := &Handler{
		site: at, below: requests.SegmentsOf(at.prefix + "/oauth"), counters: counters, clients: p.Clients,
		browser:      &browser{site: at, sessions: p.Sessions, seals: p.Seals, audit: audit, cookies: newCookies(p.URL), pages: shown},
		members:      &memberTokens{tokens: p.UserTokens, audit: audit, counters: counters, prefix: at.prefix},
		documents:    &documents{policy: &p.Policy, open: &p.Clients.Open, grants: tokens, minter: p.Minter, languages: shown.Languages(), authorizations: p.Authorizations},
		registration: &registrations{audit: audit, url: strings.TrimSuffix(p.URL, "/") + registerPath, path: at.prefix + registerPath},
	}
	if err := h.PublishMetadata(); err != nil {
		return nil, err
	}
	if h.documents.resource, err = resourceMetadata(&p.Policy); err != nil {
		return nil, err
	}
	h.routes = make(map[string]route)
	h.addTokens(p, tokens, audit)
	h.addPages(p, audit, &methods)
	h.addDocuments()
	for path := range h.routes {
		h.places = append(h.places, requests.SegmentsOf(path))
	}
	return h, nil
}

// addTokens adds the endpoints for programs.
func (h *Handler) addTokens(p *issuer.Parts, tokens *grants.Grants, audit *Audit) {
	t := &tokenEndpoints{clients: p.Clients, authorizations: p.Authorizations, grants: tokens, issued: p.Issued, audit: audit, counters: h.counters}
	at, json := h.site.prefix, h.browser.refuseJSON
	h.alias = route{tokenEndpoint, methodsPost, t.tokenAlias, json, sharedWithClients}
	h.routes[at+"/oauth/token"] = route{tokenEndpoint, methodsPost, t.token, json, sharedWithClients}
	h.routes[at+deviceAuthorizationPath] = route{"device_authorization", methodsPost, t.authorizeDevice, json, sharedWithClients}
	h.routes[at+"/oauth/revoke"] = route{"revoke", methodsPost, t.revoke, json, sharedWithClients}
	h.routes[at+"/oauth/introspect"] = route{"introspect", methodsPost, t.introspect, json, unshared}
	h.routes[at+"/oauth/token/info"] = route{"token_info", methodsGet, t.tokenInfo, json, unshared}
	if h.clients.OpenID {
		h.routes[at+userInfoPath] = route{"userinfo", methodsPage, t.userInfo, json, sharedWithClients}
	}
}

// addPages adds the pages and the callbacks of providers.
func (h *Handler) addPages(parts *issuer.Parts, audit *Audit, methods *SignInMethods) {
	b := h.browser
	authorization := &authorizationPages{authorizations: parts.Authorizations, audit: audit, counters: h.counters, browser: b}
	consent := &consentPages{authorizations: parts.Authorizations, browser: b, authorization: authorization}
	signIn := &signInPages{signIns: parts.SignIns, minter: parts.Minter, audit: audit, counters: h.counters, methods: methods, browser: b, authorization: authorization}
	providers := &providerPages{signIns: parts.SignIns, audit: audit, counters: h.counters, methods: methods, browser: b, authorization: authorization, signIn: signIn}
	authorization.signIn, authorization.consent, signIn.providers = signIn, consent, providers
	signOut := &signOutPages{signOuts: parts.SignOuts, hosts: parts.Authorizations.Hosts, audit: audit, methods: methods, browser: b, providers: providers}
	h.account = &accountPages{accounts: people.Accounts{Sessions: parts.Sessions}, signIns: parts.SignIns, signIn: signIn, factors: &accountFactors{parts.SignIns.Factors, methods.Passkeys, audit, b}, roles: parts.Roles, audit: audit, methods: methods, browser: b}
	h.account.profile = &accountProfile{h.account}
	page := func(path, name string, serve func(http.ResponseWriter, *http.Request) error) {
		h.routes[h.site.prefix+path] = route{name, methodsPage, serve, b.refusePage, unshared}
	}
	page(authorizePath, authorizationEndpoint, authorization.serve)
	page(loginPath, loginEndpoint, navigated(signIn.serve))
	factors := &factorPages{factors: parts.SignIns.Factors, audit: audit, counters: h.counters, browser: b, authorization: authorization, signIn: signIn}
	page(factorPath, "factor", navigated(factors.serveFactor))
	page(addFactorPath, "factor", navigated(factors.serveEnrolment))
	page(consentPath, "consent", navigated(consent.serve))
	devices := &devicePages{authorizations: parts.Authorizations, audit: audit, counters: h.counters, browser: b, authorization: authorization}
	page(devicePath, deviceEndpoint, navigated(devices.serve))
	page(logoutPath, "logout", navigated(signOut.serve))
	page(accountPath, "account", navigated(h.account.serve))
	for _, p := range methods.Providers {
		serve := func(w http.ResponseWriter, r *http.Request) error { return providers.serve(w, r, p) }
		h.routes[h.site.prefix+callbackPath+p.Name] = route{"provider_callback", methodsGet, navigated(serve), providers.refuse, unshared}
	}
}

// addDocuments adds the documents that the issuer publishes. Without OpenID, the paths of OpenID provider metadata return an error.
func (h *Handler) addDocuments() {
	at, d := h.site.prefix, h.documents
	public := func(name string, serve func(http.ResponseWriter, *http.Request) error) route {
		return route{name, methodsGet, serve, h.browser.refuseJSON, sharedWithAll}
	}
	h.routes[at+"/oauth/jwks"] = public("jwks", d.jwks)
	metadata := public(metadataEndpoint, d.serveMetadata)
	h.routes[wellKnownServer] = metadata
	h.routes[wellKnownServer+at] = metadata // RFC 8414 §3.1: the issuer's path follows
	h.routes[at+wellKnownServer] = metadata
	if !h.clients.OpenID {
		metadata = h.nothing()
	}
	h.routes[at+wellKnownOpenID] = metadata
	h.routes[wellKnownOpenID+at] = metadata // RFC 8414 §5: the issuer's path follows
	resource := public(metadataEndpoint, d.serveResourceMetadata)
	h.routes[WellKnownResource] = resource
	if location, err := url.Parse(ResourceMetadataURL(&h.clients.Policy)); err == nil {
		h.routes[location.EscapedPath()] = resource
	}
}

// navigated wraps serve for a page. It refuses requests by scripts of applications at our origin, which send the user's cookies.
func navigated(serve func(http.ResponseWriter, *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		if !requests.IsNavigation(r) {
			return requests.NotAVisit()
		}
		return serve(w, r)
	}
}

// MountRegistration serves a Registrar. It must be called before the first request.
func (h *Handler) MountRegistration(registrar *clients.Registrar) error {
	h.registration.registrar, h.documents.register = registrar, h.registration.url
	h.routes[h.registration.path] = route{"register", methodsPost, h.registration.register, h.browser.refuseJSON, sharedWithAll}
	return h.PublishMetadata()
}

// routeOf returns the route for the path of a request. A route without serve is one of our paths without an endpoint.
func (h *Handler) routeOf(r *http.Request) route {
	path := r.URL.EscapedPath()
	if found, ok := h.routes[path]; ok {
		return found
	}
	if _, ok := h.registration.clientAt(path); ok {
		return route{"registration", "GET, HEAD, PUT, DELETE", h.registration.manage, h.browser.refuseJSON, sharedWithAll}
	}
	if h.members.owns(r.URL) {
		return route{memberEndpoint, methodsPost, h.members.serve, h.members.refuse, unshared}
	}
	return h.nothing()
}

// nothing returns the route for one of our paths without an endpoint.
func (h *Handler) nothing() route {
	return route{name: unknownEndpoint, refuse: h.browser.refuseUnknown}
}

// Owns reports whether the request is for the issuer: its endpoints, every other path below its own, and any path that an upstream could
// read as one of them. Such a request, and the credentials in it, must not reach an upstream. Owns ignores query and host.
func (h *Handler) Owns(r *http.Request) bool {
	if _, ok := h.routes[r.URL.EscapedPath()]; ok || h.members.owns(r.URL) {
		return true
	}
	own, ok := strings.CutPrefix(r.URL.EscapedPath(), h.site.prefix)
	return ok && (own == "/oauth" || strings.HasPrefix(own, "/oauth/")) || h.isNear(r.URL)
}

// isNear reports whether an upstream could read a path as one of ours.
func (h *Handler) isNear(u *url.URL) bool {
	return requests.MayMention(u, "oauth") && requests.PathReadings(u, func(read requests.PathReading) bool {
		return read.IsBelow(h.below) || slices.ContainsFunc(h.places, read.IsAt)
	})
}

// ServeHTTP answers a request for which Owns returns true.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begin(w, r)
	h.serve(w, r, h.routeOf(r))
}

// ServeTokenAlias serves the alias of the token endpoint. It supports only the refresh_token and password grants.
func (h *Handler) ServeTokenAlias(w http.ResponseWriter, r *http.Request) {
	begin(w, r)
	h.serve(w, r, h.alias)
}

// ServeUnavailable answers a request for the issuer, or for its alias, with 503 in that endpoint's error format.
func (h *Handler) ServeUnavailable(w http.ResponseWriter, r *http.Request, reason string) {
	begin(w, r)
	found := h.routeOf(r)
	if h.share(w, r, found) {
		return
	}
	h.refuse(w, r, found, oauth.Unavailable(reason, nil))
}

// begin sets the headers of every response and bounds the request's body.
func begin(w http.ResponseWriter, r *http.Request) {
	// Not shared between responses, because Caddy's `header` handler edits values in place.
	header, lines := w.Header(), &[...]string{"no-store", "no-cache", "nosniff"}
	header["Cache-Control"] = lines[0:1:1]
	header["Pragma"] = lines[1:2:2]
	header["X-Content-Type-Options"] = lines[2:3:3]
	requests.BoundBody(w, r)
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request, found route) {
	if h.share(w, r, found) {
		return
	}
	ctx, span := tracing.Start(r.Context(), "endpoint", found.name)
	inSpan := r
	if span.IsRecorded() {
		inSpan = r.WithContext(ctx)
		if showsPersonalToken(r) {
			tracing.Redact(r.Context())
		}
	}
	err := found.answer(w, inSpan)
	span.End(err)
	if err != nil {
		h.refuse(w, r, found, err)
	}
}

// showsPersonalToken reports whether the HTTP server's span may hold a personal access token.
func showsPersonalToken(r *http.Request) bool {
	texts := slices.Concat([]string{r.Method, r.Host, r.URL.EscapedPath()}, r.Header["User-Agent"], r.Header["X-Forwarded-For"])
	return slices.ContainsFunc(texts, requests.ShowsPersonalToken)
}

// answer serves a request whose method the route allows.
func (found route) answer(w http.ResponseWriter, r *http.Request) error {
	if found.serve == nil {
		return pathUnknown()
	}
	if !found.allows(r.Method) {
		return requests.MethodNotAllowed(found.methods)
	}
	if err := requests.RefuseEarlyData(r); err != nil {
		return err
	}
	return found.serve(w, r)
}
