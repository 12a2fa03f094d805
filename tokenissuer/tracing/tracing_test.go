package tracing

import (
	"context"
	"errors"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// traced returns a context with a span that is recorded, and what is recorded below it.
func traced(t *testing.T) (context.Context, *tracetest.SpanRecorder) {
	recorder := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder))
	ctx, span := provider.Tracer("test").Start(t.Context(), "request")
	t.Cleanup(func() { span.End() })
	return ctx, recorder
}

// TestOT5WithoutATraceNothingIsAllocated: no span in the context, one that is not sampled, or one that has ended → no span, no allocation,
// the same context.
func TestOT5WithoutATraceNothingIsAllocated(t *testing.T) {
	unsampled, _ := sdk.NewTracerProvider(sdk.WithSampler(sdk.NeverSample())).Tracer("test").Start(t.Context(), "request")
	ended, over := sdk.NewTracerProvider().Tracer("test").Start(t.Context(), "request")
	over.End()
	refused := oauth.NewError(oauth.InvalidGrant, "code_replayed")
	for name, ctx := range map[string]context.Context{"none": t.Context(), "not sampled": unsampled, "ended": ended} {
		got, id := ctx, "unset"
		if n := testing.AllocsPerRun(100, func() {
			var span Span
			got, span = StartCall(ctx, "store", "redeeming code")
			span.Rename("store query families")
			span.Set(ClientID, "conf")
			span.SetStatus(200)
			Redact(got)
			id = ID(got)
			span.End(refused)
		}); n != 0 || got != ctx || id != "" {
			t.Errorf("%s: %v allocations, another context: %t, trace %q", name, n, got != ctx, id)
		}
	}
}

// TestOT6AnErrorIsACodeAndAReason: an error whose text quotes a token → code and reason alone; the span has failed for a fault of ours, and
// not for a refusal.
func TestOT6AnErrorIsACodeAndAReason(t *testing.T) {
	quoting := errors.New(`Get "https://idp.example/?code=secret": refused`)
	for _, c := range []struct {
		name             string
		err              error
		code, reason     string
		failed           codes.Code
		statusOfTheError string
	}{
		{"none", nil, "", "", codes.Unset, ""},
		{"a refusal", oauth.NewError(oauth.InvalidGrant, "code_replayed").WithCause(quoting), "invalid_grant", "code_replayed", codes.Unset, ""},
		{"a fault", oauth.Unavailable("store_unavailable", quoting), "temporarily_unavailable", "store_unavailable", codes.Error, "store_unavailable"},
		{"of another kind", quoting, "_OTHER", "", codes.Error, ""},
	} {
		ctx, recorder := traced(t)
		_, span := Start(ctx, "gate", "")
		span.End(c.err)
		got := recorder.Ended()[0]
		attributes := map[Key]string{}
		for _, a := range got.Attributes() {
			attributes[Key(a.Key)] = a.Value.AsString()
		}
		if got.Status() != (sdk.Status{Code: c.failed, Description: c.statusOfTheError}) || attributes[ErrorType] != c.code || attributes[Reason] != c.reason || len(got.Events()) > 0 {
			t.Errorf("%s: status %v, attributes %v, events %v", c.name, got.Status(), attributes, got.Events())
		}
	}
}
