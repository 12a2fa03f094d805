package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gatehouse-auth/gatehouse/bench/internal/postgres"
	"github.com/gatehouse-auth/gatehouse/bench/internal/proc"
	"github.com/gatehouse-auth/gatehouse/bench/internal/report"
)

// machine holds what the scenarios of a run share.
type machine struct {
	options
	out      io.Writer
	results  *report.Report
	upstream *proc.Process
	// servers are the processors reserved for the servers; none: no process is bound.
	servers proc.CPUs
	// database starts PostgreSQL on its first call.
	database func() (*postgres.Server, error)
	closers  []func()
}

// run builds the programs under test and runs the scenarios that the flags select.
func run(ctx context.Context, o options, out io.Writer) error {
	chosen, err := choose(o)
	if err != nil {
		return err
	}
	if err := build(ctx, &o); err != nil {
		return err
	}
	m := &machine{options: o, out: out, results: new(report.Report)}
	defer m.close()
	m.database = sync.OnceValues(m.startDatabase)
	m.bindProcesses()
	if m.upstream, err = startUpstream(ctx); err != nil {
		return fmt.Errorf("starting the upstream: %w", err)
	}
	m.closers = append(m.closers, m.upstream.Stop)
	m.conditions()
	for _, s := range chosen {
		if err := m.scenario(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	m.results.Summary(out)
	return m.writeJSON()
}

// choose returns the scenarios that -only names, or all except those of onRequest.
func choose(o options) ([]scenario, error) {
	if o.check {
		return []scenario{checkScenario}, nil
	}
	only := strings.FieldsFunc(o.only, func(r rune) bool { return r == ',' })
	for _, name := range only {
		if !slices.Contains(scenarioNames(), name) {
			return nil, fmt.Errorf("no scenario is called %q: use %s", name, strings.Join(scenarioNames(), ", "))
		}
	}
	if len(only) == 0 {
		return scenarios, nil
	}
	return slices.DeleteFunc(slices.Concat(scenarios, onRequest), func(s scenario) bool {
		return !slices.Contains(only, s.name)
	}), nil
}

func (m *machine) close() {
	for _, end := range slices.Backward(m.closers) {
		end()
	}
}

func (m *machine) startDatabase() (*postgres.Server, error) {
	s, err := postgres.Start()
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL: %w", err)
	}
	m.closers = append(m.closers, func() { _ = s.Close() })
	return s, nil
}

// bindProcesses reserves processors for the servers where that is possible, and records whether it was.
func (m *machine) bindProcesses() {
	if !m.pin {
		m.condition("Nothing is bound to processors.")
		return
	}
	servers, others, err := proc.Halves(m.procs)
	if err == nil {
		err = proc.BindSelf(others)
	}
	if err != nil {
		m.condition("Nothing is bound to processors: %v.", err)
		return
	}
	m.servers = servers
	m.condition("The servers run on the processors %s; the load, the upstream and PostgreSQL on %s.", servers, others)
}

// conditions records the machine and the settings of the measurement.
func (m *machine) conditions() {
	m.condition("%s, %s/%s, %d processors; servers with GOMAXPROCS=%d and GOGC=%d.",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), m.procs, m.gogc)
	if m.check {
		m.condition("The least of %d rounds of %d requests a side, and of as many more in each further try, over %d connections.", checkRounds, checkRequests, m.conns)
	} else {
		m.condition("Where nothing else is said: %d connections, medians of %d rounds of %d requests a side.", m.conns, m.rounds, m.requests)
	}
	for _, c := range m.results.Conditions {
		_, _ = fmt.Fprintln(m.out, "-", c)
	}
}

func (m *machine) condition(format string, arguments ...any) {
	m.results.Conditions = append(m.results.Conditions, fmt.Sprintf(format, arguments...))
}

// scenario runs one scenario on servers of its own, so that memory in use by another does not distort it.
func (m *machine) scenario(ctx context.Context, s scenario) error {
	b := &bench{machine: m, ctx: ctx, report: &report.Scenario{Name: s.name, Title: s.title}}
	defer b.close()
	start := time.Now()
	err := attempt(func() { s.run(b) })
	b.report.Seconds = time.Since(start).Seconds()
	m.results.Scenarios = append(m.results.Scenarios, b.report)
	b.report.Markdown(m.out)
	fmt.Fprintf(os.Stderr, "bench: %s took %.1f s\n", s.name, b.report.Seconds)
	return err
}

func (m *machine) writeJSON() error {
	if m.json == "" {
		return nil
	}
	file, err := os.Create(m.json)
	if err != nil {
		return err
	}
	return errors.Join(m.results.JSON(file), file.Close())
}
