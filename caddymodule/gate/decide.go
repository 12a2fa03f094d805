package gate

import (
	"net/http"
	"runtime/debug"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/caller"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/identity"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/mcp"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/requestpath"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/rule"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/tracing"
)

// ServeHTTP authorizes the request and passes a copy with the caller's identity to the next handler. Its steps and those of
// decide are numbered as in docs/how-it-works.md.
func (p *Protect) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	// 1. Restore what was set aside for this gate, and remove what only the gate may tell an upstream.
	caller.RestoreCookies(r)
	if p.browser.serves(w, r) {
		return nil
	}
	r, shownToken, misplaced := p.clean(r)
	if misplaced {
		return p.refuse(w, r, decision{}, errMisplacedToken)
	}
	// 2 to 7. Decide.
	var room [8]identity.Field // for the default headers, the issuer and an assertion
	d, fields, err := p.decide(r, room[:0])
	// 8. Refuse.
	if err != nil {
		return p.refuse(w, r, d, err)
	}
	// 9. Pass.
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
	err = p.pass(w, r, d, fields, next)
	// Caddy's error log would contain the query and the header, and its error routes would see CONNECT instead of the WebSocket's GET.
	if err != nil && (shownToken || requestpath.IsWebSocketConnect(r)) {
		return p.serveError(w, r, err)
	}
	if err != nil {
		dropUpgrade(r) // an error route must not open a tunnel
	}
	return err
}

// clean removes from the request, in place, what only the gate may tell an upstream, and moves a personal access token into
// the Authorization header. ShownToken reports a token where the access log would show it. Misplaced reports a personal
// access token where none is read.
func (p *Protect) clean(r *http.Request) (cleaned *http.Request, shownToken, misplaced bool) {
	caller.RestoreBearer(r)
	r.Trailer = nil // error routes would forward an identity header that arrives as a trailer
	shownToken = requests.QueryCarriesToken(r.URL.RawQuery)
	if p.credentials.takePersonalToken(r) {
		shownToken = true
	}
	misplaced = misplacesToken(r) // before anything else is removed: the access log has all of it
	trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool)
	p.shared.identityGuard().Clean(r.Header, trusted, p.trustedHeaders...)
	if shownToken || misplaced { // keep the token out of the access log; the audit log omits the query
		caddyhttp.SetVar(r.Context(), caddyhttp.LogSkipVar, true)
	}
	if misplaced { // Caddy's span has what the access log has, but for the query and other headers
		tracing.Redact(r.Context())
	}
	return withPath(r), shownToken, misplaced
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
	token *token.AccessToken // nil: anonymous, or refused before verification
	// upgrade is the protocol that the client may switch to; empty: there is none.
	upgrade string
	// asked is what the request asks of an MCP server; nil: it has not been read. Tools names the tools that it calls, for logs.
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

// decide takes a request from its bearer string to the identity headers for the upstream, which it appends to fields. A panic
// refuses the request. It is a span of a request that is traced.
func (p *Protect) decide(r *http.Request, fields []identity.Field) (d decision, _ []identity.Field, err error) {
	outer := r.Context()
	if ctx, span := tracing.Start(outer, "gate", ""); span.IsRecorded() {
		*r = *r.WithContext(ctx) // in place, as everything that decide changes in the request
		defer func() {
			*r = *r.WithContext(outer) // what the next handler does is no part of the decision
			p.tokens.describe(span, &d, err)
		}()
	}
	defer func() {
		if reason := recover(); reason != nil {
			p.logger.Error("panic while deciding", zap.Any("panic", reason), zap.ByteString("stack", debug.Stack()))
			err = oauth.NewError(oauth.ServerError, "panic")
		}
	}()
	caller.Remember(r, nil) // forget the caller that an earlier gate set
	// 2. Refuse a request that can be read in two ways, or that a page of a foreign origin caused.
	exam := requestpath.Examine(r.URL)
	if err := p.checkRequest(r, exam); err != nil {
		return d, nil, err
	}
	if d.upgrade, err = p.admitUpgrade(r); err != nil {
		return d, nil, err
	}
	if err := p.cors.admitCaller(r); err != nil {
		return d, nil, err
	}
	// 3. Let preflights and anonymous requests pass without a token.
	if d.preflight = p.cors.isPreflight(r, exam); d.preflight {
		return d, nil, nil
	}
	input := rule.Input{Request: r, Exam: exam}
	anonymous := p.rules.anonymous.Allows(r, exam)
	// 4 and 5. Read the credential and verify it.
	if !anonymous {
		err := p.authenticate(r, &d)
		anonymous = err != nil && p.Optional && errorCode(err) == oauth.Unauthorized && exam.Canonical
		if err != nil && !anonymous {
			d.needs = p.rules.scopesNeeded(&d, input)
			return d, nil, err
		}
	}
	if !anonymous {
		d.verified, input = true, p.rules.input(r, exam, d.token)
		caller.Remember(r, d.token)
	}
	// 6. Check the rules.
	if err := p.rules.readAsked(r, &d); err != nil {
		return d, nil, err
	}
	if !anonymous {
		d.missing, err = p.rules.check(input)
	}
	if err == nil {
		d.missing, err = p.rules.checkCalls(&d, input)
	}
	if err != nil {
		d.needs = p.rules.scopesNeeded(&d, input)
		return d, nil, err
	}
	if anonymous {
		return d, nil, nil
	}
	// 7. Prepare the identity for the upstream: headers, an assertion, and an exchanged token.
	if fields, err = p.forwarding.fields(fields, d.token); err != nil {
		return d, nil, err
	}
	if fields, err = p.forwarding.assert(fields, r, d.token); err != nil {
		return d, nil, err
	}
	d.exchanged, err = p.forwarding.exchange(r, &d)
	return d, fields, err
}

// authenticate verifies the token of a request, or the session with which a browser comes to the host. It fills in the
// decision as far as it gets.
func (p *Protect) authenticate(r *http.Request, d *decision) error {
	// 4. Read the credential.
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
	// 5. Look it up, or verify it at first sight.
	d.shown = shown
	d.token, err = p.tokens.verify(r.Context(), oauth.Hostname(r.Host), shown.token.Reveal())
	return err
}

// checkRequest refuses unregistered methods, two methods in the query, ambiguous hosts and paths, and early data, which an
// attacker can replay.
func (p *Protect) checkRequest(r *http.Request, exam requestpath.Exam) error {
	if !requestMethodAllowed(r) {
		return requests.MethodNotAllowed(allowHeader)
	}
	if _, several := requestpath.QueryMethod(r); several {
		return oauth.NewError(oauth.InvalidRequest, "method_twice").WithDescription("The query of the request names two methods.")
	}
	if !requestpath.IsPlainHost(r.Host) {
		return oauth.NewError(oauth.InvalidRequest, "host_ambiguous").WithDescription("The host of the request is ambiguous.")
	}
	if exam.Ambiguous && p.Paths != lenientPaths {
		return oauth.NewError(oauth.InvalidRequest, exam.Reason).WithDescription("The path of the request is ambiguous.")
	}
	return requests.RefuseEarlyData(r)
}

// recordPassed counts and audits a request that passed. Shown: the access log skips it, because it would contain a token.
func (p *Protect) recordPassed(r *http.Request, d *decision, shown bool) {
	resultOf(d.token, nil).counter.Inc()
	if shown {
		p.shared.audit.Accepted(r, "request passed the gate", append(p.tokens.auditFields(d), d.toolFields()...)...)
		return
	}
	p.shared.audit.Passed(r, d.token, d.toolFields()...)
}
