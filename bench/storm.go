package main

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/bench/internal/load"
	"github.com/gatehouse-auth/gatehouse/bench/internal/report"
	"github.com/gatehouse-auth/gatehouse/bench/internal/stats"
)

const (
	// keptGoal is the part of its throughput that good traffic should keep beside a flood, and stormP99Goal how much longer the
	// slowest of its requests may take.
	keptGoal     = 0.80
	stormP99Goal = 2.0
)

// storms are the floods, and the good traffic beside each.
type storm struct {
	bad badToken
	// site takes the bad tokens and the good ones.
	site string
	// good prepares the good traffic of one run.
	good func(count int) (load.Load, error)
}

// storm shows good tokens to a gate with and without as many connections that show bad ones, from the same address: to the gate
// they are one client.
func (b *bench) storm() error {
	p, err := b.startProvider()
	if err != nil {
		return err
	}
	ours, err := b.ours(setup{external: p})
	if err != nil {
		return err
	}
	storms, err := b.storms(ours, p)
	if err != nil {
		return err
	}
	b.report.Note("%d connections with good tokens, each of which waits for its answer, and beside them %d of a flood, from the same address.", b.conns, b.conns)
	table := b.report.Table("flood", "alone, per second", "beside it, per second", "kept", "p50 ratio", "p99 ratio", "answers to the flood, per second")
	for _, s := range storms {
		if err := b.weather(s, table); err != nil {
			return fmt.Errorf("%s: %w", s.bad.name, err)
		}
	}
	return nil
}

// storms are what a flood costs the most with, for our own issuer and for another one.
func (b *bench) storms(ours *server, p *provider) ([]storm, error) {
	own, external, err := b.badTokens(ours, p)
	if err != nil {
		return nil, err
	}
	tokens, err := b.obtain(ours, min(1000, b.tokens))
	if err != nil {
		return nil, err
	}
	warm := func(int) (load.Load, error) { return orders(ours.Protected, tokens), nil }
	var storms []storm
	for _, bad := range own {
		if slices.Contains([]string{"malformed", "unknown kid", "expired", changedSignature}, bad.name) {
			storms = append(storms, storm{bad, ours.Protected, warm})
		}
	}
	theirs, err := p.tokens("ES256", min(1000, b.tokens))
	if err != nil {
		return nil, err
	}
	for _, bad := range external {
		storms = append(storms, storm{bad, ours.ProtectedExternal, func(int) (load.Load, error) {
			return orders(ours.ProtectedExternal, theirs), nil
		}})
	}
	last := external[len(external)-1]
	last.name += ", good tokens at first sight"
	return append(storms, storm{last, ours.ProtectedExternal, func(count int) (load.Load, error) {
		fresh, err := p.tokens("ES256", count)
		return orders(ours.ProtectedExternal, fresh), err
	}}), nil
}

// calmAndStorm is one round: the same traffic without and with the flood.
type calmAndStorm struct {
	calm, beside *load.Result
	answers      float64 // to the flood, per second
}

// weather measures good traffic by turns without and with one flood.
func (b *bench) weather(s storm, table *report.Table) error {
	var rounds []calmAndStorm
	for range b.rounds + 1 { // the first one warms
		one, err := b.stormRound(s)
		if err != nil {
			return err
		}
		rounds = append(rounds, one)
	}
	rounds = rounds[1:]
	kept := stats.MedianOf(rounds, func(r calmAndStorm) float64 { return r.beside.Rate() / r.calm.Rate() })
	longer := func(quantile float64) float64 {
		return stats.MedianOf(rounds, func(r calmAndStorm) float64 {
			return float64(r.beside.Latency.Quantile(quantile)) / float64(r.calm.Latency.Quantile(quantile))
		})
	}
	p99 := longer(0.99)
	table.Row(s.bad.name,
		report.Number(stats.MedianOf(rounds, func(r calmAndStorm) float64 { return r.calm.Rate() }), 0),
		report.Number(stats.MedianOf(rounds, func(r calmAndStorm) float64 { return r.beside.Rate() }), 0),
		report.Number(kept, 3), report.Number(longer(0.5), 2), report.Number(p99, 2),
		report.Number(stats.MedianOf(rounds, func(r calmAndStorm) float64 { return r.answers }), 0))
	b.atLeast(s.bad.name+": throughput of good traffic beside the flood", keptGoal, kept, 3, "of that without")
	b.atMost(s.bad.name+": p99 of good traffic beside the flood", stormP99Goal, p99, 2, "times that without")
	return nil
}

// stormHead is how long a flood rages before the good traffic is measured beside it: it finds a gate that nobody else uses.
const stormHead = 200 * time.Millisecond

func (b *bench) stormRound(s storm) (calmAndStorm, error) {
	var round calmAndStorm
	send := func() (*load.Result, error) {
		good, err := s.good(b.requests)
		if err != nil {
			return nil, err
		}
		good.Status = http.StatusOK
		return good.Send(b.ctx, b.conns, b.requests)
	}
	var err error
	if round.calm, err = send(); err != nil {
		return round, err
	}
	if err = pause(b.ctx, calm); err != nil { // of the last flood nothing is left
		return round, err
	}
	answers := new(load.Answers)
	stop := b.inBackground(s.bad.requests(s.site), b.conns, answers)
	if err = pause(b.ctx, stormHead); err == nil {
		round.beside, err = send()
	}
	stop()
	if err == nil {
		round.answers = float64(answers.Count()) / answers.Elapsed.Seconds()
	}
	return round, err
}
