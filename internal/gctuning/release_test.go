package gctuning

import (
	"os"
	"runtime/metrics"
	"testing"
	"time"
)

func TestReleaseWhenIdleWaitsForRest(t *testing.T) {
	const mib = 1 << 20
	type look struct {
		allocated, spare, live uint64 // MiB, allocated since the look before
		after                  time.Duration
		want                   bool
	}
	for _, test := range []struct {
		name  string
		looks []look
	}{
		{"a burst and rest", []look{{allocated: 500, spare: 100}, {spare: 100}, {spare: 100, want: true}}},
		{"work without end", []look{{allocated: 500, spare: 100}, {allocated: 2, spare: 100}, {allocated: 2, spare: 100}, {allocated: 2, spare: 100}}},
		{"a little work", []look{{allocated: 500, spare: 100}, {allocated: 1, spare: 100}, {allocated: 1, spare: 100, want: true}}},
		{"work in between", []look{{allocated: 500, spare: 100}, {spare: 100}, {allocated: 2, spare: 100}, {spare: 100}, {spare: 100, want: true}}},
		{"too little to give", []look{{allocated: 500, spare: 11}, {spare: 11}, {spare: 11}}},
		{"a large heap", []look{
			{allocated: 500, spare: 100, live: 4096}, {spare: 100, live: 4096}, {spare: 100, live: 4096},
			{allocated: 1600, spare: 100, live: 4096}, {spare: 100, live: 4096}, {spare: 100, live: 4096, want: true},
		}},
		{"it is given once", []look{{allocated: 500, spare: 100}, {spare: 100}, {spare: 100, want: true}, {spare: 50}, {spare: 50, after: time.Minute}}},
		{"and again after work", []look{
			{allocated: 500, spare: 100}, {spare: 100}, {spare: 100, want: true},
			{allocated: 40, spare: 50, after: time.Minute}, {spare: 50}, {spare: 50, want: true},
		}},
		{"not at once", []look{
			{allocated: 500, spare: 100}, {spare: 100}, {spare: 100, want: true},
			{allocated: 40, spare: 50}, {spare: 50}, {spare: 50}, {spare: 50, after: 9 * time.Second, want: true},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, now, allocated := &idleDetector{}, time.Unix(1_800_000_000, 0), uint64(0)
			for i, l := range test.looks {
				now = now.Add(l.after + checkInterval)
				allocated += l.allocated * mib
				u := usage{allocated: allocated, spare: l.spare * mib, live: l.live * mib}
				got := r.check(u, now)
				if got != l.want {
					t.Errorf("look %d: %v", i, got)
				}
				if got {
					r.didRelease(u, now)
				}
			}
		})
	}
}

// rest makes garbage until the memory of it has gone back. On a busy machine a burst takes so long that its middle can pass for
// rest: what is left over after that is too little to be given back, and it takes another burst.
func rest() {
	ReleaseWhenIdle()
	for deadline := time.Now().Add(5 * time.Minute); !burst(); {
		if time.Now().After(deadline) {
			println("spare is", usageNow().spare, "released is", released())
			os.Exit(1)
		}
	}
	os.Stdout.WriteString("given back")
}

// burst makes garbage, and reports whether its memory goes back in the time that two givings and their pause may take.
func burst() bool {
	for range 10 {
		garbage = make([]byte, 16<<20)
		for i := 0; i < len(garbage); i += 4096 {
			garbage[i] = 1
		}
	}
	garbage = nil
	for deadline := time.Now().Add(3 * leastPause); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if usageNow().spare <= leastSpare && released() >= 16<<20 {
			return true
		}
	}
	return false
}

// released is what the heap had of the system and has given back.
func released() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

var garbage []byte
