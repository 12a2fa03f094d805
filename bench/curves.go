package main

import (
	"fmt"

	"github.com/gatehouse-auth/gatehouse/bench/internal/plot"
	"github.com/gatehouse-auth/gatehouse/bench/internal/report"
	"github.com/gatehouse-auth/gatehouse/bench/internal/stats"
)

// connections measures throughput and latency over the number of connections, and draws the curves.
func (b *bench) connections() error {
	bare, err := b.bareCaddy()
	if err != nil {
		return err
	}
	ours, err := b.ours(setup{})
	if err != nil {
		return err
	}
	tokens, err := b.obtain(ours, min(1000, b.tokens))
	if err != nil {
		return err
	}
	sides := []side{
		{name: "bare reverse_proxy", on: bare, load: orders(bare.Bare, tokens)},
		{name: "protect and reverse_proxy", on: ours, load: orders(ours.Protected, tokens)},
		{name: "client_credentials, ES256", on: ours, load: clientCredentials(ours.Issuer)},
	}
	throughput := &plot.Plot{Title: "Throughput over connections", X: "connections", Y: "requests a second", LogX: true}
	latency := &plot.Plot{Title: "99th percentile of the latency over connections", X: "connections", Y: "ms", LogX: true}
	for _, s := range sides {
		throughput.Lines = append(throughput.Lines, plot.Line{Name: s.name})
		latency.Lines = append(latency.Lines, plot.Line{Name: s.name})
	}
	table := b.report.Table("connections", "bare requests/s", "p99 ms", "protect requests/s", "p99 ms", "client_credentials requests/s", "p99 ms")
	for conns := 1; conns <= 256; conns *= 2 {
		costs, err := b.inTurns(sides, conns)
		if err != nil {
			return err
		}
		var row []report.Cell
		for i := range sides {
			rate, p99 := stats.MedianOf(costs[i], rateOf), stats.MedianOf(costs[i], p99Of)
			row = append(row, report.Number(rate, 0), report.Number(p99, 2))
			throughput.Lines[i].Points = append(throughput.Lines[i].Points, plot.Point{X: float64(conns), Y: rate})
			latency.Lines[i].Points = append(latency.Lines[i].Points, plot.Point{X: float64(conns), Y: p99})
		}
		table.Row(fmt.Sprint(conns), row...)
	}
	if err := b.draw("throughput-over-connections.svg", throughput); err != nil {
		return err
	}
	return b.draw("latency-over-connections.svg", latency)
}

// inTurns measures the sides with so many connections, in a third of the rounds.
func (b *bench) inTurns(sides []side, conns int) ([][]cost, error) {
	costs := make([][]cost, len(sides))
	for range max(1, b.rounds/3) {
		for i, s := range sides {
			s.conns = conns
			count := b.requests
			if conns < 4 {
				count = max(conns, count/4)
			}
			c, err := b.measure(s, max(count, 2*conns))
			if err != nil {
				return nil, fmt.Errorf("%s with %d connections: %w", s.name, conns, err)
			}
			costs[i] = append(costs[i], c)
		}
	}
	return costs, nil
}
