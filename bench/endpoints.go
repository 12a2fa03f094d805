package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gatehouse-auth/gatehouse/bench/internal/load"
	"github.com/gatehouse-auth/gatehouse/bench/internal/report"
	"github.com/gatehouse-auth/gatehouse/bench/internal/stats"
)

// issue measures the token endpoint, next to a constant response of the same length and the cost of one signature.
// The rates are for two processors.
func (b *bench) issue() {
	goals := []struct {
		algorithm string
		rate      float64
	}{{"ES256", 18_000}, {"EdDSA", 20_000}, {"RS256", 1900}}
	var sides []side
	for _, goal := range goals {
		ours := b.ours(setup{algorithm: goal.algorithm})
		one := side{name: goal.algorithm, on: ours, load: clientCredentials(ours.Issuer)}
		if goal.algorithm == "RS256" {
			one.requests = max(100, b.requests/4)
		}
		answer := side{name: "respond, beside " + goal.algorithm, on: ours, load: clientCredentials(ours.Answer), requests: one.requests}
		one.against = answer.name
		sides = append(sides, answer, one, one.again())
	}
	outs := b.compare(sides...)
	for _, goal := range goals {
		least := outs.named("respond, beside "+goal.algorithm).middle(cpuOf) + costOfSignature(goal.algorithm).sign
		b.atMost("client_credentials, "+goal.algorithm+": CPU per request", 1.15, outs.named(goal.algorithm).middle(cpuOf)/least, 3, "of respond and one signature")
		b.atLeast("client_credentials, "+goal.algorithm, goal.rate, outs.named(goal.algorithm).rate(), 0, "a second")
	}
}

// inquiries introspects the same tokens in turn, and revokes other tokens, each once.
func (b *bench) inquiries() {
	ours := b.ours(setup{})
	introspection := side{name: "introspection", on: ours, load: introspect(ours, clientID, b.obtain(ours, min(1000, b.tokens)))}
	revocation := side{name: "revocation", on: ours, prepare: b.revocations(ours), requests: b.requests / 2}
	many := revocation
	many.name, many.conns = "revocation, 64 connections", manyConns
	outs := b.compare(introspection, introspection.again(), revocation, many)
	b.atLeast("introspection", 20_000, outs.named("introspection").rate(), 0, "a second")
	b.atLeast("revocation", 7000, outs.named("revocation").rate(), 0, "a second")
}

const (
	// manyConns is the number of connections at a busy moment.
	manyConns = 64
	fsyncs    = 400
)

// durableGoals are the goals for refreshes and code exchanges, in steps per second, by store and number of
// connections.
var durableGoals = []struct {
	store string
	conns int
	goal  float64 // 0: none
}{{"SQLite", 1, 0}, {"SQLite", 16, 7000}, {"SQLite", manyConns, 15_000}, {"PostgreSQL", 16, 3000}, {"PostgreSQL", manyConns, 0}}

// refresh rotates the refresh tokens of as many families as there are connections.
func (b *bench) refresh() {
	b.durable("refresh", func(s *server) func(int) load.Load {
		rotation := rotate(s, clientID, b.chains(s, manyConns))
		return func(int) load.Load { return rotation }
	})
}

// codes exchanges authorization codes. A person has signed in once, and all codes are created before the measurement
// starts.
func (b *bench) codes() {
	b.durable("code exchange", func(s *server) func(int) load.Load {
		p := must(signIn(b.ctx, s))
		return func(count int) load.Load { return redeem(s, b.authorize(s, p, "public", count)) }
	})
}

// durable measures, on both stores, a step that is on disk before it is answered.
func (b *bench) durable(what string, begin func(*server) func(int) load.Load) {
	servers := map[string]*server{"SQLite": b.ours(setup{}), "PostgreSQL": b.ours(b.onPostgres())}
	steps := make(map[string]func(int) load.Load)
	for store, s := range servers {
		steps[store] = begin(s)
	}
	name := func(store string, conns int) string {
		return fmt.Sprintf("%s, %s, connections: %d", what, store, conns)
	}
	var sides []side
	for _, g := range durableGoals {
		s := side{name: name(g.store, g.conns), on: servers[g.store], prepare: steps[g.store], conns: g.conns, requests: b.requests / 2}
		if g.conns == 1 {
			s.requests = max(50, b.requests/16)
		}
		sides = append(sides, s)
	}
	fsync := must(fsyncTime(servers["SQLite"].program.Dir, fsyncs))
	outs := b.compare(append(sides, sides[1].again())...)
	table := b.report.Table("", "a second", "times one fsync")
	for _, o := range outs {
		table.Row(o.name, median(o.costs, rateOf, 0), report.Number(stats.MedianOf(o.costs, rateOf)*fsync.Seconds(), 1))
	}
	table.Row("write 4 KiB and fsync, alone", report.Number(1/fsync.Seconds(), 0), report.Number(1, 1))
	for _, g := range durableGoals {
		if g.goal > 0 {
			b.atLeast(name(g.store, g.conns), g.goal, outs.named(name(g.store, g.conns)).rate(), 0, "a second")
		}
	}
}

// fsyncTime returns the time that the disk under dir takes to make 4 KiB durable.
func fsyncTime(dir string, count int) (time.Duration, error) {
	file, err := os.Create(filepath.Join(dir, "fsync"))
	if err != nil {
		return 0, err
	}
	defer func() { _ = errors.Join(file.Close(), os.Remove(file.Name())) }()
	page := make([]byte, 4<<10)
	start := time.Now()
	for range count {
		if _, err := file.WriteAt(page, 0); err != nil {
			return 0, err
		}
		if err := file.Sync(); err != nil {
			return 0, err
		}
	}
	return time.Since(start) / time.Duration(count), nil
}
