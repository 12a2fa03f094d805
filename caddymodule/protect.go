package caddymodule

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
)

func init() { caddy.RegisterModule(new(Protect)) }

// Protect lets a request pass only with an access token of our issuer, and tells the next handler who is calling.
// Without any setting a valid token is required.
type Protect struct {
	// Scopes that every token must hold.
	Scopes []string `json:"scopes,omitempty"`
	// Audience that tokens must be meant for: one of these. Default: the issuer's.
	Audience []string `json:"audience,omitempty"`
	// Require lists further rules; all that concern a request must hold.
	Require []*Rule `json:"require,omitempty"`
	// Anonymous requests need no token. Nothing is said of them to the upstream. The path patterns match case-sensitively
	// here, and never a path that could be read in two ways.
	Anonymous caddyhttp.RawMatcherSets `json:"anonymous,omitempty" caddy:"namespace=http.matchers"`
	// Optional lets requests without a token pass; a token that is there must be good.
	Optional bool `json:"optional,omitempty"`
	// TokenCookie is the name of a cookie whose value is taken for an access token too. It needs no such cookie: the
	// Authorization header is always looked at. `accessToken` is the cookie of the issuer's own sign-in; with it, browsers
	// that are signed in are given a fresh token whenever theirs is used up. Requests that change something or open a
	// WebSocket must then come from a page of the same origin. Default: no cookie is a credential.
	TokenCookie string `json:"token_cookie,omitempty"`
	// Forward says which claims the upstream is told in which headers, in place of the default identity headers.
	Forward []ForwardedClaim `json:"forward,omitempty"`
	// ForwardOff tells the upstream nothing.
	ForwardOff bool `json:"forward_off,omitempty"`
	// UpstreamToken is `relay` (default: the Authorization header goes on) or `strip`.
	UpstreamToken string `json:"upstream_token,omitempty"`
	// Challenge is `api` (default: whoever brings no good token gets a 401) or `browser` (who would look at a page is sent to
	// the sign-in page, and comes back). It needs the TokenCookie `accessToken`, and works on the issuer's host alone.
	Challenge string `json:"challenge,omitempty"`
	// Streams is `close` (default: a WebSocket, an event stream or another long answer ends when its token expires or is
	// revoked) or `keep` (who was let in once stays as long as the connection does).
	Streams string `json:"streams,omitempty"`
	// Paths is `strict` (default: a path that could be read in two ways is answered with 400) or `lenient` (such a path
	// passes, under every rule and never anonymous). Leave it strict unless the upstream needs such paths.
	Paths string `json:"paths,omitempty"`

	app       *App
	logger    *zap.Logger
	audit     *endpoint.Audit
	audience  []string
	anonymous anonymousRule
	forward   []ForwardedClaim
	origin    ownOrigin
	warnHost  sync.Once
	cookies   ownCookies
	refusal   endpoint.Challenge
	verify    func(token string, audiences []string) (*tokenissuer.AccessToken, error)
}

// CaddyModule returns the module's id.
func (*Protect) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.oauth_protect", New: func() caddy.Module { return new(Protect) }}
}

// Provision finds the issuer and reads the rules.
func (p *Protect) Provision(ctx caddy.Context) error {
	p.logger = ctx.Logger()
	var err error
	if p.app, err = appOf(ctx, "protect"); err != nil {
		return err
	}
	p.audit = p.app.audit
	p.verify = p.app.engine.verifier.Verify
	if err := p.readAudience(); err != nil {
		return fmt.Errorf("protect: %w", err)
	}
	if err := p.readRules(ctx); err != nil {
		return fmt.Errorf("protect: %w", err)
	}
	if err := p.readForwarding(); err != nil {
		return fmt.Errorf("protect: %w", err)
	}
	if err := p.readBrowsers(); err != nil {
		return fmt.Errorf("protect: %w", err)
	}
	p.refusal = endpoint.Challenge{
		Realm: p.app.settings.issuer,
		Scope: tokenissuer.Scopes(p.Scopes).String(),
	}
	// The metadata that we serve is that of the issuer's audience; for another one it would mislead (RFC 9728 §3.3).
	if len(p.Audience) == 0 {
		p.refusal.ResourceMetadata = endpoint.ResourceMetadataURL(p.app.issuer)
	}
	return nil
}

func (p *Protect) readAudience() error {
	p.audience = p.app.settings.audience
	if len(p.Audience) == 0 {
		return nil
	}
	p.audience = nil
	for _, configured := range p.Audience {
		audience, err := resolve("audience", configured)
		if err != nil {
			return err
		}
		p.audience = append(p.audience, audience)
	}
	return nil
}

func (p *Protect) readRules(ctx caddy.Context) error {
	known := p.app.settings.scopes
	if err := known.Check(p.Scopes); err != nil {
		return err
	}
	for _, rule := range p.Require {
		if err := errors.Join(rule.provision(ctx), known.Check(rule.Scopes), known.Check(rule.AnyScope)); err != nil {
			return err
		}
	}
	for _, choice := range []struct{ name, value, usual, other string }{
		{"paths", p.Paths, "strict", lenientPaths}, {"upstream_token", p.UpstreamToken, "relay", stripToken},
		{"challenge", p.Challenge, "api", challengeBrowser}, {"streams", p.Streams, "close", keepStreams},
	} {
		if !slices.Contains([]string{"", choice.usual, choice.other}, choice.value) {
			return fmt.Errorf("%s %q: use %s or %s", choice.name, choice.value, choice.usual, choice.other)
		}
	}
	var err error
	p.anonymous, err = newAnonymousRule(ctx, p)
	return err
}

// ownCookies are the names of cookies that are kept between the browser and us.
type ownCookies struct {
	// issuer has those of our own sign-in, which no upstream sees or sets.
	issuer []string
	// hidden has those and the one that may carry a token. An upstream does not see it; who else but one should set it?
	hidden []string
}

// readBrowsers settles what concerns browsers alone.
func (p *Protect) readBrowsers() (err error) {
	p.cookies.issuer = endpoint.CookieNames(p.app.settings.issuer)
	p.cookies.hidden = p.cookies.issuer
	if p.TokenCookie != "" {
		p.cookies.hidden = append(slices.Clip(p.cookies.issuer), p.TokenCookie)
		if err := checkTokenCookie(p.TokenCookie); err != nil {
			return err
		}
	}
	if err := errors.Join(p.checkBrowser(), p.checkSessions()); err != nil {
		return err
	}
	p.origin, err = newOwnOrigin(p.app.settings.issuer)
	return err
}

// ServeHTTP guards the request, decides, and hands on a copy that says who is calling.
func (p *Protect) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	guard := p.app.identityGuard()
	guard.clean(r.Header)
	r.Trailer = nil // likewise: an error route would pass on an identity header that is announced as a trailer
	if trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool); !trusted {
		guard.cleanForwarding(r.Header)
	}
	queryToken := endpoint.QueryCarriesToken(r.URL.RawQuery)
	if queryToken { // access logs hold the query; the audit line does not
		caddyhttp.SetVar(r.Context(), caddyhttp.LogSkipVar, true)
	}
	r = withPath(r)
	d, err := p.decide(w, r)
	if err != nil {
		return p.refuse(w, r, d, err)
	}
	p.accept(r, d.token)
	p.keepBack(r, d.token)
	err = p.pass(w, r, d, next)
	if err != nil && queryToken { // Caddy's error log would hold the query as well
		return p.serveError(w, r, err)
	}
	return err
}

// withPath gives a request without a path, as an absolute-form target can be, the path that an upstream will read: "/".
func withPath(r *http.Request) *http.Request {
	if r.URL.Path != "" || r.URL.Opaque != "" {
		return r
	}
	withPath, location := *r, *r.URL
	location.Path = "/"
	withPath.URL = &location
	return &withPath
}

// keepBack takes from the client's request, in place, the credentials that nothing behind us may see: our own cookies,
// the token when it is to be stripped, and a bearer token that nobody has verified, as anonymous requests may carry: an
// upstream may take one that comes through the gate for good. In place, because error routes get this request.
func (p *Protect) keepBack(r *http.Request, token *tokenissuer.AccessToken) {
	strip := p.UpstreamToken == stripToken
	if token == nil && !strip {
		_, strip, _ = endpoint.BearerToken(r)
	}
	if strip {
		r.Header.Del("Authorization")
	}
	withoutCookies(r.Header, p.cookies.hidden...)
}

// handOn returns the copy of a request that goes on: with the identity, and without a token in the query.
func (p *Protect) handOn(r *http.Request, fields []headerField) *http.Request {
	upstream := forUpstream(r, fields)
	if endpoint.QueryCarriesToken(upstream.URL.RawQuery) {
		location := *upstream.URL
		location.RawQuery = endpoint.WithoutQueryToken(location.RawQuery)
		upstream.URL, upstream.RequestURI = &location, location.RequestURI() // the latter is what reverse_proxy logs
	}
	return upstream
}

// Settings that differ from the default.
const (
	stripToken       = "strip"
	lenientPaths     = "lenient"
	challengeBrowser = "browser"
	keepStreams      = "keep"
)

// decision is what was found out about a request.
type decision struct {
	token  *tokenissuer.AccessToken // nil: an anonymous request, or one that was refused before there was one
	fields []headerField            // what the upstream is told
	// shown is the token as it stands for itself.
	shown tokenissuer.Secret
	// cookie: the token came in a cookie, or from a browser's session.
	cookie bool
	// signedIn: the browser's session was asked for a fresh token and gave one. Renewed are the Set-Cookie lines for it.
	signedIn bool
	renewed  []string
}

// decide tells whether a request may pass, and what is to be known about it then. A panic on the way is a refusal like
// any other: whoever cannot be judged does not pass.
func (p *Protect) decide(w http.ResponseWriter, r *http.Request) (d decision, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			p.logger.Error("panic while deciding", zap.Any("panic", reason), zap.ByteString("stack", debug.Stack()))
			err = tokenissuer.NewError(tokenissuer.ServerError, "panic")
		}
	}()
	// 1. The request can be read in one way only.
	exam := examinePath(r.URL)
	if err := p.admissible(r, exam); err != nil {
		return d, err
	}
	// 2. Its token, unless it needs none.
	if p.anonymous.allows(r, exam) {
		return d, nil
	}
	if err := p.authenticate(w, r, &d); err != nil {
		if p.Optional && errorCode(err) == tokenissuer.Unauthorized && exam.Canonical {
			return d, nil
		}
		return d, err
	}
	// 3. The rules.
	if err := p.allowed(r, exam, d.token); err != nil {
		return d, err
	}
	// 4. What the upstream is told.
	d.fields, err = p.identityFields(d.token)
	return d, err
}

// admissible refuses what can be read in two ways, what an attacker can replay, and methods that are none.
func (p *Protect) admissible(r *http.Request, exam pathExam) error {
	if !requestMethodAllowed(r) {
		return endpoint.MethodNotAllowed(allowHeader)
	}
	if exam.Ambiguous && p.Paths != lenientPaths {
		return tokenissuer.NewError(tokenissuer.InvalidRequest, exam.Reason).WithDescription("The path of the request is ambiguous.")
	}
	return endpoint.RefuseEarlyData(r)
}

// allowed asks every rule that concerns the request in any of its readings. One with an ambiguous path falls under every
// rule.
func (p *Protect) allowed(r *http.Request, exam pathExam, token *tokenissuer.AccessToken) error {
	if missing := token.Scopes.Missing(p.Scopes...); missing != "" {
		return tokenissuer.MissingScope(missing)
	}
	if len(p.Require) == 0 {
		return nil
	}
	readings := readingsOf(r, exam)
	for _, rule := range p.Require {
		if !exam.Ambiguous && !rule.concerns(readings) {
			continue
		}
		if err := rule.check(token); err != nil {
			return err
		}
	}
	return nil
}

// accept counts and records the decision, and fills the placeholders {http.auth.user.*}.
func (p *Protect) accept(r *http.Request, token *tokenissuer.AccessToken) {
	countPassed(token)
	fillPlaceholders(r, token)
	if endpoint.QueryCarriesToken(r.URL.RawQuery) { // anonymous, and no access log has it
		p.audit.Accepted(r, "request passed the gate")
		return
	}
	p.audit.Passed(r, token)
}

// Interface guards.
var (
	_ caddy.Provisioner           = (*Protect)(nil)
	_ caddyhttp.MiddlewareHandler = (*Protect)(nil)
)
