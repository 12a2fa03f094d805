//go:build linux

package rig

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gatehouse-auth/gatehouse/internal/machine"
)

// tableVariable is the environment variable with the file in which `make cluster` and `make floods` collect measurements. If it is set,
// the tests of many nodes, many clients and bad tokens do the larger runs.
const tableVariable = "GATEHOUSE_CLUSTER_TABLE"

// either returns how much to do: always in every run, byHand if tableVariable is set.
func either[T any](always, byHand T) T {
	if os.Getenv(tableVariable) != "" {
		return byHand
	}
	return always
}

// besideOthers lets the test run beside others, because its nodes are idle for much of the time. The larger runs measure, and run alone.
func besideOthers(t *testing.T) {
	t.Helper()
	if either(true, false) {
		t.Parallel()
	}
}

// measured logs a measurement, and adds it to the table.
func measured(t *testing.T, what, format string, values ...any) {
	t.Helper()
	text := fmt.Sprintf(format, values...)
	if t.Failed() {
		text = "FAILED: " + text
	}
	t.Logf("%s: %s", what, text)
	table := os.Getenv(tableVariable)
	if table == "" {
		return
	}
	file, err := os.OpenFile(table, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprintf(file, "| %s | %s |\n", what, text)
	if err := file.Close(); err != nil {
		t.Error(err)
	}
	if err != nil {
		t.Error(err)
	}
}

// times are durations that several goroutines measure, each when it has just ended.
type times struct {
	mu   sync.Mutex
	all  []time.Duration
	fair []time.Duration // what they would have been on an idle machine
}

func (m *times) add(d time.Duration) {
	fair := machine.Fair(d)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all, m.fair = append(m.all, d), append(m.fair, fair)
}

// quantile returns the time within which the part q of all ended; 1 means all.
func (m *times) quantile(q float64) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return quantileOf(m.all, q)
}

// fairQuantile is quantile of the times on an idle machine.
func (m *times) fairQuantile(q float64) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return quantileOf(m.fair, q)
}

func quantileOf(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[int(q*float64(len(all)-1))]
}

// count returns how many there are.
func (m *times) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.all)
}

func (m *times) String() string {
	round := func(q float64) time.Duration { return m.quantile(q).Round(100 * time.Microsecond) }
	return fmt.Sprintf("p50 %v, p99 %v, max %v (%d)", round(0.5), round(0.99), round(1), len(m.all))
}

// usualEnd and longestEnd are how long the end of something may take to reach all nodes: in 99 of 100 cases, and in all (rows T49, T84,
// G71 and K9, and docs/reliability.md).
const (
	usualEnd   = time.Second
	longestEnd = 5 * time.Second
)

// arrived fails the test if an end took too long to reach a node. In a short run there are too few ends for a 99th percentile, and half
// of them must arrive within the usual time.
func (m *times) arrived(t *testing.T, what string) { m.arrivedWithin(t, what, usualEnd) }

// arrivedWithin is arrived for ends with another usual time.
func (m *times) arrivedWithin(t *testing.T, what string, usual time.Duration) {
	t.Helper()
	m.within(t, what, 1, longestEnd)
	m.within(t, what, either(0.5, 0.99), usual)
}

// within fails the test if that part of the times exceeds a bound. It takes into account how busy the machine was.
func (m *times) within(t *testing.T, what string, part float64, bound time.Duration) {
	t.Helper()
	if m.count() == 0 {
		t.Errorf("%s: nothing was measured", what)
	}
	if took := m.fairQuantile(part); took > bound {
		t.Errorf("%s: %.0f of 100 took %v (%v on the clock), want %v at most", what, 100*part, took, m.quantile(part), bound)
	}
}

// count queries the database of a cluster for a number.
func (c *Cluster) count(t *testing.T, query string, arguments ...any) (n int) {
	t.Helper()
	db, err := pgx.Connect(t.Context(), c.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(t.Context()) }()
	if err := db.QueryRow(t.Context(), query, arguments...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// soon waits until a condition holds.
func soon(t *testing.T, what string, is func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !is() {
		if time.Since(began) > patience {
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
	return time.Since(began)
}

// concurrently runs n workers and waits for them.
func concurrently(n int, work func(i int)) {
	var working sync.WaitGroup
	for i := range n {
		working.Go(func() { work(i) })
	}
	working.Wait()
}

// share returns the part of a whole that worker i of n does.
func share(whole, n, i int) int {
	part := whole / n
	if i < whole%n {
		part++
	}
	return part
}
