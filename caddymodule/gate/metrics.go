package gate

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/tracing"
)

// Metrics returns the collectors of all gates. The counters survive a reload. No label value comes from a client.
func Metrics() []prometheus.Collector {
	return []prometheus.Collector{gateDecisions, verificationsBusy}
}

var gateDecisions = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "gatehouse_gate_decisions_total",
	Help: "Requests that the gate decided about, by the result.",
}, []string{"result"})

var verificationsBusy = prometheus.NewCounter(prometheus.CounterOpts{
	Name: "gatehouse_gate_busy_verifications_total",
	Help: "Tokens that were not verified, because too many others waited for that or for too long.",
})

// result is what the gate has decided. Its counter is looked up once, because every request increments one.
type result struct {
	name    string
	counter prometheus.Counter
}

var (
	gatePassed      = newResult("passed")
	gateAnonymous   = newResult("anonymous")
	gateInvalid     = newResult("invalid_request")
	gateUnknown     = newResult("unauthenticated")
	gateForbidden   = newResult("forbidden")
	gateUnavailable = newResult("unavailable")
)

func newResult(name string) result { return result{name, gateDecisions.WithLabelValues(name)} }

// resultOf returns the result for a token and an error of decide; nil: the request passes, without a token anonymously.
func resultOf(tok *token.AccessToken, err error) result {
	if err == nil && tok != nil {
		return gatePassed
	}
	if err == nil {
		return gateAnonymous
	}
	switch status := answers.StatusOf(err); {
	case status >= 500:
		return gateUnavailable
	case status == 401:
		return gateUnknown
	case status == 403:
		return gateForbidden
	default:
		return gateInvalid
	}
}

// describe ends the span of a decision. It names the caller of a verified token only, because another may be forged.
func (t *tokens) describe(span tracing.Span, d *decision, err error) {
	span.Set(tracing.Result, resultOf(d.token, err).name)
	if d.verified && d.token != nil {
		span.Set(tracing.ClientID, d.token.ClientID)
		span.Set(tracing.KeyID, d.token.KeyID)
		span.Set(tracing.Trust, t.nameOf(d.token))
	}
	span.End(err)
}
