// Package gctuning makes the garbage collector run less often while a process works, and returns spare memory to the
// operating system when it is idle.
//
// By default, Go collects when the heap has doubled. A gateway keeps some ten megabytes and allocates as much in a
// fraction of a second, so that it collects many times a second and spends a tenth of its processor time on that. The
// cost of a collection depends on what is kept. A fixed allowance between two collections makes them rare, for a known
// amount of memory.
package gctuning

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

const (
	// usual is Go's default for GOGC: the heap may double.
	usual = 100
	// leastLive is the smallest live heap to calculate with, in bytes. It is also used before the first collection.
	leastLive = 4 << 20
)

var once sync.Once

// AllowGrowth delays each collection of the process until the heap has grown by room bytes or has doubled, whichever is
// more. It does nothing if the environment has GOGC, and stops for good when other code sets the percentage. A memory
// limit (GOMEMLIMIT) takes precedence. Calls after the first do nothing.
func AllowGrowth(room uint64) {
	if _, chosen := os.LookupEnv("GOGC"); chosen || room == 0 {
		return
	}
	once.Do(func() { (&tuner{room: room, percent: usual}).begin() })
}

// tuner sets the percentage again after each collection.
type tuner struct {
	room    uint64
	percent int // currently set
}

// cycle is unreachable as soon as it is made, so that its finalizer runs after the next collection.
type cycle struct{ tuner *tuner }

func (t *tuner) begin() {
	if t.adjust() {
		runtime.SetFinalizer(&cycle{t}, (*cycle).ended)
	}
}

func (c *cycle) ended() {
	if c.tuner.adjust() {
		runtime.SetFinalizer(c, (*cycle).ended)
	}
}

// adjust sets the percentage for the current live heap. It returns false if other code has set the percentage.
func (t *tuner) adjust() bool {
	wanted := percentFor(t.room, live())
	if wanted == t.percent {
		return true
	}
	if before := debug.SetGCPercent(wanted); before != t.percent {
		debug.SetGCPercent(before)
		return false
	}
	t.percent = wanted
	return true
}

// percentFor returns the percentage that lets the heap grow by room. It is rounded, because each change briefly stops
// the process.
func percentFor(room, live uint64) int {
	const step = 25
	percent := int(room * 100 / max(live, leastLive)) //nolint:gosec // room is some megabytes
	return max(usual, percent/step*step)
}

// live returns the size of the live heap at the last collection, in bytes.
func live() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
