package caddymodule

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

// vouchedCollector tells of the signatures that need not be verified, of the app that runs now. Its counters begin anew with
// the engine.
type vouchedCollector struct{}

func vouchedDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("gatehouse_"+name, help, nil, nil)
}

var (
	vouchedTokensDesc  = vouchedDesc("vouched_tokens", "Access tokens whose signature need not be verified, because this node or a sibling has made it.")
	vouchedBytesDesc   = vouchedDesc("vouched_tokens_bytes", "Memory for them.")
	vouchedSparedDesc  = vouchedDesc("signatures_spared_total", "Access tokens that were judged without verifying their signature, because it was vouched for.")
	vouchedHeardDesc   = vouchedDesc("vouched_tokens_heard_total", "Access tokens that other nodes have vouched for.")
	vouchedDroppedDesc = vouchedDesc("vouched_tokens_dropped_total", "Access tokens of which other nodes were not told, because the store was slow or away.")
	vouchersBadDesc    = vouchedDesc("vouchers_refused_total", "Vouchers in the store that were forged, repeated or too old: anything but 0 is an alarm.")
)

// Describe lists the metrics.
func (vouchedCollector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		vouchedTokensDesc, vouchedBytesDesc, vouchedSparedDesc, vouchedHeardDesc, vouchedDroppedDesc, vouchersBadDesc,
	} {
		descriptions <- d
	}
}

// Collect tells their values, and nothing while no issuer runs.
func (vouchedCollector) Collect(metrics chan<- prometheus.Metric) {
	app := covering.newest()
	if app == nil || !app.issues() {
		return
	}
	send := func(d *prometheus.Desc, kind prometheus.ValueType, value int64) {
		metrics <- prometheus.MustNewConstMetric(d, kind, float64(value))
	}
	tokens := app.engine.vouched.Status()
	send(vouchedTokensDesc, prometheus.GaugeValue, int64(tokens.Held))
	send(vouchedBytesDesc, prometheus.GaugeValue, int64(tokens.Bytes))
	send(vouchedSparedDesc, prometheus.CounterValue, tokens.Spared)
	send(vouchedDroppedDesc, prometheus.CounterValue, tokens.Dropped)
	var siblings tokenissuer.SiblingStatus
	if s := app.engine.vouchers.siblings.Load(); s != nil {
		siblings = s.Status()
	}
	send(vouchedHeardDesc, prometheus.CounterValue, siblings.Heard)
	send(vouchersBadDesc, prometheus.CounterValue, siblings.Refused)
}
