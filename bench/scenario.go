package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/gatehouse-auth/gatehouse/bench/internal/plot"
	"github.com/gatehouse-auth/gatehouse/bench/internal/report"
)

// scenario is one question.
type scenario struct {
	name  string
	title string
	run   func(*bench) error
}

// scenarios in the order in which they run.
var scenarios = []scenario{
	{"proxy", "Warm tokens, ES256: what `protect` adds to `reverse_proxy`", func(b *bench) error { return b.proxy("ES256") }},
	{"proxy-eddsa", "Warm tokens, EdDSA", func(b *bench) error { return b.proxy("EdDSA") }},
	{"proxy-rs256", "Warm tokens, RS256", func(b *bench) error { return b.proxy("RS256") }},
	{"gogc", "GOGC=100 and GOGC=400, on both sides", (*bench).collectorHeadroom},
	{"first-sight", "Own tokens at first sight, on the node that issued them and on another one", (*bench).firstSight},
	{"external", "Tokens of another issuer, at first sight and warm", (*bench).external},
	{"refuse", "Refusals beside Caddy's own `respond 401`, which gets the same bytes", (*bench).refuse},
	{"storm", "Good tokens beside a flood of bad ones from as many connections", (*bench).storm},
	{"mixed", "Everything at once on one site: three algorithms, four issuers, first sights, bad tokens, questions", (*bench).mixed},
	{"burst", "Bursts: everybody at once, out of silence", (*bench).bursts},
	{"cold", "Everybody comes back: right after a reload, right after a start", (*bench).cold},
	{"issue", "Tokens: `client_credentials`", (*bench).issue},
	{"refresh", "Refreshes, each of them durable", (*bench).refresh},
	{"codes", "Code exchanges, each of them durable", (*bench).codes},
	{"inquiries", "Introspection and revocation", (*bench).inquiries},
	{"signin", "The gate while passwords are guessed: argon2id, 19 MiB, 2 passes", (*bench).signIns},
	{"memory", "Memory after all of it", (*bench).memory},
	{"start", "Start and size", (*bench).start},
	{"connections", "Throughput over connections", (*bench).connections},
	{"idle", "Memory of idle connections", (*bench).idleConnections},
	{"revocations", "The gate while tokens are revoked", (*bench).revocationRates},
	{"growth", "Growth: latency, memory and start over stored families, SQLite", (*bench).growSQLite},
	{"growth-postgres", "Growth: latency, memory and start over stored families, PostgreSQL", (*bench).growPostgres},
}

// onRequest are those that run only when -only names them: they need the network once, for what others have built.
var onRequest = []scenario{
	{"peers", "Others on the same loads", (*bench).peers},
}

func scenarioNames() []string {
	var names []string
	for _, s := range slices.Concat(scenarios, onRequest) {
		names = append(names, s.name)
	}
	return names
}

// bench is a scenario at work.
type bench struct {
	*machine
	ctx     context.Context
	report  *report.Scenario
	cleanup []func()
}

// close ends the scenario's servers.
func (b *bench) close() {
	for i := len(b.cleanup) - 1; i >= 0; i-- {
		b.cleanup[i]()
	}
}

// atMost and atLeast note a goal of this scenario.
func (b *bench) atMost(name string, goal, measured float64, decimals int, unit string) {
	b.results.AtMost(b.report.Name, name, goal, measured, decimals, unit)
}

func (b *bench) atLeast(name string, goal, measured float64, decimals int, unit string) {
	b.results.AtLeast(b.report.Name, name, goal, measured, decimals, unit)
}

// draw writes a curve into the directory of -svg, if there is one.
func (b *bench) draw(file string, p *plot.Plot) error {
	if b.svg == "" {
		return nil
	}
	return errors.Join(os.MkdirAll(b.svg, 0o755), os.WriteFile(filepath.Join(b.svg, file), p.SVG(), 0o644)) //nolint:gosec // pictures for everybody
}
