package caddymodule

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// The counters belong to the process: they go on when a configuration is loaded. No label comes from a client.
var (
	tokensIssued = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_tokens_issued_total",
		Help: "Access tokens that were handed out, by the grant that they were given for.",
	}, []string{"grant"})
	refusals = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_refusals_total",
		Help: "Requests that an endpoint of the issuer refused, by the code of the error.",
	}, []string{"endpoint", "error"})
	refreshReuse = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "gatehouse_refresh_reuse_total",
		Help: "Refresh tokens that were used twice, whose families were ended: a sign of theft.",
	})
	repeatsElsewhere = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_refresh_repeats_elsewhere_total",
		Help: "Refresh tokens that were repeated within the grace from another address or user agent than they were used from, by the result: served, or refused.",
	}, []string{"result"})
	codeReplays = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "gatehouse_code_replays_total",
		Help: "Authorization codes that were redeemed twice, whose families were ended: a sign of theft.",
	})
	gateDecisions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_gate_decisions_total",
		Help: "Requests that the gate decided about, by the result.",
	}, []string{"result"})
	storeErrors = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "gatehouse_store_errors_total",
		Help: "Questions and steps that failed in the store.",
	})
)

// What floods of bad tokens meet.
var (
	refusalsHeld = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "gatehouse_gate_held_refusals_total",
		Help: "Refusals of the gate that were held back, because their address had shown too many bad tokens.",
	})
	refusalsClosed = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "gatehouse_gate_closed_connections_total",
		Help: "Connections that the gate closed with a refusal, for the same reason.",
	})
	laneWaits = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_gate_signature_waits_total",
		Help: "Signatures that had to wait for others before they were verified, by how that ended: verified, or given up.",
	}, []string{"result"})
	laneVerified = laneWaits.WithLabelValues("verified")
	laneGivenUp  = laneWaits.WithLabelValues("given_up")
)

// What the gate decides. The counters are looked up once, because every request adds to one of them.
var (
	gatePassed      = gateDecisions.WithLabelValues("passed")
	gateAnonymous   = gateDecisions.WithLabelValues("anonymous")
	gateInvalid     = gateDecisions.WithLabelValues("invalid_request")
	gateUnknown     = gateDecisions.WithLabelValues("unauthenticated")
	gateForbidden   = gateDecisions.WithLabelValues("forbidden")
	gateUnavailable = gateDecisions.WithLabelValues("unavailable")
)

// byOperator stands for a grant: an operator has minted the token.
const byOperator = "operator"

// registerMetrics offers the metrics in a configuration's registry.
func registerMetrics(registry prometheus.Registerer) error {
	for _, c := range []prometheus.Collector{
		tokensIssued, refusals, refreshReuse, repeatsElsewhere, codeReplays, gateDecisions, storeErrors, refusalsHeld, refusalsClosed, laneWaits,
		stateCollector{},
	} {
		if err := registry.Register(c); err != nil {
			var again prometheus.AlreadyRegisteredError
			if !errors.As(err, &again) {
				return err
			}
		}
	}
	return nil
}

// countPassed counts a request that the gate let pass; without a token it is anonymous.
func countPassed(token *accesstoken.AccessToken) {
	if token == nil {
		gateAnonymous.Inc()
		return
	}
	gatePassed.Inc()
}

// countRefused counts a request that the gate refused.
func countRefused(refusal error) {
	switch status := endpoint.StatusOf(refusal); {
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

// tally is the endpoints' Tally.
type tally struct{}

// serverTokensIssued is looked up once: no other tokens are asked for as often.
var serverTokensIssued = tokensIssued.WithLabelValues(string(oauth.ClientCredentials))

// Issued counts tokens.
func (tally) Issued(by oauth.GrantType) {
	if by == oauth.ClientCredentials {
		serverTokensIssued.Inc()
		return
	}
	tokensIssued.WithLabelValues(string(by)).Inc()
}

// RepeatedElsewhere counts a refresh token that was served again to somebody else, perhaps.
func (tally) RepeatedElsewhere() { repeatsElsewhere.WithLabelValues("served").Inc() }

// Refused counts a refusal, and those that are alarms once more.
func (tally) Refused(endpoint string, err *oauth.Error) {
	refusals.WithLabelValues(endpoint, string(err.Code)).Inc()
	switch err.Reason {
	case oauth.ReasonRepeatedElsewhere:
		repeatsElsewhere.WithLabelValues("refused").Inc()
		refreshReuse.Inc()
	case oauth.ReasonRefreshReused:
		refreshReuse.Inc()
	case oauth.ReasonCodeReplayed:
		codeReplays.Inc()
	}
}

// Interface guard.
var _ endpoint.Tally = tally{}
