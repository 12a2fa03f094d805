package node

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gatehouse-auth/gatehouse/caddymodule/auditlog"
)

// storeErrors belongs to the process and survives reloads.
var storeErrors = prometheus.NewCounter(prometheus.CounterOpts{
	Name: "gatehouse_store_errors_total",
	Help: "Questions and steps that failed in the store.",
})

func gauge(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("gatehouse_"+name, help, labels, nil)
}

var (
	storeUpDesc     = gauge("store_up", "Whether the store answers and takes writes: 1 or 0.")
	revocationsDesc = gauge("revocations", "Revocations that are held in memory.")
	stalenessDesc   = gauge("revocation_staleness_seconds", "How long ago the revocations in memory were known to be complete; +Inf: never.")
	verifiedDesc    = gauge("verified_tokens", "Access tokens whose verification is remembered.")
	keysDesc        = gauge("keys", "Signing keys, by what they do.", "state")
	signingDesc     = gauge("signing_keys", "Whether a key signs with the algorithm: 1 or 0.", "algorithm")
	skewDesc        = gauge("clock_skew_seconds", "How far the store's clock is ahead of this node's.")
	keeperDesc      = gauge("housekeeper", "Whether this node drops what has expired from the store: 1 or 0.")
	rowsDesc        = gauge("stored_rows", "Records in the store, told by the node that is the housekeeper. Large numbers are estimates.", "table")
)

// Metrics returns the metrics of the process, which belong to no node.
func Metrics() []prometheus.Collector { return append(auditlog.Metrics(), storeErrors) }

// Describe lists the gauges of a node.
func Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{storeUpDesc, revocationsDesc, stalenessDesc, verifiedDesc, keysDesc, signingDesc, skewDesc, keeperDesc, rowsDesc} {
		descriptions <- d
	}
}

// Collect sends the gauges of a node. It waits for the store for as long as readiness does.
func Collect(n *Node, metrics chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	s := n.Status()
	send(storeUpDesc, oneIf(n.health.ask(n.Store(), n.clock.now) == nil))
	send(revocationsDesc, float64(s.Revocations))
	if s.Staleness < 0 {
		send(stalenessDesc, math.Inf(1))
	} else {
		send(stalenessDesc, s.Staleness.Seconds())
	}
	send(verifiedDesc, float64(s.Verified))
	for state, keys := range s.Keys {
		send(keysDesc, float64(keys), string(state))
	}
	for algorithm, kid := range s.Signing {
		send(signingDesc, oneIf(kid != ""), string(algorithm))
	}
	send(skewDesc, s.ClockSkew.Seconds())
	send(keeperDesc, oneIf(s.Housekeeper))
	for table, rows := range s.Rows {
		send(rowsDesc, float64(rows), table)
	}
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
