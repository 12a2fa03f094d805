package gate

import (
	"net/http"
	"runtime/debug"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/caller"
	"github.com/gatehouse-auth/gatehouse/caddymodule/identity"
	"github.com/gatehouse-auth/gatehouse/caddymodule/mcp"
	"github.com/gatehouse-auth/gatehouse/caddymodule/requestpath"
	"github.com/gatehouse-auth/gatehouse/caddymodule/rule"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/routes"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// ServeHTTP authorizes the request and passes a copy with the caller's identity to the next handler.
func (p *Protect) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	caller.RestoreCookies(r)
	if p.browser.serves(w, r) {
		return nil
	}
	caller.RestoreBearer(r)
	r.Trailer = nil // error routes would forward an identity header that arrives as a trailer
	shownToken := requests.QueryCarriesToken(r.URL.RawQuery)
	if p.credentials.takePersonalToken(r) {
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
		p.cors.answerPreflight(w, r)
		return nil
	}
	if d.preflight {
		dropBody(r)
	}
	p.browser.dropTold(r)
	p.recordPassed(r, &d, shownToken)
	p.credentials.strip(r, &d)
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
	token  *token.AccessToken // nil: anonymous, or refused before verification
	fields []identity.Field   // the identity headers for the upstream
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
	// shown is what the client has shown.
	shown credential
	// verified: the token is valid, even if it lacks a permission. Missing names that permission.
	verified bool
	missing  string
	// needs lists the scopes that the request needs, for the challenge; empty: those of the route.
	needs string
	// exchanged replaces the client's token in the upstream request; empty: none does.
	exchanged oauth.Secret
}

// decide is the walk of a bearer string up to the upstream. A panic refuses the request.
func (p *Protect) decide(r *http.Request) (d decision, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			p.logger.Error("panic while deciding", zap.Any("panic", reason), zap.ByteString("stack", debug.Stack()))
			err = oauth.NewError(oauth.ServerError, "panic")
		}
	}()
	caller.Remember(r, nil) // forget the caller that an earlier gate set
	// 1. Refuse a request that can be read in two ways, or that a foreign page has caused.
	exam := requestpath.Examine(r.URL)
	if err := p.checkRequest(r, exam); err != nil {
		return d, err
	}
	if d.upgrade, err = p.admitUpgrade(r); err != nil {
		return d, err
	}
	if err := p.cors.admitCaller(r); err != nil {
		return d, err
	}
	if d.preflight = p.cors.isPreflight(r, exam); d.preflight { // it needs no token
		return d, nil
	}
	// 2. Read the credential, look it up, or verify it at first sight.
	input := rule.Input{Request: r, Exam: exam}
	anonymous := p.rules.anonymous.Allows(r, exam)
	if !anonymous {
		err := p.authenticate(r, &d)
		anonymous = err != nil && p.Optional && errorCode(err) == oauth.Unauthorized && exam.Canonical
		if err != nil && !anonymous {
			d.needs = p.rules.scopesNeeded(&d, input)
			return d, err
		}
	}
	if !anonymous {
		d.verified, input = true, p.rules.input(r, exam, d.token)
		caller.Remember(r, d.token)
	}
	// 3. Check the rules.
	if err := p.rules.readAsked(r, &d); err != nil {
		return d, err
	}
	if !anonymous {
		d.missing, err = p.rules.check(input)
	}
	if err == nil {
		d.missing, err = p.rules.checkCalls(&d, input)
	}
	if err != nil {
		d.needs = p.rules.scopesNeeded(&d, input)
		return d, err
	}
	if anonymous {
		return d, nil
	}
	// 4. Prepare the identity that the upstream gets: headers, assertion and exchanged token.
	d.requestState = new(requestState)
	if d.fields, err = p.forwarding.fields(d.requestState.fields[:0], d.token); err != nil {
		return d, err
	}
	if err := p.forwarding.assert(r, &d); err != nil {
		return d, err
	}
	return d, p.forwarding.exchange(r, &d)
}

// authenticate verifies the token of a request, or the session with which a browser comes to the host. It fills in the
// decision as far as it gets.
func (p *Protect) authenticate(r *http.Request, d *decision) error {
	// 1. Read the credential.
	shown, err := p.credentials.find(r)
	if err != nil && errorCode(err) == oauth.Unauthorized && p.browser.enabled {
		return p.browser.authenticate(r, d)
	}
	if err != nil {
		return err
	}
	if err := p.credentials.checkOrigin(r, shown); err != nil {
		return err
	}
	// 2. Look it up, or verify it at first sight.
	d.shown = shown
	d.token, err = p.tokens.verify(r.Context(), routes.Hostname(r.Host), shown.token.Reveal())
	return err
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

// recordPassed counts and audits a request that passed. Shown: the access log skips it, because it would contain a token.
func (p *Protect) recordPassed(r *http.Request, d *decision, shown bool) {
	countPassed(d.token)
	if shown {
		p.shared.audit.Accepted(r, "request passed the gate", append(p.tokens.auditFields(d), d.toolFields()...)...)
		return
	}
	p.shared.audit.Passed(r, d.token, d.toolFields()...)
}
