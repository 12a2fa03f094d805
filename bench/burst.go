package main

import (
	"fmt"
	"net/http"
	"time"

	"github.com/gatehouse-auth/gatehouse/bench/internal/load"
	"github.com/gatehouse-auth/gatehouse/bench/internal/report"
	"github.com/gatehouse-auth/gatehouse/bench/internal/stats"
)

const (
	// burstConns connections open at once. A burst lasts burstLength, after burstIdle without traffic.
	burstConns  = 256
	burstLength = time.Second
	burstIdle   = 500 * time.Millisecond
	// burstBad means that one in burstBad clients behind one address has an expired token.
	burstBad = 4
)

// burst is traffic that starts suddenly.
type burst struct {
	name  string
	conns int
	// most is the highest number of requests; 0: as many as fit in the time.
	most int
	// prepare returns the load of one burst.
	prepare func() load.Load
	// bad reports whether the latency of request i is left out; nil: none is.
	bad func(i int) bool
	// theirs marks a burst in which Gatehouse takes no part.
	theirs bool
}

// bursts opens all connections at once after a time without traffic. They are new, so the server has to accept them
// too.
func (b *bench) bursts() {
	p := b.startProvider(0)
	ours, bare := b.ours(trusting(p)), b.bareCaddy(0)
	table := b.report.Table("", "connections", "requests/s", "first 100 ms: p50 ms", "p99 ms", "later: p50 ms", "p99 ms", "longest ms", "refused wrongly", "RSS MiB")
	for _, kind := range b.burstKinds(ours, bare, p) {
		named(kind.name, func() { b.squall(kind, ours, table) })
	}
	b.report.Note("Every burst comes out of %v of silence and takes %v, or until each request was sent once; medians of %d bursts, the longest answer of all rounds, and all answers that were wrong or missing. Latencies are those of good tokens.",
		burstIdle, burstLength, b.rounds)
}

// burstKinds returns the kinds of bursts, and a bare Caddy that receives the first of them.
func (b *bench) burstKinds(ours, bare *server, p *provider) []burst {
	known := b.obtain(ours, b.tokens)
	clients := b.burstClients()
	chains := b.chains(ours, clients)
	always := func(l load.Load) func() load.Load { return func() load.Load { return l } }
	first := max(burstConns, b.requests/4)
	firsts := func() load.Load { // new tokens, signed with both algorithms in turn
		return orders(ours.ProtectedExternal, inTurn([][]string{p.tokens("RS256", (first+1)/2), p.tokens("ES256", (first+1)/2)}))
	}
	onBare := always(orders(bare.Bare, known))
	return []burst{
		{name: "bare Caddy", conns: burstConns, prepare: onBare, theirs: true},
		{name: "bare Caddy again (control)", conns: burstConns, prepare: onBare, theirs: true},
		{name: fmt.Sprintf("known tokens: %d", len(known)), conns: burstConns, prepare: always(orders(ours.Protected, known))},
		{name: "tokens at first sight, RS256 and ES256", conns: manyConns, most: first, prepare: firsts},
		{name: "tokens at first sight, RS256 and ES256, more connections", conns: burstConns, most: first, prepare: firsts},
		{name: fmt.Sprintf("known tokens, one of %d expired", burstBad), conns: burstConns, prepare: always(someExpired(ours, known)), bad: isExpired},
		{name: "client_credentials", conns: burstConns, prepare: always(clientCredentials(ours.Issuer))},
		{name: fmt.Sprintf("refreshes: %d clients, each once", clients), conns: clients, most: clients, prepare: always(rotate(ours, clientID, chains))},
	}
}

// burstClients returns how many clients do one thing in the same second.
func (b *bench) burstClients() int {
	if b.quick {
		return 100
	}
	return 1000
}

// isExpired reports whether request i of someExpired has an expired token.
func isExpired(i int) bool { return i%burstBad == 0 }

// someExpired is the traffic of many clients behind one address. Some of them send expired tokens.
func someExpired(ours *server, known []string) load.Load {
	over := newForger(known[0]).expired().requests(ours.Protected)
	good := orders(ours.Protected, known)
	return load.Load{
		Addr: ours.Protected,
		Request: func(i int, scratch []byte) []byte {
			if isExpired(i) {
				return over.Request(i, scratch)
			}
			return good.Request(i, scratch)
		},
		Response: func(i int, r *load.Response) error {
			if isExpired(i) {
				return expectStatus(http.StatusUnauthorized, r)
			}
			return expectStatus(http.StatusOK, r)
		},
	}
}

// squall sends one kind of burst once for each round.
func (b *bench) squall(kind burst, ours *server, table *report.Table) {
	var all gauges
	for range b.rounds {
		l := kind.prepare()
		b.pause(burstIdle)
		all = append(all, must(b.gust(l, kind.conns, burstLength, kind.most, kind.bad)))
	}
	first, later := func(g *gauge) *stats.Histogram { return &g.first }, func(g *gauge) *stats.Histogram { return &g.later }
	refused := b.refusedWrongly(kind.name, all)
	table.Row(kind.name, report.Number(float64(kind.conns), 0), all.median((*gauge).rate, 0),
		all.quantile(0.5, first), all.quantile(0.99, first), all.quantile(0.5, later), all.quantile(0.99, later),
		report.Number(milliseconds(all.longest()), 1), report.Number(refused, 0), mebibytes(must(ours.Resident())))
	if !kind.theirs {
		b.atMost("burst, "+kind.name+": refused wrongly", 0, refused, 0, "")
	}
}
