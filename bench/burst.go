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
	// burstConns come at once. A burst takes burstLength, after burstIdle of silence.
	burstConns  = 256
	burstLength = time.Second
	burstIdle   = 500 * time.Millisecond
	// burstBad is one of how many of those behind one address whose token has expired.
	burstBad = 4
)

// burst is traffic that comes from nowhere.
type burst struct {
	name  string
	conns int
	// most is how many requests there are at most; 0: as many as fit in.
	most int
	// prepare makes the load of one burst.
	prepare func() load.Load
	// bad reports whose latency nobody minds; nil: nobody's.
	bad func(i int) bool
	// theirs is what Gatehouse has no part in.
	theirs bool
}

// bursts lets connections come all at once, out of silence: new ones, that have to be accepted too.
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

// burstKinds are what comes at once, and a bare Caddy that gets the first of it.
func (b *bench) burstKinds(ours, bare *server, p *provider) []burst {
	known := b.obtain(ours, b.tokens)
	clients := b.burstClients()
	chains := b.chains(ours, clients)
	always := func(l load.Load) func() load.Load { return func() load.Load { return l } }
	first := max(burstConns, b.requests/4)
	firsts := func() load.Load { // new tokens, signed with one and the other algorithm by turns
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

// burstClients is how many clients do one thing in the same second.
func (b *bench) burstClients() int {
	if b.quick {
		return 100
	}
	return 1000
}

// isExpired reports whose token is over in a burst of someExpired.
func isExpired(i int) bool { return i%burstBad == 0 }

// someExpired is traffic of many clients behind one address, some of whom have not noticed that their tokens are over.
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

// squall lets one kind of burst come as often as there are rounds.
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
