package gate

import (
	"net/http"
	"runtime/debug"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/caller"
	"github.com/gatehouse-auth/gatehouse/caddymodule/identity"
	"github.com/gatehouse-auth/gatehouse/caddymodule/mcp"
	"github.com/gatehouse-auth/gatehouse/caddymodule/requestpath"
	"github.com/gatehouse-auth/gatehouse/caddymodule/rule"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/routes"
)

// ServeHTTP authorizes the request and passes a copy with the caller's identity to the next handler.
func (p *Protect) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	caller.RestoreCookies(r)
	if p.servesHost(w, r) {
		return nil
	}
	caller.RestoreBearer(r)
	r.Trailer = nil // error routes would forward an identity header that arrives as a trailer
	shownToken := requests.QueryCarriesToken(r.URL.RawQuery)
	if p.takePersonalToken(r) {
		shownToken = true
	}
	misplaced := misplacesToken(r) // before anything else is removed: the access log has all of it
	trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool)
	p.shared.identityGuard().Clean(r.Header, trusted, p.trustedHeaders...)
	if shownToken || misplaced { // keep the token out of the access log; the audit log omits the query
		caddyhttp.SetVar(r.Context(), caddyhttp.LogSkipVar, true)
	}
	r = withPath(r)
	if misplaced {
		return p.refuse(w, r, decision{}, errMisplacedToken)
	}
	d, err := p.decide(r)
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
	p.dropTold(r)
	p.recordPassed(r, &d, shownToken)
	p.stripCredentials(r, &d)
	err = p.pass(w, r, d, next)
	// Caddy's error log would contain the query and the header, and its error routes would see CONNECT instead of the WebSocket's GET.
	if err != nil && (shownToken || requestpath.IsWebSocketConnect(r)) {
		return p.serveError(w, r, err)
	}
	if err != nil {
		dropUpgrade(r) // an error route must not open a tunnel
	}
	return err
}

// withPath sets the path of a request that has none, as with an absolute-form target, to "/": upstreams read it so.
func withPath(r *http.Request) *http.Request {
	if r.URL.Path != "" || r.URL.Opaque != "" {
		return r
	}
	withPath, location := *r, *r.URL
	location.Path = "/"
	withPath.URL = &location
	return &withPath
}

// stripCredentials removes from the request, in place, the credentials that later handlers must not see: our cookies, the
// token unless it is relayed, and an unverified bearer token, which an upstream might trust because it came through the
// gate. It edits in place because error routes receive this request. A nil decision means that the request was refused.
func (p *Protect) stripCredentials(r *http.Request, d *decision) {
	verified := d != nil && d.token != nil
	strip := p.UpstreamToken == stripToken || p.UpstreamToken == swapToken
	switch {
	case strip, p.UpstreamToken == relayToken && verified:
	case verified && !d.cookie: // it came in the header
		strip = true
	default:
		_, strip, _ = requests.BearerToken(r)
		strip = strip || slices.ContainsFunc(r.Header["Authorization"], requests.ShowsPersonalToken)
	}
	if strip {
		r.Header.Del("Authorization")
	}
	if strip && verified && !d.cookie && p.UpstreamToken != swapToken {
		caller.KeepBearer(r, d.rawToken)
	}
	if verified && d.host.Authority != "" {
		caller.KeepSession(r, d.rawToken)
	}
	identity.WithoutCookies(r.Header, p.cookies.hidden...)
}

// upstreamCopy returns the copy of a request for the next handler, with the identity headers and without a token in the
// query. It reuses u's allocation, which must not be in use.
func upstreamCopy(u *identity.Request, r *http.Request, fields []identity.Field) *http.Request {
	upstream := u.Copy(r, fields)
	if requests.QueryCarriesToken(upstream.URL.RawQuery) {
		location := *upstream.URL
		location.RawQuery = requests.WithoutQueryToken(location.RawQuery)
		upstream.URL, upstream.RequestURI = &location, location.RequestURI() // reverse_proxy logs RequestURI
	}
	return upstream
}

// decision is the result of decide, as far as it got.
type decision struct {
	token  *accesstoken.AccessToken // nil: anonymous, or refused before verification
	fields []identity.Field         // the identity headers for the upstream
	// upgrade is the protocol that the client may switch to; empty: there is none.
	upgrade string
	// requestState is allocated once the request is known to pass; nil: not yet.
	requestState *requestState
	// asked is what the request asks of an MCP server, and tools are the names of the tools that it calls, for logs; nil: nobody has
	// read it.
	asked *mcp.Request
	tools string
	// preflight: the request is a CORS preflight.
	preflight bool
	// rawToken is the token as the client sent it, or the cookie of its session.
	rawToken oauth.Secret
	// verified: the token is valid, even if it lacks a permission. Missing names that permission.
	verified bool
	missing  string
	// needs lists the scopes that the request needs, for the challenge; empty: those of the route.
	needs string
	// host is that of the session with which the browser came; the zero value: it came with a token.
	host routes.Host
	// cookie: the token came in a cookie, or from a browser's session.
	cookie bool
	// exchanged replaces the client's token in the upstream request; empty: none does.
	exchanged oauth.Secret
}

// decide authenticates and authorizes a request. A panic refuses the request.
func (p *Protect) decide(r *http.Request) (d decision, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			p.logger.Error("panic while deciding", zap.Any("panic", reason), zap.ByteString("stack", debug.Stack()))
			err = oauth.NewError(oauth.ServerError, "panic")
		}
	}()
	caller.Remember(r, nil) // forget the caller that an earlier gate set
	// 1. Refuse a request that can be read in two ways.
	exam := requestpath.Examine(r.URL)
	if err := p.checkRequest(r, exam); err != nil {
		return d, err
	}
	if d.upgrade, err = p.admitUpgrade(r); err != nil {
		return d, err
	}
	if err := p.admitCaller(r); err != nil {
		return d, err
	}
	// 2. Verify the token, unless the request needs none.
	if d.preflight = p.isPreflight(r, exam); d.preflight {
		return d, nil
	}
	input := rule.Input{Request: r, Exam: exam}
	anonymous := p.anonymous.Allows(r, exam)
	if !anonymous {
		err := p.authenticate(r, &d)
		anonymous = err != nil && p.Optional && errorCode(err) == oauth.Unauthorized && exam.Canonical
		if err != nil && !anonymous {
			d.needs = p.scopesNeeded(&d, input)
			return d, err
		}
	}
	if !anonymous {
		d.verified, input = true, p.ruleInput(r, exam, d.token)
		caller.Remember(r, d.token)
	}
	// 3. Check the rules.
	if err := p.readAsked(r, &d); err != nil {
		return d, err
	}
	if !anonymous {
		d.missing, err = p.checkPermissions(input)
	}
	if err == nil {
		d.missing, err = p.checkCalls(&d, input)
	}
	if err != nil {
		d.needs = p.scopesNeeded(&d, input)
		return d, err
	}
	if anonymous {
		return d, nil
	}
	// 4. Prepare the identity headers, the assertion and the exchanged token.
	d.requestState = new(requestState)
	if d.fields, err = p.identityFields(d.requestState.fields[:0], d.token); err != nil {
		return d, err
	}
	if err := p.assert(r, &d); err != nil {
		return d, err
	}
	return d, p.exchange(r, &d)
}

// checkRequest refuses unregistered methods, two methods in the query, ambiguous paths, and early data, which an attacker can replay.
func (p *Protect) checkRequest(r *http.Request, exam requestpath.Exam) error {
	if !requestMethodAllowed(r) {
		return requests.MethodNotAllowed(allowHeader)
	}
	if _, several := requestpath.QueryMethod(r); several {
		return oauth.NewError(oauth.InvalidRequest, "method_twice").WithDescription("The query of the request names two methods.")
	}
	if exam.Ambiguous && p.Paths != lenientPaths {
		return oauth.NewError(oauth.InvalidRequest, exam.Reason).WithDescription("The path of the request is ambiguous.")
	}
	return requests.RefuseEarlyData(r)
}

// checkPermissions checks the route's scopes and then every rule. It also returns what the token lacks, for the audit
// log.
func (p *Protect) checkPermissions(input rule.Input) (missing string, err error) {
	if missing := input.Token.Scopes.Missing(p.Scopes...); missing != "" {
		return "scope " + missing, oauth.MissingScope(missing)
	}
	if len(p.Require) == 0 {
		return "", nil
	}
	return rule.Check(p.Require, input)
}

// ruleInput returns a request with a verified token, for the rules.
func (p *Protect) ruleInput(r *http.Request, exam requestpath.Exam, token *accesstoken.AccessToken) rule.Input {
	input := rule.Input{Request: r, Exam: exam, Token: token, Now: p.shared.now}
	if p.own != nil && token.Issuer == p.own.url {
		input.Own, input.Now = true, p.shared.own.Node.Now
	}
	return input
}

// recordPassed counts and audits a request that passed. Shown: the access log skips it, because it would contain a token.
func (p *Protect) recordPassed(r *http.Request, d *decision, shown bool) {
	countPassed(d.token)
	if shown {
		p.audit.Accepted(r, "request passed the gate", append(p.auditFields(*d), d.toolFields()...)...)
		return
	}
	p.audit.Passed(r, d.token, d.toolFields()...)
}
