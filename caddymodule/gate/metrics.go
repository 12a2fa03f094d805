package gate

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
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

// Looked up once, because every request increments one of them.
var (
	gatePassed      = gateDecisions.WithLabelValues("passed")
	gateAnonymous   = gateDecisions.WithLabelValues("anonymous")
	gateInvalid     = gateDecisions.WithLabelValues("invalid_request")
	gateUnknown     = gateDecisions.WithLabelValues("unauthenticated")
	gateForbidden   = gateDecisions.WithLabelValues("forbidden")
	gateUnavailable = gateDecisions.WithLabelValues("unavailable")
)

// countPassed counts a request that the gate let pass; without a token it is anonymous.
func countPassed(tok *token.AccessToken) {
	if tok == nil {
		gateAnonymous.Inc()
		return
	}
	gatePassed.Inc()
}

func countRefused(refusal error) {
	switch status := answers.StatusOf(refusal); {
	case status >= 500:
		gateUnavailable.Inc()
	case status == 401:
		gateUnknown.Inc()
	case status == 403:
		gateForbidden.Inc()
	default:
		gateInvalid.Inc()
	}
}
