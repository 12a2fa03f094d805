package gate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/caller"
	"github.com/gatehouse-auth/gatehouse/caddymodule/hostsession"
	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// UsesHostSessions reports whether browsers sign in at the host of the route, and come with a session of that host.
func (p *Protect) UsesHostSessions() bool {
	return p.Challenge == challengeBrowser
}

// UseHostSessions lets browsers sign in at the hosts of the routes that want it.
func (s *Shared) UseHostSessions(settings hostsession.Settings) (err error) {
	settings.AwaitRoutes = s.AwaitRoutes
	s.hosts, err = hostsession.New(settings)
	return err
}

// readHostSessions makes the paths of the sign-in reachable at the hosts of the server, for browsers that come back from it.
func (p *Protect) readHostSessions() error {
	if !p.UsesHostSessions() {
		return nil
	}
	if p.own == nil || p.shared.hosts == nil {
		return errors.New("challenge browser: people sign in at our own issuer, whose sessions this route does not take: add `issuer self`, and an issuer to the oauth block")
	}
	if issued := p.shared.own.Audience; !slices.ContainsFunc(p.own.audience, func(wanted string) bool { return slices.Contains(issued, wanted) }) {
		return errors.New("challenge browser: the session of a browser is for none of the audiences of this route: leave `audience` out, add the issuer's, " +
			"or let browsers sign in at a `protect` of their own")
	}
	if err := p.shared.hosts.CheckProvider(p.SignInAt); err != nil {
		return err
	}
	p.paths.Add(p.shared.hosts)
	return nil
}

// servesHost answers a request for the sign-in at its host that comes this far, and reports whether it did: what stands in a named
// route is provisioned too late to put anything before the routes. The path is the one that the client sent.
func (p *Protect) servesHost(w http.ResponseWriter, r *http.Request) bool {
	if !p.UsesHostSessions() || !p.shared.hosts.Owns(r) {
		return false
	}
	original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request)
	return ok && p.shared.hosts.Owns(&original) && p.shared.hosts.Serve(w, r)
}

// authenticateAtHost takes the session with which a browser comes to the host.
func (p *Protect) authenticateAtHost(r *http.Request, d *decision) error {
	if !p.shared.knowsRoutes() {
		if err := p.shared.AwaitRoutes(r.Context()); err != nil {
			return err
		}
	}
	r = p.asked(r)
	host, ok := p.shared.hosts.Find(r)
	if !ok {
		return tokenMissing
	}
	if !p.shared.isServing(r.Context()) {
		return oauth.Unavailable("not_started", nil)
	}
	session, err := p.shared.hosts.Session(r, host)
	if kept := caller.KeptSession(r); errorCode(err) == oauth.Unauthorized && !kept.IsEmpty() { // a gate before this one has removed the cookie
		session, err = p.shared.hosts.SessionOf(r.Context(), kept, host)
	}
	if err != nil {
		return err
	}
	if !isSafe(r) && !hostsession.IsSameOrigin(r, host) {
		return oauth.NewError(oauth.AccessDenied, "origin_unproven").
			WithDescription("With the session of a browser, this request must come from a page of the same origin.")
	}
	d.token, d.rawToken, d.host, d.cookie = session.Token, session.Cookie, host, true
	return nil
}

// signIn sends a browser navigation to sign in, and reports whether it did. A browser that has signed in is sent only if the sign-in is
// too old for a rule: for every other refusal it would change nothing.
func (p *Protect) signIn(w http.ResponseWriter, r *http.Request, d *decision, refusal error) bool {
	e := oauth.AsError(refusal)
	ask := hostsession.Ask{Provider: p.SignInAt}
	switch {
	case !p.UsesHostSessions() || !isNavigation(r) || !d.rawToken.IsEmpty() && !d.cookie:
		return false
	case d.token == nil && e.Code != oauth.Unauthorized:
		return false
	case d.token != nil:
		if e.Code != oauth.InsufficientAuthentication || e.MaxAge <= 0 || len(e.ACRValues) > 0 {
			return false
		}
		ask.MaxAge = e.MaxAge
	}
	host, ok := p.shared.hosts.Find(r)
	if !ok {
		p.warnHost.Do(func() {
			p.logger.Warn("a browser cannot sign in for this host, because it is none of the site's addresses: name it there, or write `resource https://…`; "+
				"name another proxy that asks at an address of its own in `trusted_proxies`",
				zap.String("host", r.Host), zap.String("source", p.Source))
		})
		return false
	}
	address, err := originalAddress(r)
	if err == nil {
		ask.Return = address.RequestURI()
		w.Header().Add("Vary", "Accept, Cookie, Sec-Fetch-Mode, Sec-Fetch-Dest")
		err = p.shared.hosts.Begin(w, r, host, ask)
	}
	if err != nil {
		p.logger.Error("sending a browser to sign in", zap.Error(err))
		return false
	}
	p.audit.Refused(r, "browser sent to the sign-in page", refusal, p.auditFields(*d)...)
	return true
}

// verify repeats the gate's verification of the stream's token or session.
func (s *stream) verify(ctx context.Context) error {
	if s.host.Authority != "" {
		return s.gate.shared.hosts.Check(ctx, s.rawToken, s.host)
	}
	_, err := s.gate.verifyToken(ctx, s.asked, s.rawToken.Reveal())
	return err
}

// isForm reports whether a browser has sent a form, whose answer it would show.
func isForm(r *http.Request) bool {
	return r.Method == http.MethodPost && !isUpgrade(r) && showsPage(r)
}

// parseChallenge reads `challenge api` or `challenge browser [<provider>]`.
func (p *Protect) parseChallenge(h httpcaddyfile.Helper) error {
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
func (p *Protect) checkChallenge() error {
	if p.UsesHostSessions() && p.TokenCookie != "" {
		return fmt.Errorf("challenge browser takes no token from the cookie %s: leave `token_from cookie` out, since browsers sign in and come with a session of the host, "+
			"or leave `challenge browser` out", p.TokenCookie)
	}
	return nil
}
