package gate

import (
	"bytes"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/caller"
	"github.com/gatehouse-auth/gatehouse/caddymodule/identity"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
)

// refuse answers a refused request, or lets the site's own handle_errors do so.
func (p *Protect) refuse(w http.ResponseWriter, r *http.Request, d decision, err error) error {
	countRefused(err)
	if p.holdBack(r, d, err) {
		w.Header().Set("Connection", "close")
	}
	if p.signIn(w, r, &d, err) {
		return nil
	}
	answer := p.refusing(w)
	answer.page = p.foreignPage(r)
	defer answer.told.clean(w.Header()) // of what an upstream would have follow as trailers
	if d.token != nil {
		answer.renewed = d.renewed
	}
	p.audit.Refused(r, "request refused at the gate", err, p.calling(d)...)
	status := p.challenge().SetHeaders(answer, err, d.needs)
	if bodyOutstanding(r) {
		answer.Header().Set("Connection", "close")
	}
	own := func(w http.ResponseWriter, r *http.Request) error {
		endpoint.WriteRefusal(w, r, status, err)
		return nil
	}
	caller.Remember(r, nil)
	if errorRoutesOf(r) == nil { // an error of Caddy's, with its trace, would be made for nobody
		return own(answer, r)
	}
	p.keepBack(r, nil)
	return p.errorRoutes(answer, r, caddyhttp.Error(status, err), own)
}

// calling is who is refused, and what they lack, for the audit log. Without a verified token it is nothing: what another one says
// anybody may have written into it.
func (p *Protect) calling(d decision) []zap.Field {
	if !d.verified || d.token == nil {
		return nil
	}
	fields := []zap.Field{zap.String("issuer", d.token.Issuer)}
	if i := slices.IndexFunc(p.issuers, func(i routeIssuer) bool { return i.external != nil && i.url == d.token.Issuer }); i >= 0 {
		fields = append(fields, zap.String("trust", p.issuers[i].name))
	}
	fields = append(fields, zap.String("subject", d.token.Subject), zap.String("client_id", d.token.ClientID), zap.String("jti", d.token.ID))
	if d.missing != "" {
		fields = append(fields, zap.String("missing", d.missing))
	}
	return fields
}

// serveError answers for what failed behind us, where Caddy itself must not: its log would hold a token in the query, and its error
// routes would not see the GET that a WebSocket over HTTP/2 or 3 is.
func (p *Protect) serveError(w http.ResponseWriter, r *http.Request, err error) error {
	failure, ok := err.(caddyhttp.HandlerError) //nolint:errorlint // Caddy asks the same way
	if !ok {
		failure = caddyhttp.Error(http.StatusInternalServerError, err)
	}
	fields := []zap.Field{zap.String("path", r.URL.EscapedPath()), zap.Int("status", failure.StatusCode)}
	if !endpoint.QueryCarriesToken(r.URL.RawQuery) {
		fields = append(fields, zap.Error(err))
	}
	p.logger.Error("request failed behind the gate", fields...)
	answer := p.refusing(w)
	defer answer.told.clean(w.Header())
	return p.errorRoutes(answer, r, failure, func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(failure.StatusCode)
		return nil
	})
}

// errorRoutesOf are the site's error routes for a request; nil: there are none. A request that is on an error route already
// has none: routes that fail on their way would lead back here without end.
func errorRoutesOf(r *http.Request) *caddyhttp.HTTPErrorConfig {
	server, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok || server.Errors == nil || len(server.Errors.Routes) == 0 || r.Context().Value(caddyhttp.ErrorCtxKey) != nil {
		return nil
	}
	return server.Errors
}

// errorRoutes runs the site's error routes as Caddy does, and own where they give no answer.
func (p *Protect) errorRoutes(w http.ResponseWriter, r *http.Request, failure caddyhttp.HandlerError, own caddyhttp.HandlerFunc) error {
	errorRoutes := errorRoutesOf(r)
	if errorRoutes == nil {
		return own(w, r)
	}
	// As Caddy does it: error routes see the request as it came, without rewrites.
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
		r.Method, r.RequestURI = original.Method, original.RequestURI
		location := *original.URL
		r.URL = &location
	}
	dropUpgrade(r) // a refusal is an answer, and no tunnel
	r = errorRoutes.WithError(handOn(new(identity.Request), r, nil), failure)
	// Routes that match the host and then nothing else end in an answer without a body, and that is where ours belongs.
	answer := caddyhttp.NewResponseRecorder(w, new(bytes.Buffer), func(status int, _ http.Header) bool {
		return status == failure.StatusCode
	})
	switch err := errorRoutes.Routes.Compile(own).ServeHTTP(answer, r); {
	case err != nil:
		return err
	case answer.Buffered() && answer.Size() == 0:
		w.Header().Del("Content-Length")
		return own(w, r)
	default:
		return answer.WriteResponse()
	}
}

// bodyOutstanding reports whether a refused request has a body that net/http would read a part of before it sends the
// answer, in the hope of another request on the connection. Who is refused waits for no body, and we read none.
func bodyOutstanding(r *http.Request) bool {
	const small = 64 << 10
	return r.ProtoMajor == 1 && (r.ContentLength < 0 || r.ContentLength > small || r.ContentLength > 0 && r.Header["Expect"] != nil)
}
