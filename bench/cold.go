package main

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gatehouse-auth/gatehouse/bench/internal/load"
	"github.com/gatehouse-auth/gatehouse/bench/internal/report"
	"github.com/gatehouse-auth/gatehouse/bench/internal/stats"
)

const (
	// coldKeysDelay is how long the other issuer takes to return its keys. It stands for a remote machine.
	coldKeysDelay = 50 * time.Millisecond
	// coldTurns is how many times all clients return, if coldLength allows it.
	coldTurns  = 2
	coldLength = 10 * time.Second
	// asWarm is the fraction of the warm rate at which a server counts as warm again.
	asWarm = 0.9
)

// crowd is the set of returning clients: callers with tokens of our own and of another issuer, and families that
// refresh.
type crowd struct {
	*bench
	ours     *server
	provider *provider
	gate     load.Load
	tokens   int
	families load.Load
	clients  int
	flood    load.Load
}

// comeback is a moment at which all clients return, with its measurements round by round.
type comeback struct {
	name  string
	begin func()
	flood bool
	gates gauges
	steps gauges // refreshes
	keys  int64  // requests for the other issuer's keys
}

// cold measures all clients returning right after a start and right after a reload, when nothing is cached: no
// tokens, no families, and none of the other issuer's keys.
func (b *bench) cold() {
	c := b.newCrowd()
	restart := func() {
		c.ours.Stop()
		check(c.ours.launch(b.ctx, c.ours.Mixed))
	}
	stay := func() {}
	comebacks := []*comeback{
		{name: "warm", begin: stay},
		{name: "right after a reload", begin: func() { b.reload(c.ours, trusting(c.provider)) }},
		{name: "right after a start", begin: restart},
		{name: "warm, a flood beside it", begin: stay, flood: true},
		{name: "right after a start, a flood beside it", begin: restart, flood: true},
	}
	for range max(1, b.rounds/3) { // each sends tens of thousands of requests
		for _, come := range comebacks {
			named(come.name, func() { c.come(come) })
		}
	}
	c.tabulate(comebacks)
}

// newCrowd starts the server, creates the tokens and the families, and sends each token to the gate twice. Three
// quarters of the tokens are our own.
func (b *bench) newCrowd() *crowd {
	p := b.startProvider(coldKeysDelay)
	c := &crowd{bench: b, ours: b.ours(trusting(p)), provider: p, clients: b.burstClients()}
	each := b.tokens / 4
	own := b.obtain(c.ours, 3*each)
	tokens := inTurn([][]string{own[:each], own[each : 2*each], own[2*each:], p.tokens("ES256", each)})
	c.gate, c.tokens = orders(c.ours.Mixed, tokens), len(tokens)
	c.families = rotate(c.ours, clientID, b.chains(c.ours, c.clients))
	c.families.Addr = c.ours.Mixed // the issuer is at this address too, and listens when the gate does
	c.flood = forged(p, "ES256").requests(c.ours.Mixed)
	b.send(c.gate, 2*len(tokens))
	return c
}

// come sends the requests of every client once.
func (c *crowd) come(come *comeback) {
	asked := c.provider.asked.Load()
	come.begin()
	if come.flood {
		stop := c.inBackground(c.flood, c.conns)
		defer stop()
	}
	length := coldLength
	if c.quick {
		length /= 5
	}
	var steps *gauge
	var refreshing errgroup.Group
	refreshing.Go(func() (err error) {
		steps, err = c.gust(c.families, c.conns, length, c.clients, nil)
		return err
	})
	gate, err := c.gust(c.gate, c.conns, length, coldTurns*c.tokens, nil)
	check(errors.Join(err, refreshing.Wait()))
	come.gates, come.steps = append(come.gates, gate), append(come.steps, steps)
	come.keys += c.provider.asked.Load() - asked
}

// tabulate writes the measurements. The first comeback is taken as warm.
func (c *crowd) tabulate(comebacks []*comeback) {
	table := c.report.Table("", "requests/s", "in the first second", "first 100 ms: p50 ms", "p99 ms", "all: p50 ms", "p99 ms", "longest ms",
		fmt.Sprintf("ms until %.1f of warm", asWarm), "refused wrongly", "refreshes: p50 ms", "p99 ms", "longest ms", "refused wrongly", "requests for keys")
	warm := asWarm * stats.MedianOf(comebacks[0].gates, (*gauge).rate)
	first := func(g *gauge) *stats.Histogram { return &g.first }
	for _, come := range comebacks {
		gates, steps := come.gates, come.steps
		wrong, wrongSteps := c.refusedWrongly(come.name, gates), c.refusedWrongly(come.name+", refreshes", steps)
		table.Row(come.name, gates.median((*gauge).rate, 0), gates.median((*gauge).firstSecond, 0),
			gates.quantile(0.5, first), gates.quantile(0.99, first), gates.quantile(0.5, (*gauge).all), gates.quantile(0.99, (*gauge).all),
			report.Number(milliseconds(gates.longest()), 1), gates.median(func(g *gauge) float64 { return milliseconds(g.until(warm)) }, 0), report.Number(wrong, 0),
			steps.quantile(0.5, (*gauge).all), steps.quantile(0.99, (*gauge).all), report.Number(milliseconds(steps.longest()), 1),
			report.Number(wrongSteps, 0), report.Number(float64(come.keys), 0))
		c.atMost("cold, "+come.name+": refused wrongly", 0, wrong+wrongSteps, 0, "")
	}
	c.report.Note("%d connections show %d tokens %d times, and beside them as many refresh %d families once; another issuer takes %v to answer with its keys. "+
		"Medians of %d rounds; the longest answers and the refused of all.", c.conns, c.tokens, coldTurns, c.clients, coldKeysDelay, len(comebacks[0].gates))
}
