package main

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gatehouse-auth/gatehouse/bench/internal/load"
	"github.com/gatehouse-auth/gatehouse/bench/internal/report"
	"github.com/gatehouse-auth/gatehouse/bench/internal/stats"
)

// stormP99Goal is the highest ratio of the good requests' p99 latency with a flood to that without.
const stormP99Goal = 2.0

// storm is a flood together with good traffic.
type storm struct {
	bad badToken
	// site receives the bad tokens and the good ones.
	site string
	// good returns the good traffic of one run.
	good func(count int) load.Load
}

// storm sends good tokens to a gate, with and without as many connections that send bad ones from the same address.
// The queue for signatures treats all of them as one client.
func (b *bench) storm() {
	p := b.startProvider(0)
	ours := b.ours(trusting(p))
	b.report.Note("%d connections with good tokens, each of which waits for its answer, and beside them %d of a flood, from the same address.", b.conns, b.conns)
	table := b.report.Table("flood", "alone, per second", "beside it, per second", "kept", "p50 ratio", "p99 ratio", "answers to the flood, per second")
	for _, s := range b.storms(ours, p) {
		named(s.bad.name, func() { b.weather(s, table) })
	}
}

// storms are the floods that cost the most, for our own issuer and for another one.
func (b *bench) storms(ours *server, p *provider) []storm {
	own, external := b.badTokens(ours, p)
	known := func(site string, tokens []string) func(int) load.Load {
		return func(int) load.Load { return orders(site, tokens) }
	}
	warm := known(ours.Protected, b.obtain(ours, min(1000, b.tokens)))
	var storms []storm
	for _, bad := range own {
		if slices.Contains([]string{"malformed", "unknown kid", "expired", changedSignature}, bad.name) {
			storms = append(storms, storm{bad, ours.Protected, warm})
		}
	}
	warm = known(ours.ProtectedExternal, p.tokens("ES256", min(1000, b.tokens)))
	for _, bad := range external {
		storms = append(storms, storm{bad, ours.ProtectedExternal, warm})
	}
	last := external[len(external)-1]
	last.name += ", good tokens at first sight"
	return append(storms, storm{last, ours.ProtectedExternal, func(count int) load.Load {
		return orders(ours.ProtectedExternal, p.tokens("ES256", count))
	}})
}

// calmAndStorm is one round: the same traffic without and with the flood.
type calmAndStorm struct {
	calm, beside *load.Result
	answers      float64 // responses to the flood per second
}

// weather measures good traffic without and with one flood, in turns.
func (b *bench) weather(s storm, table *report.Table) {
	b.stormRound(s) // warm-up
	var rounds []calmAndStorm
	for range b.rounds {
		rounds = append(rounds, b.stormRound(s))
	}
	kept := stats.MedianOf(rounds, func(r calmAndStorm) float64 { return r.beside.Rate() / r.calm.Rate() })
	longer := func(quantile float64) float64 {
		return stats.MedianOf(rounds, func(r calmAndStorm) float64 {
			return float64(r.beside.Latency.Quantile(quantile)) / float64(r.calm.Latency.Quantile(quantile))
		})
	}
	table.Row(s.bad.name,
		report.Number(stats.MedianOf(rounds, func(r calmAndStorm) float64 { return r.calm.Rate() }), 0),
		report.Number(stats.MedianOf(rounds, func(r calmAndStorm) float64 { return r.beside.Rate() }), 0),
		report.Number(kept, 3), report.Number(longer(0.5), 2), report.Number(longer(0.99), 2),
		report.Number(stats.MedianOf(rounds, func(r calmAndStorm) float64 { return r.answers }), 0))
	b.atMost(s.bad.name+": p99 of good traffic beside the flood", stormP99Goal, longer(0.99), 2, "times that without")
}

// stormHead is how long a flood lasts before the good traffic is measured.
const stormHead = 200 * time.Millisecond

func (b *bench) stormRound(s storm) (round calmAndStorm) {
	send := func() *load.Result {
		good := s.good(b.requests)
		good.Status = http.StatusOK
		return must(good.Send(b.ctx, b.conns, b.requests))
	}
	round.calm = send()
	stop := b.inBackground(s.bad.requests(s.site), b.conns)
	defer stop()
	b.pause(stormHead)
	round.beside = send()
	answers := stop()
	round.answers = float64(answers.Count()) / answers.Elapsed.Seconds()
	return round
}

// inBackground sends a storm until stop is called. stop returns the storm's answers.
func (b *bench) inBackground(l load.Load, conns int) (stop func() *load.Answers) {
	ctx, cancel := context.WithCancel(b.ctx)
	var answers *load.Answers
	var sending sync.WaitGroup
	sending.Go(func() { answers = l.Storm(ctx, conns) })
	return func() *load.Answers { // a second call finds it stopped
		cancel()
		sending.Wait()
		return answers
	}
}
