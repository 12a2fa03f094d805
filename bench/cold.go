package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/gatehouse-auth/gatehouse/bench/internal/load"
	"github.com/gatehouse-auth/gatehouse/bench/internal/report"
	"github.com/gatehouse-auth/gatehouse/bench/internal/stats"
)

const (
	// coldKeysDelay is how long the other issuer takes to answer with its keys: somebody else's machine does.
	coldKeysDelay = 50 * time.Millisecond
	// coldTurns is how often everybody comes back, if coldLength allows it.
	coldTurns  = 2
	coldLength = 10 * time.Second
	// asWarm is the part of the warm rate from which on a server counts as warm again.
	asWarm = 0.9
)

// crowd are those who come back: callers with tokens of our own and of another issuer, and families that refresh.
type crowd struct {
	*bench
	ours     *server
	setup    setup
	provider *provider
	gate     load.Load
	tokens   int
	families load.Load
	clients  int
	flood    load.Load
}

// comeback is a moment at which all of them come, and what is measured of it, round by round.
type comeback struct {
	name  string
	begin func() error
	flood bool
	gates []*gauge
	steps []*gauge // refreshes
	keys  int64    // how often the other issuer was asked for its keys
}

// cold lets everybody come back right after a start and right after a reload, when nothing is remembered: tokens, families, and the
// other issuer's keys.
func (b *bench) cold() error {
	c, err := b.newCrowd()
	if err != nil {
		return err
	}
	restart := func() error {
		c.ours.Stop()
		return c.ours.launch(b.ctx, c.ours.Mixed)
	}
	reload := func() error { return b.reload(c.ours, c.setup) }
	stay := func() error { return nil }
	comebacks := []*comeback{
		{name: "warm", begin: stay},
		{name: "right after a reload", begin: reload},
		{name: "right after a start", begin: restart},
		{name: "warm, a flood beside it", begin: stay, flood: true},
		{name: "right after a start, a flood beside it", begin: restart, flood: true},
	}
	for range max(1, b.rounds/3) { // each is tens of thousands of requests
		for _, come := range comebacks {
			if err := c.come(come); err != nil {
				return fmt.Errorf("%s: %w", come.name, err)
			}
		}
	}
	c.tabulate(comebacks)
	return nil
}

// newCrowd starts the server and makes everybody known to it.
func (b *bench) newCrowd() (*crowd, error) {
	p, err := b.startSlowProvider(coldKeysDelay)
	if err != nil {
		return nil, err
	}
	c := &crowd{bench: b, setup: setup{partners: []*provider{p}}, provider: p, clients: burstClients}
	if b.quick {
		c.clients /= 10
	}
	if c.ours, err = b.ours(c.setup); err != nil {
		return nil, err
	}
	tokens, err := b.coldTokens(c.ours, p)
	if err != nil {
		return nil, err
	}
	c.gate, c.tokens = orders(c.ours.Mixed, tokens), len(tokens)
	chains, err := b.chains(c.ours, c.clients)
	if err != nil {
		return nil, err
	}
	c.families = rotate(c.ours, chains)
	c.families.Addr = c.ours.Mixed // the issuer is there too, and listens when the gate does
	forged, err := newForger(tokens[len(tokens)-1])
	if err != nil {
		return nil, err
	}
	c.flood = forged.changedSignature("forged", forged.token).requests(c.ours.Mixed)
	_, err = c.gate.Send(b.ctx, b.conns, 2*len(tokens))
	return c, err
}

// coldTokens are three quarters our own and one quarter another issuer's, in turn.
func (b *bench) coldTokens(s *server, p *provider) ([]string, error) {
	each := b.tokens / 4
	own, err := b.obtain(s, 3*each)
	if err != nil {
		return nil, err
	}
	theirs, err := p.tokens("ES256", each)
	if err != nil {
		return nil, err
	}
	return inTurn([][]string{own[:each], own[each : 2*each], own[2*each:], theirs}), nil
}

// come has everybody come once.
func (c *crowd) come(come *comeback) error {
	if err := pause(c.ctx, calm); err != nil { // of the last flood nothing is left
		return err
	}
	asked := c.provider.asked.Load()
	if err := come.begin(); err != nil {
		return err
	}
	if come.flood {
		defer c.inBackground(c.flood, c.conns, new(load.Answers))()
	}
	length := coldLength
	if c.quick {
		length /= 5
	}
	type result struct {
		gauge *gauge
		err   error
	}
	refreshed := make(chan result, 1)
	go func() {
		g, err := c.gust(c.families, c.conns, length, c.clients, nil)
		refreshed <- result{g, err}
	}()
	gate, err := c.gust(c.gate, c.conns, length, coldTurns*c.tokens, nil)
	steps := <-refreshed
	if err != nil || steps.err != nil {
		return errors.Join(err, steps.err)
	}
	come.gates, come.steps = append(come.gates, gate), append(come.steps, steps.gauge)
	come.keys += c.provider.asked.Load() - asked
	return nil
}

// tabulate writes what was measured. The first comeback is the one that is held to be warm.
func (c *crowd) tabulate(comebacks []*comeback) {
	table := c.report.Table("", "requests/s", "in the first second", "first 100 ms: p50 ms", "p99 ms", "all: p50 ms", "p99 ms", "longest ms",
		fmt.Sprintf("ms until %.1f of warm", asWarm), "refused wrongly", "refreshes: p50 ms", "p99 ms", "longest ms", "refused wrongly", "requests for keys")
	warm := stats.MedianOf(comebacks[0].gates, (*gauge).rate)
	quantile := func(gauges []*gauge, q float64, of func(*gauge) *stats.Histogram) report.Cell {
		return report.Number(stats.MedianOf(gauges, func(g *gauge) float64 { return milliseconds(of(g).Quantile(q)) }), 2)
	}
	first := func(g *gauge) *stats.Histogram { return &g.first }
	for _, come := range comebacks {
		wrong, longest := c.sum(come.name, come.gates)
		wrongSteps, longestStep := c.sum(come.name+", refreshes", come.steps)
		table.Row(come.name, report.Number(stats.MedianOf(come.gates, (*gauge).rate), 0), report.Number(stats.MedianOf(come.gates, (*gauge).firstSecond), 0),
			quantile(come.gates, 0.5, first), quantile(come.gates, 0.99, first),
			quantile(come.gates, 0.5, (*gauge).all), quantile(come.gates, 0.99, (*gauge).all), longest,
			untilWarm(come.gates, asWarm*warm), report.Number(float64(wrong), 0),
			quantile(come.steps, 0.5, (*gauge).all), quantile(come.steps, 0.99, (*gauge).all), longestStep,
			report.Number(float64(wrongSteps), 0), report.Number(float64(come.keys), 0))
		c.atMost("cold, "+come.name+": refused wrongly", 0, float64(wrong+wrongSteps), 0, "")
	}
	c.report.Note("%d connections show %d tokens %d times, and beside them as many refresh %d families once; another issuer takes %v to answer with its keys. "+
		"Medians of %d rounds; the longest answers and the refused of all.", c.conns, c.tokens, coldTurns, c.clients, coldKeysDelay, len(comebacks[0].gates))
}

// sum counts what was refused, and finds the longest answer.
func (c *crowd) sum(name string, gauges []*gauge) (int, report.Cell) {
	wrong, longest := 0, time.Duration(0)
	for _, g := range gauges {
		wrong += g.refused()
		longest = max(longest, g.longest())
		c.noteWrong(name, g)
	}
	return wrong, report.Number(milliseconds(longest), 1)
}

// untilWarm is the median time until the rate was reached; a time that never came is as long as the whole.
func untilWarm(gauges []*gauge, rate float64) report.Cell {
	return report.Number(stats.MedianOf(gauges, func(g *gauge) float64 {
		if after, reached := g.until(rate); reached {
			return milliseconds(after)
		}
		return milliseconds(g.answers.Elapsed)
	}), 0)
}
