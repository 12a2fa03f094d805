package headroom

import (
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

const (
	// lookInterval is how often it is looked whether the process is at rest.
	lookInterval = 500 * time.Millisecond
	// restAllocation is what a process at rest allocates at most between two looks.
	restAllocation = 1 << 20
	// restLooks is for how many looks it has to be at rest.
	restLooks = 2
	// leastSpare is what it has to be worth, and leastWork what has to be allocated since the last time, or half of what is kept if
	// that is more: some of what is spare lies between what is kept, and cannot be given back however often one tries.
	leastSpare = 12 << 20
	leastWork  = 32 << 20
	// leastPause is how often memory is given back at most: to ask for it again costs more than to keep it.
	leastPause = 10 * time.Second
)

var onceBack sync.Once

// GiveBack gives the memory that a burst of requests has left over back to the system, from now on and for the whole process,
// as soon as the process is at rest. Go itself gives back only what is more than a tenth above the size at which it would collect
// next: after a burst a heap stays twice as large as what is kept, for good. A process that has work is never disturbed.
// Only the first call counts.
func GiveBack() {
	onceBack.Do(func() {
		r := &rester{}
		go func() {
			for now := range time.Tick(lookInterval) {
				if r.look(usageNow(), now) {
					debug.FreeOSMemory()
					r.gaveBack(usageNow(), now)
				}
			}
		}()
	})
}

// rester finds out when a process has come to rest.
type rester struct {
	last  usage
	looks int       // since when it is at rest
	given usage     // when memory was given back last
	at    time.Time // of that
}

// look reports whether memory should be given back.
func (r *rester) look(u usage, now time.Time) bool {
	if u.allocated-r.last.allocated > restAllocation {
		r.looks = 0
	} else {
		r.looks++
	}
	r.last = u
	work := max(leastWork, u.live/2) // a collection costs what is kept
	return r.looks >= restLooks && u.spare >= leastSpare && u.allocated-r.given.allocated >= work && now.Sub(r.at) >= leastPause
}

func (r *rester) gaveBack(u usage, now time.Time) { r.given, r.last, r.at = u, u, now }

// usage is what a heap takes.
type usage struct {
	allocated uint64 // ever
	live      uint64 // what the last collection found in use
	spare     uint64 // what the process has of the system beyond that
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
