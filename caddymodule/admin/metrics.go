package admin

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
)

// Metrics returns the gauges of the configuration that runs.
func Metrics() []prometheus.Collector { return []prometheus.Collector{gauges{}} }

// gauges are read at each scrape. They wait for the store for as long as readiness does.
type gauges struct{}

func gauge(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("gatehouse_"+name, help, labels, nil)
}

var (
	readyDesc    = gauge("ready", "Whether this node can serve: 1 or 0.")
	streamsDesc  = gauge("open_streams", "Streams that end with their token.")
	trustDesc    = gauge("trusted_issuer_up", "Whether tokens of a trusted issuer can be judged, and it answered the last question about one: 1 or 0.", "trust")
	providerDesc = gauge("provider_up", "Whether an identity provider works, as far as is known: 1 or 0.", "provider")
)

// Describe lists the metrics.
func (gauges) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{readyDesc, streamsDesc, trustDesc, providerDesc} {
		descriptions <- d
	}
	node.Describe(descriptions)
}

// Collect sends the values, or none while no configuration runs.
func (gauges) Collect(metrics chan<- prometheus.Metric) {
	t := newest()
	if t == nil {
		return
	}
	send := func(d *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	send(readyDesc, oneIf(len(t.Unreadiness()) == 0))
	send(streamsDesc, float64(t.OpenStreams()))
	for _, other := range t.Trusted {
		send(trustDesc, oneIf(other.Issuer.Trouble() == nil), other.Name)
	}
	for _, p := range t.Providers {
		send(providerDesc, oneIf(p.trouble() == ""), p.Name)
	}
	if t.OwnIssuer != nil {
		node.Collect(t.Node, metrics)
	}
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
