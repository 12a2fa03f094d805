package main

import (
	"fmt"

	"github.com/gatehouse-auth/gatehouse/bench/internal/load"
	"github.com/gatehouse-auth/gatehouse/bench/internal/stats"
)

// proxy compares a Caddy without Gatehouse, one that sends the upstream the headers of protect by `request_header`, a
// bare reverse_proxy in a Caddy with Gatehouse, and one behind protect. All receive the same tokens, which have been
// used before.
func (b *bench) proxy() {
	bare, another, ours := b.bareCaddy(0), b.bareCaddy(0), b.ours(setup{})
	tokens := b.obtain(ours, b.tokens)
	name := func(what string, count int) string { return fmt.Sprintf("%s, tokens in turn: %d", what, count) }
	base := name("bare Caddy", 1)
	sides := []side{
		{name: base, on: bare, load: orders(bare.Bare, tokens[:1])},
		{name: "another bare Caddy (control)", against: base, on: another, load: orders(another.Bare, tokens[:1])},
		{name: "ours, without protect", against: base, on: ours, load: orders(ours.Bare, tokens[:1])},
		{name: "protect, forward off", against: base, on: ours, load: orders(ours.Silent, tokens[:1])},
	}
	counts := []int{1, min(1000, len(tokens)), len(tokens)}
	for _, count := range counts {
		if count > 1 {
			sides = append(sides, side{name: name("bare Caddy", count), on: bare, load: orders(bare.Bare, tokens[:count])})
		}
		told := side{name: name("bare Caddy, same headers", count), against: name("bare Caddy", count), on: bare, load: orders(bare.Told, tokens[:count])}
		protected := side{name: name("protect", count), against: told.name, on: ours, load: orders(ours.Protected, tokens[:count])}
		sides = append(sides, told, protected)
	}
	outs := b.compare(sides...)
	for _, count := range counts {
		goal := fmt.Sprintf("warm tokens, ES256, %d in turn: ", count)
		protected, told, alone := outs.named(name("protect", count)), outs.named(name("bare Caddy, same headers", count)), outs.named(name("bare Caddy", count))
		b.atMost(goal+"CPU per request", 1.05, stats.RatioOf(protected.costs, told.costs, cpuOf), 3, "of bare with the same headers")
		b.atMost(goal+"CPU per request", 1.12, stats.RatioOf(protected.costs, alone.costs, cpuOf), 3, "of bare")
		b.atMost(goal+"allocations", 6, protected.middle(mallocsOf)-told.middle(mallocsOf), 1, "more than bare with the same headers")
		b.atMost(goal+"bytes", 1024, protected.middle(bytesOf)-told.middle(bytesOf), 0, "more than bare with the same headers")
		b.atMost(goal+"p99", 1.05, stats.RatioOf(protected.costs, told.costs, p99Of), 3, "of bare with the same headers")
	}
}

// collectorHeadroom measures both sides with Go's default GOGC and with four times as much.
func (b *bench) collectorHeadroom() {
	var sides []side
	for _, gogc := range []int{100, 400} {
		bare, ours := b.bareCaddy(gogc), b.ours(setup{gogc: gogc})
		tokens := b.obtain(ours, min(1000, b.tokens))
		base, first := fmt.Sprintf("bare Caddy, GOGC=%d", gogc), ""
		if gogc != 100 {
			first = "bare Caddy, GOGC=100"
		}
		sides = append(sides,
			side{name: base, against: first, on: bare, load: orders(bare.Bare, tokens)},
			side{name: fmt.Sprintf("protect, GOGC=%d", gogc), against: base, on: ours, load: orders(ours.Protected, tokens)},
			side{name: fmt.Sprintf("client_credentials, GOGC=%d", gogc), on: ours, load: clientCredentials(ours.Issuer)})
	}
	b.compare(sides...)
}

// firstSight sends each token to a gate once: at the node that issued it, and at another node on the same PostgreSQL
// database.
func (b *bench) firstSight() {
	bare, alone := b.bareCaddy(0), b.ours(setup{})
	shared := b.onPostgres()
	one := b.ours(shared)
	shared.issuer = "http://" + one.Issuer
	other := b.ours(shared)
	fresh := func(from *server, at string) func(int) load.Load {
		return func(count int) load.Load { return orders(at, b.obtain(from, count)) }
	}
	requests := max(200, b.requests/2)
	base := side{name: "bare Caddy", on: bare, requests: requests, prepare: fresh(alone, bare.Bare)}
	outs := b.compare(base, base.again(),
		side{name: "issued here", against: base.name, on: alone, requests: requests, prepare: fresh(alone, alone.Protected)},
		side{name: "issued by the other node", against: base.name, on: other, requests: requests, prepare: fresh(one, other.Protected)})
	b.atMost("own tokens at first sight, same node: CPU per request", 1.05, outs.ratio("issued here", cpuOf), 3, "of bare")
}

// onPostgres returns the setup of a server on an empty database.
func (b *bench) onPostgres() setup {
	return setup{store: "postgres " + must(must(b.database()).Database())}
}

// externalGoals are the fractions of a bare Caddy's throughput to reach when every token is new, and the fractions of
// the rate of `respond 401` to reach when every token is forged (0: none).
var externalGoals = []struct {
	algorithm     string
	first, forged float64
}{{"RS256", 0.75, 0.5}, {"EdDSA", 0.60, 0}, {"ES256", 0.60, 0.33}}

// external sends tokens of another issuer: some once, others repeatedly.
func (b *bench) external() {
	p := b.startProvider(0)
	ours, bare := b.ours(trusting(p)), b.bareCaddy(0)
	var sides []side
	for _, goal := range externalGoals {
		requests := max(100, b.requests/2)
		if goal.algorithm == "RS256" {
			requests = max(100, b.requests/4) // signing one takes a millisecond
		}
		known := p.tokens(goal.algorithm, min(1000, b.tokens))
		base := side{name: "bare Caddy, " + goal.algorithm, on: bare, load: orders(bare.Bare, known), requests: requests}
		first := side{name: goal.algorithm + " at first sight", against: base.name, on: ours, requests: requests}
		first.prepare = func(count int) load.Load { return orders(ours.ProtectedExternal, p.tokens(goal.algorithm, count)) }
		warm := side{name: fmt.Sprintf("%s warm, tokens in turn: %d", goal.algorithm, len(known)), against: base.name, on: ours, requests: requests}
		warm.load = orders(ours.ProtectedExternal, known)
		sides = append(sides, base, base.again(), first, warm)
	}
	outs := b.compare(sides...)
	for _, goal := range externalGoals {
		b.atLeast("external tokens at first sight, "+goal.algorithm+": throughput", goal.first, outs.ratio(goal.algorithm+" at first sight", rateOf), 3, "of bare")
		first, warm := outs.named(goal.algorithm+" at first sight"), outs.named(fmt.Sprintf("%s warm, tokens in turn: %d", goal.algorithm, min(1000, b.tokens)))
		b.atMost("external tokens at first sight, "+goal.algorithm+": CPU beside the signature", 10,
			first.middle(cpuOf)-warm.middle(cpuOf)-costOfSignature(goal.algorithm).verify, 1, "µs")
	}
}
