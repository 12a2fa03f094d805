package gate

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/caller"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/browser"
	"github.com/gatehouse-auth/gatehouse/caddymodule/hostpaths"
	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// UsesHostSessions reports whether browsers sign in at the host of the route, and come with a session of that host.
func (p *Protect) UsesHostSessions() bool {
	return p.Challenge == challengeBrowser
}

// UseHostSessions lets browsers sign in at the hosts of routes with `challenge browser`.
func (s *Shared) UseHostSessions(settings browser.Settings) {
	settings.AwaitRoutes = s.AwaitRoutes
	s.hosts = browser.New(settings)
}

// hostSignIn signs browsers in at the host of a route, and accepts the session of that host.
type hostSignIn struct {
	tokens   *tokens
	logger   *zap.Logger
	enabled  bool
	provider string // at which people sign in; empty: the default
	source   string // position of the directive
	warnHost sync.Once
	// told: see asksAtFixedAddress. Resource is the resource of the route.
	told     bool
	resource string
	trusted  []string // TrustHeaders of the route
}

// newBrowser makes the paths of the sign-in reachable at the hosts of the server, for browsers that come back from it.
func newBrowser(p *Protect, t *tokens, resource string, paths *hostpaths.Routes, logger *zap.Logger) (*hostSignIn, error) {
	b := &hostSignIn{
		tokens: t, logger: logger, enabled: p.UsesHostSessions(), provider: p.SignInAt, source: p.Source,
		told: asksAtFixedAddress(p), resource: resource, trusted: p.TrustHeaders,
	}
	if err := checkChallenge(p); err != nil || !b.enabled {
		return b, err
	}
	if t.own == nil || t.shared.hosts == nil {
		return b, errors.New("challenge browser: people sign in at our own issuer, whose sessions this route does not take: add `issuer self`, and an issuer to the oauth block")
	}
	if issued := t.shared.own.Audience; !slices.ContainsFunc(t.own.audience, func(wanted string) bool { return slices.Contains(issued, wanted) }) {
		return b, errors.New("challenge browser: the session of a browser is for none of the audiences of this route: leave `audience` out, add the issuer's, " +
			"or let browsers sign in at a `protect` of their own")
	}
	if err := t.shared.hosts.CheckProvider(p.SignInAt); err != nil {
		return b, err
	}
	paths.Add(t.shared.hosts)
	return b, nil
}

// serves answers a request for one of the sign-in's paths, and reports whether it did. Such requests only get here on named routes,
// which are provisioned too late for Mount. The path counts as the client sent it.
func (b *hostSignIn) serves(w http.ResponseWriter, r *http.Request) bool {
	if !b.enabled || !b.tokens.shared.hosts.Owns(r) {
		return false
	}
	original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request)
	return ok && b.tokens.shared.hosts.Owns(&original) && b.tokens.shared.hosts.Serve(w, r)
}

// authenticate takes the session with which a browser comes to the host.
func (b *hostSignIn) authenticate(r *http.Request, d *decision) error {
	if !b.tokens.shared.knowsRoutes() {
		if err := b.tokens.shared.AwaitRoutes(r.Context()); err != nil {
			return err
		}
	}
	r = b.asked(r)
	host, ok := b.tokens.shared.hosts.Find(r)
	if !ok {
		return tokenMissing
	}
	if !b.tokens.shared.isServing(r.Context()) {
		return oauth.Unavailable("not_started", nil)
	}
	session, err := b.tokens.shared.hosts.Session(r, host)
	if kept := caller.KeptSession(r); errorCode(err) == oauth.Unauthorized && !kept.IsEmpty() { // a gate before this one has removed the cookie
		session, err = b.tokens.shared.hosts.SessionOf(r.Context(), kept, host)
	}
	if err != nil {
		return err
	}
	if !isSafe(r) && !browser.IsSameOrigin(r, host) {
		return oauth.NewError(oauth.AccessDenied, "origin_unproven").
			WithDescription("With the session of a browser, this request must come from a page of the same origin.")
	}
	d.token, d.shown = session.Token, credential{token: session.Cookie, cookie: true, host: host}
	return nil
}

// signIn sends a browser navigation to sign in, and reports whether it did. A browser that has signed in is sent only if the sign-in is
// too old for a rule, or lacks a second factor: for every other refusal it would change nothing.
func (b *hostSignIn) signIn(w http.ResponseWriter, r *http.Request, d *decision, refusal error) bool {
	e := oauth.AsError(refusal)
	ask := browser.Ask{Provider: b.provider}
	switch {
	case !b.enabled || !isNavigation(r) || !d.shown.token.IsEmpty() && !d.shown.cookie:
		return false
	case d.token == nil && e.Code != oauth.Unauthorized:
		return false
	case d.token != nil:
		ask.TwoFactors = len(e.ACRValues) > 0 && b.tokens.shared.hosts.TwoFactors && d.token.ACR() != oauth.TwoFactorACR && oauth.SatisfiesACR(oauth.TwoFactorACR, e.ACRValues)
		if e.Code != oauth.InsufficientAuthentication || !ask.TwoFactors && (e.MaxAge <= 0 || len(e.ACRValues) > 0) {
			return false
		}
		ask.MaxAge = e.MaxAge
	}
	host, ok := b.tokens.shared.hosts.Find(r)
	if !ok {
		b.warnHost.Do(func() {
			b.logger.Warn("a browser cannot sign in for this host, because it is none of the site's addresses: name it there, or write `resource https://…`; "+
				"name another proxy that asks at an address of its own in `trusted_proxies`",
				zap.String("host", r.Host), zap.String("source", b.source))
		})
		return false
	}
	address, err := originalAddress(r)
	if err == nil {
		ask.Return = address.RequestURI()
		w.Header().Add("Vary", "Accept, Cookie, Sec-Fetch-Mode, Sec-Fetch-Dest")
		err = b.tokens.shared.hosts.Begin(w, r, host, ask)
	}
	if err != nil {
		b.logger.Error("sending a browser to sign in", zap.Error(err))
		return false
	}
	b.tokens.shared.audit.Refused(r, "browser sent to the sign-in page", refusal, b.tokens.auditFields(d)...)
	return true
}

// isForm reports whether a browser sent a form and shows the answer.
func isForm(r *http.Request) bool {
	return r.Method == http.MethodPost && !isUpgrade(r) && showsPage(r)
}

// parseChallenge reads `challenge api` or `challenge browser [<provider>]`.
func parseChallenge(p *directive, h httpcaddyfile.Helper) error {
	at := *h.Dispenser
	if words := at.RemainingArgs(); len(words) != 2 || words[0] != challengeBrowser || words[1] == "" {
		return parseChoice(h, &p.Challenge, "api", challengeBrowser)
	}
	if err := setting.Once(h.Dispenser, "challenge", p.Challenge != ""); err != nil {
		return err
	}
	h.Args(&p.Challenge, &p.SignInAt)
	return nil
}

// checkChallenge refuses a token cookie beside `challenge browser`.
func checkChallenge(p *Protect) error {
	if p.UsesHostSessions() && p.TokenCookie != "" {
		return fmt.Errorf("challenge browser takes no token from the cookie %s: leave `token_from cookie` out, since browsers sign in and come with a session of the host, "+
			"or leave `challenge browser` out", p.TokenCookie)
	}
	return nil
}
