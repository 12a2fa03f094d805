package main

import (
	"os"
	"time"

	"github.com/gatehouse-auth/gatehouse/bench/internal/report"
	"github.com/gatehouse-auth/gatehouse/bench/internal/stats"
)

// start measures the time from the start of the process until it serves, and the size of the programs.
func (b *bench) start() {
	const onDatabase, empty, without = "ours, on its database", "ours, in an empty directory", "bare Caddy"
	ours, bare := b.ours(setup{}), b.bareCaddy(0)
	times := make(map[string][]float64)
	launch := func(name string, s *server, site string) {
		begin := time.Now()
		named(name, func() { check(s.launch(b.ctx, site)) })
		times[name] = append(times[name], milliseconds(time.Since(begin)))
	}
	for range max(3, b.rounds) {
		ours.Stop()
		launch(onDatabase, ours, ours.Issuer)
		bare.Stop()
		launch(without, bare, bare.Respond)
		fresh := b.newServer(b.caddy, 0)
		fresh.configure(oursCaddyfile, b.settings(fresh, setup{}))
		launch(empty, fresh, fresh.Issuer)
		fresh.Stop()
	}
	table := b.report.Table("", "ready after ms", "size MB")
	size := func(program string) float64 { return float64(must(os.Stat(program)).Size()) / 1e6 }
	for _, row := range []struct{ name, program string }{{without, b.bare}, {onDatabase, b.caddy}, {empty, b.caddy}} {
		table.Row(row.name, report.Number(stats.Median(times[row.name]), 0), report.Number(size(row.program), 1))
	}
	b.atMost("ready after", 300, stats.Median(times[onDatabase]), 0, "ms")
	b.atMost("binary", 15, size(b.caddy)-size(b.bare), 1, "MB more than bare Caddy")
}
