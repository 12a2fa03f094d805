package gctuning

import (
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

const (
	// checkInterval is the time between two checks whether the process is idle.
	checkInterval = 500 * time.Millisecond
	// idleAllocation is how many bytes an idle process may allocate between two checks.
	idleAllocation = 1 << 20
	// idleChecks is how many checks in a row must find the process idle.
	idleChecks = 2
	// A release needs at least leastSpare spare bytes, and leastWork bytes or half of the live heap allocated since the
	// last one. Some spare memory lies between live objects and cannot be released, however often one tries.
	leastSpare = 12 << 20
	leastWork  = 32 << 20
	// leastPause is the least time between two releases: getting memory back costs more than keeping it.
	leastPause = 10 * time.Second
)

var onceRelease sync.Once

// ReleaseWhenIdle returns the memory that a burst of requests leaves behind to the operating system as soon as the
// process is idle. Go itself returns only what exceeds its next heap goal by more than a tenth, so that after a burst the
// process would keep twice the memory it needs. A busy process is never disturbed. Calls after the first do nothing.
func ReleaseWhenIdle() {
	onceRelease.Do(func() {
		d := &idleDetector{}
		go func() {
			for now := range time.Tick(checkInterval) {
				if d.check(usageNow(), now) {
					debug.FreeOSMemory()
					d.didRelease(usageNow(), now)
				}
			}
		}()
	})
}

// idleDetector decides when to release memory.
type idleDetector struct {
	last       usage
	checks     int   // how many in a row have found the process idle
	released   usage // at the last release
	releasedAt time.Time
}

// check reports whether memory should be released now.
func (d *idleDetector) check(u usage, now time.Time) bool {
	if u.allocated-d.last.allocated > idleAllocation {
		d.checks = 0
	} else {
		d.checks++
	}
	d.last = u
	work := max(leastWork, u.live/2) // a collection costs what is kept
	return d.checks >= idleChecks && u.spare >= leastSpare && u.allocated-d.released.allocated >= work && now.Sub(d.releasedAt) >= leastPause
}

func (d *idleDetector) didRelease(u usage, now time.Time) {
	d.released, d.last, d.releasedAt = u, u, now
}

// usage is the state of the heap, in bytes.
type usage struct {
	allocated uint64 // since the start of the process
	live      uint64 // at the last collection
	spare     uint64 // held by the process beyond live
}

func usageNow() usage {
	sample := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(sample)
	of := func(i int) uint64 { return sample[i].Value.Uint64() }
	held, live := of(2)+of(3)+of(4), of(1)
	return usage{allocated: of(0), live: live, spare: held - min(held, live)}
}
