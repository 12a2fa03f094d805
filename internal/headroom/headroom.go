// Package headroom gives the garbage collector room.
//
// Go collects when the heap has doubled. A gateway keeps some ten megabytes and makes as much garbage in a fraction of a
// second, so that it collects many times a second and spends a tenth of its time on that. A collection costs what is kept, not
// what is thrown away: with a fixed room between two of them there are far fewer, for memory that is known beforehand.
package headroom

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

const (
	// usual is GOGC when nobody says anything: the heap may double.
	usual = 100
	// leastLive is what counts as kept before the first collection has looked, and at least.
	leastLive = 4 << 20
)

var once sync.Once

// Keep makes collections wait, from now on and for the whole process, until the heap has grown by room bytes or has doubled,
// whichever is more. It does nothing when the environment has GOGC, for then somebody has chosen; and it stops for good when
// anybody else sets the percentage while the process runs. A memory limit (GOMEMLIMIT) stays above all. Only the first call
// counts.
func Keep(room uint64) {
	if _, chosen := os.LookupEnv("GOGC"); chosen || room == 0 {
		return
	}
	once.Do(func() { (&keeper{room: room, percent: usual}).begin() })
}

// keeper sets the percentage anew after each collection.
type keeper struct {
	room    uint64
	percent int // that is set
}

// cycle is garbage from its birth on, so that its finalizer runs after each collection.
type cycle struct{ keeper *keeper }

func (k *keeper) begin() {
	if k.adjust() {
		runtime.SetFinalizer(&cycle{k}, (*cycle).ended)
	}
}

func (c *cycle) ended() {
	if c.keeper.adjust() {
		runtime.SetFinalizer(c, (*cycle).ended)
	}
}

// adjust sets the percentage for what is kept now. False: somebody else has set it, and it is theirs now.
func (k *keeper) adjust() bool {
	wanted := percentFor(k.room, live())
	if wanted == k.percent {
		return true
	}
	if before := debug.SetGCPercent(wanted); before != k.percent {
		debug.SetGCPercent(before)
		return false
	}
	k.percent = wanted
	return true
}

// percentFor is what lets the heap grow by room, in steps: each change stops the process for a moment.
func percentFor(room, live uint64) int {
	const step = 25
	percent := int(room * 100 / max(live, leastLive)) //nolint:gosec // room is some megabytes
	return max(usual, percent/step*step)
}

// live is how much the last collection found in use.
func live() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
