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

// times are durations that several goroutines measure.
type times struct {
	mu  sync.Mutex
	all []time.Duration
}

func (m *times) add(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = append(m.all, d)
}

// forget begins anew.
func (m *times) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = nil
}

// quantile is the time that a part q of all stays within; all of them when it is 1.
func (m *times) quantile(q float64) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.all) == 0 {
		return 0
	}
	slices.Sort(m.all)
	return m.all[int(q*float64(len(m.all)-1))]
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

// mostForAnEnd is how long the end of something may take to reach everybody. A second is aimed at, and five are the most that is
// promised; the machine may be busy, and what was measured is in the log.
const (
	mostForAnEnd = 20 * time.Second
	mostPromised = 5 * time.Second
)

// arrived fails the test when the end of something took too long to reach somebody, or took half of them longer than is promised, which
// no moment of a busy machine brings about.
func (m *times) arrived(t *testing.T, what string) {
	t.Helper()
	m.within(t, what, mostForAnEnd)
	if half := m.quantile(0.5); half > mostPromised {
		t.Errorf("%s: half of them took %v, want %v at most", what, half, mostPromised)
	}
}

// within fails the test when one of the times is beyond a bound, which is far above what is aimed at.
func (m *times) within(t *testing.T, what string, bound time.Duration) {
	t.Helper()
	if most := m.quantile(1); most > bound {
		t.Errorf("%s: one took %v, want %v at most", what, most, bound)
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
