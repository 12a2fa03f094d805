package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/bench/internal/load"
	"github.com/gatehouse-auth/gatehouse/bench/internal/plot"
	"github.com/gatehouse-auth/gatehouse/bench/internal/report"
)

// scenario answers one question with measurements.
type scenario struct {
	name  string
	title string
	run   func(*bench)
}

// scenarios lists the scenarios in the order in which they run.
var scenarios = []scenario{
	{"proxy", "Warm tokens, ES256: what `protect` adds to `reverse_proxy`", (*bench).proxy},
	{"gogc", "GOGC=100 and GOGC=400, on both sides", (*bench).collectorHeadroom},
	{"first-sight", "Own tokens at first sight, on the node that issued them and on another one", (*bench).firstSight},
	{"external", "Tokens of another issuer, at first sight and warm", (*bench).external},
	{"refuse", "Refusals beside Caddy's own `respond 401`, which gets the same bytes", (*bench).refuse},
	{"storm", "Good tokens beside a flood of bad ones from as many connections", (*bench).storm},
	{"mixed", "Everything at once on one site: three algorithms, four issuers, first sights, bad tokens, introspection", (*bench).mixed},
	{"burst", "Bursts: everybody at once, out of silence", (*bench).bursts},
	{"cold", "Everybody comes back: right after a reload, right after a start", (*bench).cold},
	{"issue", "Tokens: `client_credentials`", (*bench).issue},
	{"refresh", "Refreshes, each of them durable", (*bench).refresh},
	{"codes", "Code exchanges, each of them durable", (*bench).codes},
	{"openid", "OpenID Connect: ID tokens, userinfo, published documents", (*bench).openID},
	{"sessions", "Sessions of browsers at a host, beside bearer tokens", (*bench).sessions},
	{"machines", "Programs: assertions in place of a secret, personal access tokens in place of bearer tokens", (*bench).machines},
	{"mcp", "Calls of tools: what `mcp` and rules for tools add to `protect`", (*bench).mcp},
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

// onRequest lists the scenarios that run only when -only names them. They need the network once, to download other
// projects.
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

// bench runs one scenario. Like a test, it ends at the first error, because each step needs the one before. Its
// methods, and other functions that run in its goroutine, therefore end the scenario with check and must instead of
// returning errors.
type bench struct {
	*machine
	ctx     context.Context
	report  *report.Scenario
	cleanup []func()
}

// failure is an error that ends a scenario.
type failure struct{ error }

// check ends the scenario if there is an error.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// must returns the value, or ends the scenario if there is an error.
func must[T any](value T, err error) T {
	check(err)
	return value
}

// attempt runs a step and returns the error that ended it.
func attempt(step func()) (err error) {
	defer func() {
		switch ended := recover().(type) {
		case nil:
		case failure:
			err = ended.error
		default:
			panic(ended)
		}
	}()
	step()
	return nil
}

// named runs a step and prefixes the error that ends it with name.
func named(name string, step func()) {
	if err := attempt(step); err != nil {
		check(fmt.Errorf("%s: %w", name, err))
	}
}

// close stops the scenario's servers.
func (b *bench) close() {
	for _, end := range slices.Backward(b.cleanup) {
		end()
	}
}

// atMost and atLeast record a goal of this scenario.
func (b *bench) atMost(name string, goal, measured float64, decimals int, unit string) {
	b.results.AtMost(b.report.Name, name, goal, measured, decimals, unit)
}

func (b *bench) atLeast(name string, goal, measured float64, decimals int, unit string) {
	b.results.AtLeast(b.report.Name, name, goal, measured, decimals, unit)
}

// send sends a load, over as many connections as the flags say.
func (b *bench) send(l load.Load, count int) { must(l.Send(b.ctx, b.conns, count)) }

func (b *bench) pause(d time.Duration) {
	select {
	case <-b.ctx.Done():
		check(b.ctx.Err())
	case <-time.After(d):
	}
}

// settle gives a server time to return unused memory to the system.
func (b *bench) settle() {
	if b.quick {
		b.pause(time.Second / 4)
		return
	}
	b.pause(3 * time.Second)
}

// draw writes a curve into the directory of -svg. It does nothing if -svg is not set.
func (b *bench) draw(file string, p *plot.Plot) {
	if b.svg == "" {
		return
	}
	check(os.MkdirAll(b.svg, 0o755))                                //lint:ignore gosec the pictures are public
	check(os.WriteFile(filepath.Join(b.svg, file), p.SVG(), 0o644)) //lint:ignore gosec the pictures are public
}
