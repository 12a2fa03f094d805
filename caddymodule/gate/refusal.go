package gate

import (
	"bytes"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/caller"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/identity"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/mcp"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
)

// refuse answers a refused request, directly or through the site's handle_errors.
func (p *Protect) refuse(w http.ResponseWriter, r *http.Request, d decision, err error) error {
	resultOf(nil, err).counter.Inc()
	if p.browser.signIn(w, p.browser.asked(r), &d, err) {
		return nil
	}
	answer := p.refusing(w)
	answer.cors = p.cors.grant(r)
	defer answer.identity.clean(w.Header()) // remove what an upstream would send as trailers
	p.shared.audit.Refused(r, "request refused at the gate", err, append(p.tokens.auditFields(&d), d.toolFields()...)...)
	status := p.challenger.challenge(r).SetHeaders(answer, err, d.needs)
	if bodyOutstanding(r) {
		answer.Header().Set("Connection", "close")
	}
	var own caddyhttp.HandlerFunc = func(w http.ResponseWriter, r *http.Request) error {
		answers.WriteRefusal(w, r, status, err)
		return nil
	}
	if d.asked != nil {
		own = func(w http.ResponseWriter, _ *http.Request) error {
			mcp.WriteRefusal(w, status, d.asked.ID, err)
			return nil
		}
	}
	if page := p.browser.page(p.browser.asked(r), &d, status, err); page != nil {
		own = page
	}
	caller.Remember(r, nil)
	//lint:ignore errorlint our own; error routes could pass the token on
	if err == errMisplacedToken || errorRoutesOf(r) == nil {
		return own(answer, r)
	}
	p.credentials.strip(r, nil)
	return errorRoutes(answer, r, caddyhttp.Error(status, err), own)
}

// auditFields returns the audit fields of the caller and what the token lacks. It returns nil without a verified token,
// because an unverified one may be forged.
func (t *tokens) auditFields(d *decision) []zap.Field {
	if !d.verified || d.token == nil {
		return nil
	}
	fields := []zap.Field{zap.String("issuer", d.token.Issuer)}
	if name := t.nameOf(d.token); name != "" {
		fields = append(fields, zap.String("trust", name))
	}
	fields = append(fields, zap.String("subject", d.token.Subject), zap.String("client_id", d.token.ClientID), zap.String("jti", d.token.ID))
	if d.missing != "" {
		fields = append(fields, zap.String("missing", d.missing))
	}
	return fields
}

// toolFields returns the audit field of the tools that a request calls; nil: it calls none.
func (d *decision) toolFields() []zap.Field {
	if d.tools == "" {
		return nil
	}
	return []zap.Field{zap.String("tool", d.tools)}
}

// serveError answers an error of the next handler where Caddy must not: Caddy's log would contain a token in the query,
// and its error routes would not see a WebSocket over HTTP/2 or 3 as a GET.
func (p *Protect) serveError(w http.ResponseWriter, r *http.Request, err error) error {
	failure, ok := err.(caddyhttp.HandlerError) //lint:ignore errorlint as Caddy does
	if !ok {
		failure = caddyhttp.Error(http.StatusInternalServerError, err)
	}
	fields := []zap.Field{zap.String("path", r.URL.EscapedPath()), zap.Int("status", failure.StatusCode)}
	if !requests.QueryCarriesToken(r.URL.RawQuery) {
		fields = append(fields, zap.Error(err))
	}
	p.logger.Error("request failed behind the gate", fields...)
	answer := p.refusing(w)
	defer answer.identity.clean(w.Header())
	return errorRoutes(answer, r, failure, func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(failure.StatusCode)
		return nil
	})
}

// errorRoutesOf returns the site's error routes; nil: none. A request that is already on an error route has none, or
// failing routes would recurse.
func errorRoutesOf(r *http.Request) *caddyhttp.HTTPErrorConfig {
	server, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok || server.Errors == nil || len(server.Errors.Routes) == 0 || r.Context().Value(caddyhttp.ErrorCtxKey) != nil {
		return nil
	}
	return server.Errors
}

// errorRoutes runs the site's error routes as Caddy does. If they give no answer, own does.
func errorRoutes(w http.ResponseWriter, r *http.Request, failure caddyhttp.HandlerError, own caddyhttp.HandlerFunc) error {
	site := errorRoutesOf(r)
	if site == nil {
		return own(w, r)
	}
	// As Caddy does: error routes see the original request, without rewrites.
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
		r.Method, r.RequestURI = original.Method, original.RequestURI
		location := *original.URL
		r.URL = &location
	}
	dropUpgrade(r) // a refusal must not open a tunnel
	r = site.WithError(upstreamCopy(new(identity.Request), r, nil), failure)
	// Routes that match only the host end in an answer without a body. Ours replaces it.
	answer := caddyhttp.NewResponseRecorder(w, new(bytes.Buffer), func(status int, _ http.Header) bool {
		return status == failure.StatusCode
	})
	switch err := site.Routes.Compile(own).ServeHTTP(answer, r); {
	case err != nil:
		return err
	case answer.Buffered() && answer.Size() == 0:
		w.Header().Del("Content-Length")
		return own(w, r)
	default:
		return answer.WriteResponse()
	}
}

// bodyOutstanding reports whether net/http would read part of the body of a refused request before it sends the answer, to keep the connection reusable. A refusal must not wait for the body.
func bodyOutstanding(r *http.Request) bool {
	const small = 64 << 10
	return r.ProtoMajor == 1 && (r.ContentLength < 0 || r.ContentLength > small || r.ContentLength > 0 && r.Header["Expect"] != nil)
}
