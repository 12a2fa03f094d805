package caddymodule

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// stateCollector tells how the configuration that runs now stands. It asks when somebody scrapes, and waits for the store for as
// long as readiness does.
type stateCollector struct{}

func gauge(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("gatehouse_"+name, help, labels, nil)
}

var (
	readyDesc       = gauge("ready", "Whether this node can serve: 1 or 0.")
	storeUpDesc     = gauge("store_up", "Whether the store answers and takes writes: 1 or 0.")
	revocationsDesc = gauge("revocations", "Revocations that are held in memory.")
	stalenessDesc   = gauge("revocation_staleness_seconds", "How long ago the revocations in memory were known to be complete; +Inf: never.")
	verifiedDesc    = gauge("verified_tokens", "Access tokens whose verification is remembered.")
	streamsDesc     = gauge("open_streams", "Streams that end with their token.")
	heldDesc        = gauge("gate_held_refusals", "Refusals of the gate that are held back now.")
	keysDesc        = gauge("keys", "Signing keys, by what they do.", "state")
	skewDesc        = gauge("clock_skew_seconds", "How far the store's clock is ahead of this node's.")
	keeperDesc      = gauge("housekeeper", "Whether this node drops what has expired from the store: 1 or 0.")
	trustDesc       = gauge("trusted_issuer_up", "Whether tokens of a trusted issuer can be judged, and it answered the last question about one: 1 or 0.", "trust")
	rowsDesc        = gauge("stored_rows", "Records in the store, told by the node that is the housekeeper. Large numbers are estimates.", "table")
)

// Describe lists the metrics.
func (stateCollector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		readyDesc, storeUpDesc, revocationsDesc, stalenessDesc, verifiedDesc, streamsDesc, heldDesc, keysDesc, skewDesc, keeperDesc, rowsDesc, trustDesc,
	} {
		descriptions <- d
	}
}

// Collect tells their values, and nothing while none runs.
func (stateCollector) Collect(metrics chan<- prometheus.Metric) {
	t := newestTarget()
	if t == nil {
		return
	}
	send := func(d *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	send(readyDesc, oneIf(len(t.Unreadiness()) == 0))
	send(streamsDesc, float64(t.OpenStreams()))
	send(heldDesc, float64(t.Flood.Held()))
	for _, other := range t.Trusted {
		send(trustDesc, oneIf(other.Issuer.Trouble() == nil), other.Name)
	}
	if t.Node != nil {
		t.Node.collect(send)
	}
}

// collect tells how the issuer's own state is.
func (e *engine) collect(send func(*prometheus.Desc, float64, ...string)) {
	send(storeUpDesc, oneIf(e.askStore() == nil))
	send(revocationsDesc, float64(e.revocations.Len()))
	send(stalenessDesc, seconds(e.revocations.Age(e.now())))
	send(verifiedDesc, float64(e.verifier.Remembered()))
	for state, n := range e.keyStates() {
		send(keysDesc, float64(n), string(state))
	}
	send(skewDesc, e.time.skew().Seconds())
	leads, stored := e.lease.report()
	send(keeperDesc, oneIf(leads))
	for table, rows := range stored {
		send(rowsDesc, float64(rows), table)
	}
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// seconds is a time in seconds, and without an end for ever.
func seconds(d time.Duration) float64 {
	if d == math.MaxInt64 {
		return math.Inf(1)
	}
	return d.Seconds()
}
