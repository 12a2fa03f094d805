package main

import (
	"fmt"
	"os"
	"time"

	"github.com/gatehouse-auth/gatehouse/bench/internal/report"
	"github.com/gatehouse-auth/gatehouse/bench/internal/stats"
)

// start measures how long it takes from the start of the process until it serves, and how large the programs are.
func (b *bench) start() error {
	ours, err := b.ours(setup{})
	if err != nil {
		return err
	}
	bare, err := b.bareCaddy()
	if err != nil {
		return err
	}
	times := make(map[string][]float64)
	for range max(3, b.rounds) {
		for name, s := range map[string]*server{"ours, on its database": ours, "bare Caddy": bare} {
			if err := b.timeStart(s, name, times); err != nil {
				return err
			}
		}
		fresh, err := b.newServer(b.caddy, 0)
		if err != nil {
			return err
		}
		w := b.words(fresh)
		w.IssuerURL = "http://" + fresh.Issuer
		if err := fresh.configure(oursCaddyfile, w); err != nil {
			return err
		}
		if err := b.timeStart(fresh, "ours, in an empty directory", times); err != nil {
			return err
		}
		fresh.Stop()
	}
	table := b.report.Table("", "ready after ms", "size MB")
	sizes := make(map[string]float64)
	for _, row := range []struct{ name, program string }{
		{"bare Caddy", b.bare}, {"ours, on its database", b.caddy}, {"ours, in an empty directory", b.caddy},
	} {
		info, err := os.Stat(row.program)
		if err != nil {
			return err
		}
		sizes[row.name] = float64(info.Size()) / 1e6
		table.Row(row.name, report.Number(stats.Median(times[row.name]), 0), report.Number(sizes[row.name], 1))
	}
	b.atMost("ready after", 300, stats.Median(times["ours, on its database"]), 0, "ms")
	b.atMost("binary", 15, sizes["ours, on its database"]-sizes["bare Caddy"], 1, "MB more than bare Caddy")
	return nil
}

// timeStart starts a server again, and notes how long that took.
func (b *bench) timeStart(s *server, name string, times map[string][]float64) error {
	if s.Process != nil {
		s.Stop()
	}
	site := s.Issuer
	if s.program == b.bare {
		site = s.Respond
	}
	begin := time.Now()
	if err := s.launch(b.ctx, site); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	times[name] = append(times[name], milliseconds(time.Since(begin)))
	return nil
}
