package node

import (
	"math"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// collector collects a node's gauges.
type collector struct{ *Node }

func (collector) Describe(descriptions chan<- *prometheus.Desc) { Describe(descriptions) }

func (c collector) Collect(metrics chan<- prometheus.Metric) { Collect(c.Node, metrics) }

// TestStalenessWithoutAnEnd: a node that has never read revocations reports that, and not that they are old.
func TestStalenessWithoutAnEnd(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{prepared(t, inMemory)})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "gatehouse_revocation_staleness_seconds" {
			continue
		}
		if s := f.GetMetric()[0].GetGauge().GetValue(); !math.IsInf(s, 1) {
			t.Errorf("never is %v s", s)
		}
		return
	}
	t.Error("there is no such metric")
}
