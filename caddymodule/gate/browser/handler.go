package browser

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// The paths on each host.
const (
	callbackPath = oauth.CallbackPath
	signInPath   = "/oauth/sign_in"
	signOutPath  = oauth.SignOutPath
	sessionPath  = "/oauth/session"
)

// Paths lists the paths that are ours on hosts where browsers can sign in.
func Paths() []string { return []string{callbackPath, signInPath, signOutPath, sessionPath} }

// Settings are what a Handler is made of.
type Settings struct {
	// Issuer is where people sign in, and Sessions are those that it keeps.
	Issuer   *clients.Policy
	Sessions *signin.HostSessions
	// Direct: there is no issuer for others, so browsers sign in at providers.
	Direct bool
	// TwoFactors reports that people can sign in with two factors at the issuer.
	TwoFactors bool
	// Providers are the identity providers to which browsers can be sent. Accounts maps accounts there to users.
	Providers []Provider
	Accounts  signin.Accounts
	// Hosts are those of the configuration.
	Hosts *oauth.Hosts
	Audit *endpoint.Audit
	// Shown are the pages for people.
	Shown *pages.Pages
	// AwaitRoutes waits until the hosts are known.
	AwaitRoutes func(context.Context) error
	// IsServing reports whether the issuer has its store.
	IsServing func(context.Context) bool
	// Enter registers a request that uses the store. The context that it returns bounds how long the store may take.
	Enter token.EnterStore
}

// Handler signs browsers in at the hosts of a configuration.
type Handler struct {
	Settings
	at *authority
	// Pages answers people in a browser.
	Pages *pageWriter
}

// New returns a Handler.
func New(s Settings) *Handler {
	at := &authority{issuer: s.Issuer, direct: s.Direct, providers: s.Providers}
	return &Handler{Settings: s, at: at, Pages: &pageWriter{pages: s.Shown, at: at}}
}

// Find returns the host of a request, if browsers can sign in there.
func (h *Handler) Find(r *http.Request) (oauth.Host, bool) { return h.Hosts.Find(r.Host) }

// Owns reports whether the path of a request is one of ours, on hosts where browsers can sign in. It compares the path as the client
// sent it, byte for byte.
func (h *Handler) Owns(r *http.Request) bool {
	switch path := r.URL.Path; {
	case path == callbackPath, path == signInPath, path == signOutPath, path == sessionPath, h.at.providerOf(path) != nil:
		return r.URL.EscapedPath() == path
	}
	return false
}

// isNear reports whether a path is another spelling of one of ours. A proxy that compares decoded paths treats it as ours, so no
// later handler may answer it.
func isNear(u *url.URL) bool {
	return (u.RawPath != "" || u.Opaque != "") && slices.ContainsFunc(spellings, func(s requests.Spellings) bool { return s.Has(u) })
}

var spellings = func() (all []requests.Spellings) {
	for _, path := range Paths() {
		all = append(all, requests.SpellingsOf(path))
	}
	return all
}()

// Serve answers a request for one of our paths, or for another spelling of one, on a host where browsers can sign in, and reports whether it did.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request) bool {
	owns := h.Owns(r)
	if !owns && !isNear(r.URL) {
		return false
	}
	err := h.AwaitRoutes(r.Context())
	host, ok := h.Find(r)
	if err == nil && !ok {
		return false
	}
	caddyhttp.SetVar(r.Context(), caddyhttp.LogSkipVar, true) // a query holds a code; the audit log has a line
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	requests.BoundBody(w, r)
	switch {
	case err != nil:
	case !owns:
		err = oauth.NewError(oauth.InvalidRequest, "path_spelling")
	default:
		err = h.serve(w, r, host)
	}
	if err != nil {
		h.refuse(w, r, host, err)
	}
	return true
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request, host oauth.Host) error {
	isRead := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case r.URL.Path == signOutPath && !isRead && r.Method != http.MethodPost:
		return requests.MethodNotAllowed("GET, HEAD, POST")
	case r.URL.Path != signOutPath && !isRead:
		return requests.MethodNotAllowed("GET, HEAD")
	case isEarly(r): // a replay would redeem a code or sign out
		return requests.Error{Status: http.StatusTooEarly, Err: oauth.NewError(oauth.InvalidRequest, "early_data")}
	case isCallback(r.URL.Path) && (!requests.IsVisit(r) || requests.IsFrame(r)): // likewise by the person
		return requests.NotAVisit()
	case !h.IsServing(r.Context()):
		return oauth.Unavailable("not_started", nil)
	}
	ctx, leave, err := h.Enter(r.Context())
	if err != nil {
		return err
	}
	defer leave()
	r = r.WithContext(ctx)
	if p := h.at.providerOf(r.URL.Path); p != nil {
		return h.providerCallback(w, r, host, p)
	}
	switch r.URL.Path {
	case callbackPath:
		return h.callback(w, r, host)
	case signInPath:
		return h.signIn(w, r, host)
	case sessionPath:
		return h.session(w, r, host)
	}
	return h.signOut(w, r, host)
}

// isEarly reports whether a request came in TLS early data, which can be replayed.
func isEarly(r *http.Request) bool {
	return r.TLS != nil && !r.TLS.HandshakeComplete || r.Header["Early-Data"] != nil
}

// refuse answers with an error page, or with JSON to a client that prefers it. Host is the zero value while the routes are not known.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, host oauth.Host, err error) {
	h.Audit.Refused(r, "request of a host's sign-in refused", err)
	if answers.PrefersJSON(r.Header["Accept"]) {
		answers.WriteError(w, r, err, h.at.realm())
		return
	}
	if status := answers.StatusOf(err); status == http.StatusTooEarly { // the browser sends it again by itself
		h.Pages.showExplanation(w, r, host, explanation{status: status})
		return
	}
	status := answers.SetStatusHeaders(w, err)
	if errors.Is(err, errTwo) && !isCallback(r.URL.Path) { // the address holds no code
		h.Pages.ServeProblem(w, r, status, err)
		return
	}
	h.Pages.explain(w, r, host, explanation{status: status})
}

// errNone is the error of a request without a session.
var errNone = oauth.NewError(oauth.Unauthorized, "session_missing")

// Session is the session of a request.
type Session struct {
	Token *token.AccessToken
	// Cookie and Host identify the session to SessionOf.
	Cookie oauth.Secret
	Host   oauth.Host
}

// errTwo is the error of a request with two different session cookies: one of them may be another user's. The __Host- prefix
// rules that out, except for partitioned cookies, and it does not exist on plain-HTTP loopback.
var errTwo = oauth.NewError(oauth.InvalidRequest, "cookie_twice").
	WithDescription("The browser sent two different session cookies. Open /oauth/sign_out at this host, or delete its cookies.")

// Session returns the session with which a request comes to a host. The error is unauthorized without a session, invalid_request with
// two different cookies, and temporarily_unavailable.
func (h *Handler) Session(r *http.Request, host oauth.Host) (s Session, err error) {
	var room [maxCookies]string
	switch find(r.Header, cookiesOf(host).session, &room) {
	case 0:
		return s, errNone
	case 1:
		return h.SessionOf(r.Context(), oauth.NewSecret(room[0]), host)
	}
	return s, errTwo
}

// SessionOf returns the session of a cookie at a host. It returns the errors of Session.
func (h *Handler) SessionOf(ctx context.Context, cookie oauth.Secret, host oauth.Host) (s Session, err error) {
	s.Cookie, s.Host = cookie, host
	s.Token, err = h.Sessions.Token(ctx, cookie.Reveal(), host)
	return s, err
}

// isNone reports whether an error says that there is no session.
func isNone(err error) bool {
	var e *oauth.Error
	return errors.As(err, &e) && e.Code == oauth.Unauthorized
}
