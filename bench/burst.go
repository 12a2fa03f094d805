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
	// burstConns come at once, burstClients when each of many clients does one thing in the same second.
	burstConns   = 256
	burstClients = 1000
	// burstLength is how long a burst takes, burstIdle the silence before it.
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
	// prepare makes the load of one burst, which says what is right by Response alone.
	prepare func() (load.Load, error)
	// bad tells whose latency nobody minds; nil: nobody's.
	bad func(i int) bool
	// theirs is what Gatehouse has no part in.
	theirs bool
}

// bursts lets connections come all at once, out of silence: new ones, that have to be accepted too.
func (b *bench) bursts() error {
	ours, p, err := b.oursAndProvider(0)
	if err != nil {
		return err
	}
	bare, err := b.bareCaddy()
	if err != nil {
		return err
	}
	kinds, err := b.burstKinds(ours, bare, p)
	if err != nil {
		return err
	}
	table := b.report.Table("", "connections", "requests/s", "first 100 ms: p50 ms", "p99 ms", "later: p50 ms", "p99 ms", "longest ms", "refused wrongly", "RSS MiB")
	for _, kind := range kinds {
		if err := b.squall(kind, ours, table); err != nil {
			return fmt.Errorf("%s: %w", kind.name, err)
		}
	}
	b.report.Note("Every burst comes out of %v of silence and takes %v, or until each request was sent once; medians of %d bursts, the longest answer of all rounds, and all answers that were wrong or missing. Latencies are those of good tokens.",
		burstIdle, burstLength, b.rounds)
	return nil
}

// oursAndProvider starts a server that takes tokens of an issuer, which answers with its keys after a delay.
func (b *bench) oursAndProvider(delay time.Duration) (*server, *provider, error) {
	p, err := b.startSlowProvider(delay)
	if err != nil {
		return nil, nil, err
	}
	ours, err := b.ours(setup{external: p})
	return ours, p, err
}

// burstKinds are what comes at once, and a bare Caddy that gets the first of it.
func (b *bench) burstKinds(ours, bare *server, p *provider) ([]burst, error) {
	known, err := b.obtain(ours, b.tokens)
	if err != nil {
		return nil, err
	}
	clients := burstClients
	if b.quick {
		clients /= 10
	}
	chains, err := b.chains(ours, clients)
	if err != nil {
		return nil, err
	}
	always := func(l load.Load) func() (load.Load, error) { return func() (load.Load, error) { return l, nil } }
	first := max(burstConns, b.requests/4)
	firsts := func() (load.Load, error) { return b.twoAlgorithms(ours, p, first) }
	return []burst{
		{name: "bare Caddy", conns: burstConns, prepare: always(orders(bare.Bare, known)), theirs: true},
		{name: "bare Caddy again (control)", conns: burstConns, prepare: always(orders(bare.BareAgain, known)), theirs: true},
		{name: fmt.Sprintf("known tokens: %d", len(known)), conns: burstConns, prepare: always(orders(ours.Protected, known))},
		{name: "tokens at first sight, RS256 and ES256", conns: manyConns, most: first, prepare: firsts},
		{name: "tokens at first sight, RS256 and ES256, more connections", conns: burstConns, most: first, prepare: firsts},
		{name: fmt.Sprintf("known tokens, one of %d expired", burstBad), conns: burstConns, prepare: func() (load.Load, error) { return b.someExpired(ours, known) }, bad: isExpired},
		{name: "client_credentials", conns: burstConns, prepare: always(clientCredentials(ours.Issuer))},
		{name: fmt.Sprintf("refreshes: %d clients, each once", clients), conns: clients, most: clients, prepare: always(rotate(ours, chains))},
	}, nil
}

// twoAlgorithms are new tokens of another issuer, signed with one and the other by turns.
func (b *bench) twoAlgorithms(ours *server, p *provider, count int) (load.Load, error) {
	rsa, err := p.tokens("RS256", (count+1)/2)
	if err != nil {
		return load.Load{}, err
	}
	ecdsa, err := p.tokens("ES256", (count+1)/2)
	if err != nil {
		return load.Load{}, err
	}
	return orders(ours.ProtectedExternal, inTurn([][]string{rsa, ecdsa})), nil
}

// isExpired tells whose token is over in a burst of someExpired.
func isExpired(i int) bool { return i%burstBad == 0 }

// someExpired is traffic of many clients behind one address, some of whom have not noticed that their tokens are over.
func (b *bench) someExpired(ours *server, known []string) (load.Load, error) {
	f, err := newForger(known[0])
	if err != nil {
		return load.Load{}, err
	}
	over := f.expired().requests(ours.Protected)
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
			want := http.StatusOK
			if isExpired(i) {
				want = http.StatusUnauthorized
			}
			return expectStatus(want, r)
		},
	}, nil
}

// squall lets one kind of burst come as often as there are rounds.
func (b *bench) squall(kind burst, ours *server, table *report.Table) error {
	var gauges []*gauge
	for range b.rounds {
		g, err := b.oneBurst(kind)
		if err != nil {
			return err
		}
		gauges = append(gauges, g)
	}
	refused, longest := 0, time.Duration(0)
	for _, g := range gauges {
		refused += g.refused()
		longest = max(longest, g.longest())
		b.noteWrong(kind.name, g)
	}
	quantile := func(q float64, of func(*gauge) *stats.Histogram) report.Cell {
		if of(gauges[0]).Count() == 0 {
			return report.Cell{}
		}
		return report.Number(stats.MedianOf(gauges, func(g *gauge) float64 { return milliseconds(of(g).Quantile(q)) }), 2)
	}
	first, later := func(g *gauge) *stats.Histogram { return &g.first }, func(g *gauge) *stats.Histogram { return &g.later }
	resident, err := ours.Resident()
	table.Row(kind.name, report.Number(float64(kind.conns), 0),
		report.Number(stats.MedianOf(gauges, (*gauge).rate), 0),
		quantile(0.5, first), quantile(0.99, first), quantile(0.5, later), quantile(0.99, later),
		report.Number(milliseconds(longest), 1), report.Number(float64(refused), 0), mebibytes(resident))
	if !kind.theirs {
		b.atMost("burst, "+kind.name+": refused wrongly", 0, float64(refused), 0, "")
	}
	return err
}

// oneBurst lets it come once.
func (b *bench) oneBurst(kind burst) (*gauge, error) {
	l, err := kind.prepare()
	if err != nil {
		return nil, err
	}
	if err := pause(b.ctx, burstIdle); err != nil {
		return nil, err
	}
	return b.gust(l, kind.conns, burstLength, kind.most, kind.bad)
}
