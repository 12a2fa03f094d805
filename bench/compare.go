package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/bench/internal/load"
	"github.com/gatehouse-auth/gatehouse/bench/internal/proc"
	"github.com/gatehouse-auth/gatehouse/bench/internal/report"
	"github.com/gatehouse-auth/gatehouse/bench/internal/stats"
)

// side is one of the things compared. It is compared with the first side whose name is against.
type side struct {
	name    string
	against string
	on      *server
	load    load.Load
	// prepare returns the load of a round of count requests, for requests that can be sent only once. Its own work is
	// not measured.
	prepare func(count int) load.Load
	// conns and requests override the run's numbers; 0: the run's.
	conns, requests int
}

// again returns the same side a second time. The difference between the two shows how far a comparison can be
// trusted.
func (s side) again() side {
	s.name, s.against = s.name+" again (control)", s.name
	return s
}

// cost is the cost of a round of requests.
type cost struct {
	cpu      float64 // server's processor time per request, microseconds
	own      float64 // load's processor time per request, microseconds
	rate     float64 // requests per second
	p50, p99 float64 // milliseconds
	mallocs  float64 // server's allocations per request
	bytes    float64
}

func cpuOf(c cost) float64     { return c.cpu }
func ownOf(c cost) float64     { return c.own }
func rateOf(c cost) float64    { return c.rate }
func p50Of(c cost) float64     { return c.p50 }
func p99Of(c cost) float64     { return c.p99 }
func mallocsOf(c cost) float64 { return c.mallocs }
func bytesOf(c cost) float64   { return c.bytes }

// outcome holds the costs of a side, round by round.
type outcome struct {
	side
	costs []cost
}

func (o *outcome) rate() float64 { return o.middle(rateOf) }

// middle returns the median of a part over the rounds.
func (o *outcome) middle(part func(cost) float64) float64 { return stats.MedianOf(o.costs, part) }

// outcomes are the outcomes of one comparison.
type outcomes []*outcome

func (o outcomes) named(name string) *outcome {
	i := slices.IndexFunc(o, func(one *outcome) bool { return one.name == name })
	if i < 0 {
		return nil
	}
	return o[i]
}

// ratio returns the ratio of a part of the named side to that of the side it is compared with.
func (o outcomes) ratio(name string, part func(cost) float64) float64 {
	one := o.named(name)
	return stats.RatioOf(one.costs, o.named(one.against).costs, part)
}

// compare measures the sides in turns and writes a table. Each round reverses the order of the one before and starts
// with another side, so no side always runs after a pause or after the same other side.
func (b *bench) compare(sides ...side) outcomes {
	outs := make(outcomes, len(sides))
	for i, s := range sides {
		outs[i] = &outcome{side: s}
		b.measure(s, max(1, cmp.Or(s.requests, b.requests)/2)) // warm-up
	}
	for round := range b.rounds {
		for step := range outs {
			i := (step + round/2) % len(outs)
			if round%2 == 1 {
				i = len(outs) - 1 - i
			}
			outs[i].costs = append(outs[i].costs, b.measure(outs[i].side, cmp.Or(outs[i].requests, b.requests)))
		}
	}
	b.tabulate(outs)
	b.profile(sides)
	return outs
}

// measure sends one round of a side's load.
func (b *bench) measure(s side, count int) (c cost) {
	named(s.name, func() {
		if s.prepare != nil {
			s.load = s.prepare(count)
		}
		before := must(s.on.heap(b.ctx))
		// Reading the heap costs processor time too, so the clocks are read between the two readings.
		cpu, own := clocks(s.on)
		result := must(s.load.Send(b.ctx, cmp.Or(s.conns, b.conns), count))
		cpuAfter, ownAfter := clocks(s.on)
		after := must(s.on.heap(b.ctx))
		each := float64(count)
		c = cost{
			cpu: microseconds(cpuAfter-cpu) / each, own: microseconds(ownAfter-own) / each, rate: result.Rate(),
			p50: milliseconds(result.Latency.Quantile(0.5)), p99: milliseconds(result.Latency.Quantile(0.99)),
			mallocs: float64(after.Mallocs-before.Mallocs) / each, bytes: float64(after.TotalAlloc-before.TotalAlloc) / each,
		}
	})
	return c
}

// clocks returns the processor time of a server and of this process.
func clocks(s *server) (cpu, own time.Duration) {
	own = must(proc.SelfCPU())
	return must(s.CPU()), own
}

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// tabulate writes a comparison.
func (b *bench) tabulate(outs outcomes) {
	t := b.report.Table("", "CPU µs/request", "requests/s", "p50 ms", "p99 ms", "allocations", "bytes", "RSS MiB", "CPU ratio", "rate ratio", "p99 ratio", "against")
	for _, o := range outs {
		row := []report.Cell{
			median(o.costs, cpuOf, 1), median(o.costs, rateOf, 0), median(o.costs, p50Of, 2), median(o.costs, p99Of, 2),
			median(o.costs, mallocsOf, 1), median(o.costs, bytesOf, 0), mebibytes(must(o.on.Resident())),
		}
		if o.on.Admin == "" { // allocations are not counted
			row[4], row[5] = report.Cell{}, report.Cell{}
		}
		if o.against != "" {
			for _, part := range []func(cost) float64{cpuOf, rateOf, p99Of} {
				row = append(row, report.Number(outs.ratio(o.name, part), 3))
			}
			row = append(row, report.Text(o.against))
		}
		t.Row(o.name, row...)
	}
	b.noteLoad(outs)
}

// noteLoad reports the load's own processor time. Where it exceeds the server's, the load may be the limit.
func (b *bench) noteLoad(outs outcomes) {
	share := func(o *outcome) float64 {
		return 100 * stats.MedianOf(o.costs, func(c cost) float64 { return c.own / c.cpu })
	}
	most := slices.MaxFunc(outs, func(a, b *outcome) int { return cmp.Compare(share(a), share(b)) })
	var all []cost
	for _, o := range outs {
		all = append(all, o.costs...)
	}
	b.report.Note("The load took %.1f µs of processor time a request, and at most %.0f %% of what the server took (%s).",
		stats.MedianOf(all, ownOf), share(most), most.name)
}

func median(costs []cost, part func(cost) float64, decimals int) report.Cell {
	return report.Number(stats.MedianOf(costs, part), decimals)
}

func mebibytes(bytes int64) report.Cell { return report.Number(float64(bytes)/(1<<20), 1) }
