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

// tableVariable names the file that `make cluster` and `make floods` collect what they measure in. While it is set the tests of many
// nodes, many clients and bad tokens do as much as they are asked to by hand.
const tableVariable = "GATEHOUSE_CLUSTER_TABLE"

// either is how much to do: in every run, or by hand.
func either[T any](always, byHand T) T {
	if os.Getenv(tableVariable) != "" {
		return byHand
	}
	return always
}

// measured says what was measured, and adds it to the table.
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
	fair []time.Duration // what they would have been on a machine that nobody else uses
}

func (m *times) add(d time.Duration) {
	fair := machine.Fair(d)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all, m.fair = append(m.all, d), append(m.fair, fair)
}

// quantile is the time that a part q of all stays within; all of them when it is 1.
func (m *times) quantile(q float64) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return quantileOf(m.all, q)
}

// fairQuantile is quantile of what the times would have been on a machine that nobody else uses.
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

// count is how many there are.
func (m *times) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.all)
}

func (m *times) String() string {
	round := func(q float64) time.Duration { return m.quantile(q).Round(100 * time.Microsecond) }
	return fmt.Sprintf("p50 %v, p99 %v, max %v (%d)", round(0.5), round(0.99), round(1), len(m.all))
}

// usualEnd and longestEnd are how long the end of something may take to reach everybody: 99 of 100, and all (rows T49, T84, G71 and
// K9, and docs/reliability.md).
const (
	usualEnd   = time.Second
	longestEnd = 5 * time.Second
)

// arrived fails the test when the end of something took too long to reach somebody. In every run there are too few for 99 of 100 to
// mean anything, and half of them have to reach it in that time.
func (m *times) arrived(t *testing.T, what string) { m.arrivedWithin(t, what, usualEnd) }

// arrivedWithin is arrived for ends that have another usual time.
func (m *times) arrivedWithin(t *testing.T, what string, usual time.Duration) {
	t.Helper()
	m.within(t, what, 1, longestEnd)
	m.within(t, what, either(0.5, 0.99), usual)
}

// within fails the test when that part of the times is beyond a bound. How busy the machine was is taken into account.
func (m *times) within(t *testing.T, what string, part float64, bound time.Duration) {
	t.Helper()
	if m.count() == 0 {
		t.Errorf("%s: nothing was measured", what)
	}
	if took := m.fairQuantile(part); took > bound {
		t.Errorf("%s: %.0f of 100 took %v (%v on the clock), want %v at most", what, 100*part, took, m.quantile(part), bound)
	}
}

// count asks the database of a cluster for a number.
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

// soon waits until something is so.
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

// concurrently runs a number of workers and waits for them.
func concurrently(n int, work func(i int)) {
	var working sync.WaitGroup
	for i := range n {
		working.Go(func() { work(i) })
	}
	working.Wait()
}

// share is the part of a whole that worker i of n does.
func share(whole, n, i int) int {
	part := whole / n
	if i < whole%n {
		part++
	}
	return part
}
