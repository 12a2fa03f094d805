// Package tracing records spans of OpenTelemetry where the context of a request has one that is recorded, as below the directive `tracing`
// of Caddy. Everywhere else it does nothing and allocates nothing.
//
// A span has a name, the attributes of this package, and a result. The names and the results are constants of our own. So are the values of
// attributes, or they are names that an operator or an administrator has given: no value comes from a request before it is found to be one
// of these. The text of an error is never recorded, because it may quote a credential or a URL.
package tracing

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// scope names the code that records the spans.
const scope = "github.com/gatehouse-auth/gatehouse"

// Key names an attribute.
type Key string

// The attributes. Those without a prefix of ours are of the semantic conventions of OpenTelemetry.
const (
	ClientID  Key = "gatehouse.client_id"
	KeyID     Key = "gatehouse.key_id"
	Trust     Key = "gatehouse.trust"
	Result    Key = "gatehouse.result"
	Reason    Key = "gatehouse.reason"
	ErrorType Key = "error.type"
	Server    Key = "server.address"
)

// otherError is the ErrorType of an error without a code (OpenTelemetry's semantic conventions, error.type).
const otherError = "_OTHER"

// Span is a span that has begun. The zero value is one that is not recorded.
type Span struct{ recorded trace.Span }

// Start begins a span of our own work, as a child of the one in the context. Unless that one is recorded, it returns ctx and the zero Span.
// The name is what and name with a space between.
func Start(ctx context.Context, what, name string) (context.Context, Span) {
	return start(ctx, trace.SpanKindInternal, what, name)
}

// StartCall is like Start for a question to a database or to another server.
func StartCall(ctx context.Context, what, name string) (context.Context, Span) {
	return start(ctx, trace.SpanKindClient, what, name)
}

func start(ctx context.Context, kind trace.SpanKind, what, name string) (context.Context, Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, Span{}
	}
	if name != "" {
		what += " " + name
	}
	ctx, span := parent.TracerProvider().Tracer(scope).Start(ctx, what, trace.WithSpanKind(kind))
	return ctx, Span{span}
}

// IsRecorded reports whether it is worth the work to find out attributes.
func (s Span) IsRecorded() bool { return s.recorded != nil }

// Rename gives the span another name.
func (s Span) Rename(name string) {
	if s.recorded != nil {
		s.recorded.SetName(name)
	}
}

// Set sets an attribute. An empty value sets none.
func (s Span) Set(key Key, value string) {
	if s.recorded != nil && value != "" {
		s.recorded.SetAttributes(attribute.String(string(key), value))
	}
}

// SetStatus sets the status of an HTTP response.
func (s Span) SetStatus(status int) {
	if s.recorded != nil {
		s.recorded.SetAttributes(attribute.Int("http.response.status_code", status))
	}
}

// End ends the span with the code and the reason of an error; nil: there is none. The span fails unless the error is a refusal of what was
// asked.
func (s Span) End(err error) {
	if s.recorded == nil {
		return
	}
	if err != nil {
		s.fail(err)
	}
	s.recorded.End()
}

func (s Span) fail(err error) {
	e, ok := errors.AsType[*oauth.Error](err)
	if !ok {
		s.Set(ErrorType, otherError)
		s.recorded.SetStatus(codes.Error, "")
		return
	}
	s.Set(ErrorType, string(e.Code))
	s.Set(Reason, e.Reason)
	if e.Code == oauth.ServerError || e.Code == oauth.TemporarilyUnavailable {
		s.recorded.SetStatus(codes.Error, e.Reason)
	}
}

// redacted replaces a text that may hold a credential.
const redacted = "REDACTED"

// shown are the attributes of the HTTP server's span with texts of the request.
var shown = []attribute.Key{"url.path", "server.address", "client.address", "user_agent.original", "http.request.method_original"}

// Redact replaces every text of the request in the span of the context, which is the HTTP server's. It is for a request that shows a
// credential in one of them.
func Redact(ctx context.Context) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	for _, key := range shown {
		span.SetAttributes(key.String(redacted))
	}
}

// ID returns the id of the trace to which a request belongs; empty: it is not recorded.
func ID(ctx context.Context) string {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return ""
	}
	return span.SpanContext().TraceID().String()
}
