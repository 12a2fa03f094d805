package caddymodule

import (
	"errors"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate"
	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// The counters belong to the process and survive reloads. No label comes from a client.
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
)

// byOperator is the grant label of tokens that an operator has minted.
const byOperator = "operator"

// registerMetrics offers the metrics in a configuration's registry.
func registerMetrics(registry prometheus.Registerer) error {
	own := []prometheus.Collector{tokensIssued, refusals, refreshReuse, repeatsElsewhere, codeReplays, logoutDeliveries, mailsSent}
	for _, c := range slices.Concat(own, admin.Metrics(), gate.Metrics(), node.Metrics()) {
		if err := registry.Register(c); err != nil {
			var again prometheus.AlreadyRegisteredError
			if !errors.As(err, &again) {
				return err
			}
		}
	}
	return nil
}

// counters is the endpoints' Counters.
type counters struct{}

// serverTokensIssued is looked up once: it is the most frequent label.
var serverTokensIssued = tokensIssued.WithLabelValues(string(oauth.ClientCredentials))

// Issued counts tokens.
func (counters) Issued(by oauth.GrantType) {
	if by == oauth.ClientCredentials {
		serverTokensIssued.Inc()
		return
	}
	tokensIssued.WithLabelValues(string(by)).Inc()
}

// RepeatedElsewhere counts a refresh token that was repeated from another address or user agent and served.
func (counters) RepeatedElsewhere() { repeatsElsewhere.WithLabelValues("served").Inc() }

// Refused counts a refusal, and signs of theft in a counter of their own too.
func (counters) Refused(endpoint string, err *oauth.Error) {
	refusals.WithLabelValues(endpoint, string(err.Code)).Inc()
	switch {
	case errors.Is(err, oauth.ErrRepeatedElsewhere):
		repeatsElsewhere.WithLabelValues("refused").Inc()
		refreshReuse.Inc()
	case errors.Is(err, oauth.ErrRefreshReused):
		refreshReuse.Inc()
	case errors.Is(err, oauth.ErrCodeReplayed):
		codeReplays.Inc()
	}
}

// Interface guard.
var _ endpoint.Counters = counters{}
