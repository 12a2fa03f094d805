package main

import (
	"fmt"
	"strconv"

	"github.com/gatehouse-auth/gatehouse/bench/internal/load"
	"github.com/gatehouse-auth/gatehouse/bench/internal/report"
)

// memory sends everything to one server, one after the other and then once more, and looks at what stays.
func (b *bench) memory() error {
	p, err := b.startProvider()
	if err != nil {
		return err
	}
	ours, err := b.ours(setup{external: p})
	if err != nil {
		return err
	}
	bare, err := b.bareCaddy()
	if err != nil {
		return err
	}
	table := b.report.Table("", "RSS MiB", "most RSS MiB", "live heap MiB")
	if err := b.memoryRow(table, "ours, after the start", ours); err != nil {
		return err
	}
	for _, round := range []string{"", ", once more"} {
		for _, w := range b.workloads(ours, p) {
			if err := w.send(); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			if err := b.memoryRow(table, "… and "+w.name+round, ours); err != nil {
				return err
			}
		}
	}
	if err := b.memoryAfterAll(table, ours); err != nil {
		return err
	}
	traffic := orders(bare.Bare, []string{"none"})
	if _, err := traffic.Send(b.ctx, b.conns, b.tokens); err != nil {
		return err
	}
	if err := b.memoryRow(table, "bare Caddy, after requests: "+strconv.Itoa(b.tokens), bare); err != nil {
		return err
	}
	return b.tokenMemory()
}

func (b *bench) memoryAfterAll(table *report.Table, s *server) error {
	if err := b.settle(); err != nil {
		return err
	}
	resident, err := s.Resident()
	if err != nil {
		return err
	}
	b.atMost("memory after all of it", 100, float64(resident)/(1<<20), 1, "MiB RSS")
	return b.memoryRow(table, "ours, 3 s after all of it", s)
}

func (b *bench) memoryRow(table *report.Table, name string, s *server) error {
	resident, err := s.Resident()
	if err != nil {
		return err
	}
	most, err := s.PeakResident()
	if err != nil {
		return err
	}
	live, err := s.liveHeap(b.ctx)
	table.Row(name, mebibytes(resident), mebibytes(most), mebibytes(live))
	return err
}

// workload is one kind of traffic.
type workload struct {
	name string
	send func() error
}

// workloads are all kinds.
func (b *bench) workloads(s *server, p *provider) []workload {
	sends := func(l load.Load, count int, err error) error {
		if err != nil {
			return err
		}
		_, err = l.Send(b.ctx, b.conns, count)
		return err
	}
	return []workload{
		{fmt.Sprintf("own tokens: %d, each twice", b.tokens), func() error {
			tokens, err := b.obtain(s, b.tokens)
			return sends(orders(s.Protected, tokens), 2*b.tokens, err)
		}},
		{fmt.Sprintf("external tokens: %d, each twice", b.tokens/4), func() error {
			tokens, err := p.tokens("ES256", b.tokens/4)
			return sends(orders(s.ProtectedExternal, tokens), b.tokens/2, err)
		}},
		{fmt.Sprintf("bad tokens: %d, each another one", b.flood), func() error { return b.floodWith(s, p) }},
		{fmt.Sprintf("refreshes: %d", b.tokens), func() error {
			chains, err := b.chains(s, manyConns)
			return sends(rotate(s, chains), b.tokens, err)
		}},
		{fmt.Sprintf("code exchanges: %d", b.tokens/4), func() error {
			person, err := signIn(b.ctx, s)
			if err != nil {
				return err
			}
			codes, err := b.authorize(s, person, b.tokens/4)
			return sends(redeem(s, codes), b.tokens/4, err)
		}},
		{fmt.Sprintf("questions: %d, revocations: %[1]d", b.tokens/4), func() error {
			tokens, err := b.obtain(s, b.tokens/4)
			if err := sends(aboutTokens(s, "/oauth/introspect", tokens), len(tokens), err); err != nil {
				return err
			}
			return sends(aboutTokens(s, "/oauth/revoke", tokens), len(tokens), nil)
		}},
	}
}

// floodWith sends every kind of bad token.
func (b *bench) floodWith(s *server, p *provider) error {
	own, external, err := b.badTokens(s, p)
	if err != nil {
		return err
	}
	if err := pause(b.ctx, calm); err != nil {
		return err
	}
	kinds := append(own, external...)
	for i, kind := range kinds {
		site := s.Protected
		if i >= len(own) {
			site = s.ProtectedExternal
		}
		l := kind.requests(site)
		if _, err := l.Send(b.ctx, b.conns, b.flood/len(kinds)); err != nil {
			return fmt.Errorf("%s: %w", kind.name, err)
		}
	}
	return nil
}

// tokenMemory fills the cache of verified tokens, which holds a token from its birth, and looks at the process. The collector
// keeps the heap close to what is live there, so that the size of the process says something about it.
func (b *bench) tokenMemory() error {
	s, err := b.ours(setup{gogc: 10})
	if err != nil {
		return err
	}
	issue := clientCredentials(s.Issuer)
	table := b.report.Table("cached tokens, GOGC=10", "RSS MiB", "bytes per token")
	var before int64
	for step := range 4 { // the first brings the process to its working size; in a full run the last goes beyond the bound
		if _, err := issue.Send(b.ctx, b.conns, b.tokens); err != nil {
			return err
		}
		if err := b.settle(); err != nil {
			return err
		}
		resident, err := s.Resident()
		if err != nil {
			return err
		}
		row := []report.Cell{mebibytes(resident)}
		if step > 0 {
			row = append(row, report.Number(float64(resident-before)/float64(b.tokens), 0))
		}
		before = resident
		table.Row(strconv.Itoa((step+1)*b.tokens), row...)
	}
	return nil
}
