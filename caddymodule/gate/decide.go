package gate

import (
	"net/http"
	"runtime/debug"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/caller"
	"github.com/gatehouse-auth/gatehouse/caddymodule/identity"
	"github.com/gatehouse-auth/gatehouse/caddymodule/requestpath"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// ServeHTTP guards the request, decides, and hands on a copy that says who is calling.
func (p *Protect) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool)
	p.shared.identityGuard().Clean(r.Header, trusted, p.trustedHeaders...)
	caller.RestoreShown(r)
	r.Trailer = nil // likewise: an error route would pass on an identity header that is announced as a trailer
	queryToken := endpoint.QueryCarriesToken(r.URL.RawQuery)
	if queryToken { // access logs hold the query; the audit line does not
		caddyhttp.SetVar(r.Context(), caddyhttp.LogSkipVar, true)
	}
	r = withPath(r)
	d, err := p.decide(w, r)
	if err != nil {
		return p.refuse(w, r, d, err)
	}
	if d.preflight && p.CORSPreflight != preflightUpstream {
		p.answerPreflight(w, r)
		return nil
	}
	if d.preflight {
		dropBody(r)
	}
	p.accept(r, d.token)
	p.keepBack(r, &d)
	err = p.pass(w, r, d, next)
	// Caddy's error log would hold the query as well, and its error routes would see a CONNECT where a WebSocket is a GET.
	if err != nil && (queryToken || isWebSocketConnect(r)) {
		return p.serveError(w, r, err)
	}
	if err != nil {
		dropUpgrade(r) // error routes answer, and open no tunnel
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
// the token unless it is to be relayed, and a bearer token that nobody has verified, as anonymous requests may carry: an
// upstream may take one that comes through the gate for good. In place, because error routes get this request. D is the decision to
// let it pass; nil: it is refused.
func (p *Protect) keepBack(r *http.Request, d *decision) {
	verified := d != nil && d.token != nil
	strip := p.UpstreamToken == StripToken || p.UpstreamToken == swapToken
	switch {
	case strip, p.UpstreamToken == relayToken && verified:
	case verified && !d.cookie: // it was in the header
		strip = true
	default:
		_, strip, _ = endpoint.BearerToken(r)
	}
	if strip {
		r.Header.Del("Authorization")
	}
	if strip && verified && !d.cookie && p.UpstreamToken != swapToken {
		caller.RememberShown(r, d.shown)
	}
	identity.WithoutCookies(r.Header, p.cookies.hidden...)
}

// handOn returns the copy of a request that goes on: with the identity, and without a token in the query. It reuses u's
// allocation, which must not be in use.
func handOn(u *identity.Request, r *http.Request, fields []identity.Field) *http.Request {
	upstream := u.Copy(r, fields)
	if endpoint.QueryCarriesToken(upstream.URL.RawQuery) {
		location := *upstream.URL
		location.RawQuery = endpoint.WithoutQueryToken(location.RawQuery)
		upstream.URL, upstream.RequestURI = &location, location.RequestURI() // the latter is what reverse_proxy logs
	}
	return upstream
}

// decision is what was found out about a request.
type decision struct {
	token  *accesstoken.AccessToken // nil: an anonymous request, or one that was refused before there was one
	fields []identity.Field         // what the upstream is told
	// upgrade is the protocol that the client may switch to; empty: there is none.
	upgrade string
	// crossing is where the request goes through, once it is known that it will; nil: it is yet to be made.
	requestState *requestState
	// preflight: a browser asks whether a page may send a request.
	preflight bool
	// shown is the token as it stands for itself.
	shown oauth.Secret
	// verified: the token is good, whether or not it may do this. Then missing is what it lacks.
	verified bool
	missing  string
	// needs are the scopes that the request needs, for the challenge; empty: those of the route.
	needs string
	// cookie: the token came in a cookie, or from a browser's session.
	cookie bool
	// signedIn: the browser's session was asked for a fresh token and gave one. Renewed are the Set-Cookie lines for it.
	signedIn bool
	renewed  []string
	// swapped goes to the upstream in the place of the client's token; empty: none does.
	swapped oauth.Secret
}

// decide reports whether a request may pass, and what is to be known about it then. A panic on the way is a refusal like
// any other: whoever cannot be judged does not pass.
func (p *Protect) decide(w http.ResponseWriter, r *http.Request) (d decision, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			p.logger.Error("panic while deciding", zap.Any("panic", reason), zap.ByteString("stack", debug.Stack()))
			err = oauth.NewError(oauth.ServerError, "panic")
		}
	}()
	caller.Remember(r, nil) // an earlier gate's
	// 1. The request can be read in one way only.
	exam := requestpath.Examine(r.URL)
	if err := p.admissible(r, exam); err != nil {
		return d, err
	}
	if d.upgrade, err = p.admitUpgrade(r); err != nil {
		return d, err
	}
	// 2. Its token, unless it needs none.
	if d.preflight = p.isPreflight(r, exam); d.preflight || p.anonymous.allows(r, exam) {
		return d, nil
	}
	if err := p.authenticate(w, r, &d); err != nil {
		if p.Optional && errorCode(err) == oauth.Unauthorized && exam.Canonical {
			return d, nil
		}
		d.needs = p.scopesNeeded(r, exam, nil)
		return d, err
	}
	d.verified = true
	caller.Remember(r, d.token)
	// 3. The rules.
	if d.missing, err = p.allowed(r, exam, d.token); err != nil {
		d.needs = p.scopesNeeded(r, exam, d.token)
		return d, err
	}
	// 4. What the upstream is told.
	d.requestState = new(requestState)
	if d.fields, err = p.identityFields(d.requestState.fields[:0], d.token); err != nil {
		return d, err
	}
	if err := p.assert(r, &d); err != nil {
		return d, err
	}
	return d, p.swap(r, &d)
}

// admissible refuses what can be read in two ways, what an attacker can replay, and methods that are none.
func (p *Protect) admissible(r *http.Request, exam requestpath.Exam) error {
	if !requestMethodAllowed(r) {
		return endpoint.MethodNotAllowed(allowHeader)
	}
	if exam.Ambiguous && p.Paths != lenientPaths {
		return oauth.NewError(oauth.InvalidRequest, exam.Reason).WithDescription("The path of the request is ambiguous.")
	}
	return endpoint.RefuseEarlyData(r)
}

// allowed asks for the scopes of the route, and then every rule. What is missing is said for the audit log.
func (p *Protect) allowed(r *http.Request, exam requestpath.Exam, token *accesstoken.AccessToken) (missing string, err error) {
	if missing := token.Scopes.Missing(p.Scopes...); missing != "" {
		return "scope " + missing, oauth.MissingScope(missing)
	}
	if len(p.Require) == 0 {
		return "", nil
	}
	rule, err := p.asks(r, exam, token)
	if err == nil {
		return "", nil
	}
	return rule.missing(token), err
}

// accept counts and records the decision.
func (p *Protect) accept(r *http.Request, token *accesstoken.AccessToken) {
	countPassed(token)
	p.notePassed(r, token)
	if endpoint.QueryCarriesToken(r.URL.RawQuery) { // anonymous, and no access log has it
		p.audit.Accepted(r, "request passed the gate")
		return
	}
	p.audit.Passed(r, token)
}
