package headroom

import (
	"os"
	"runtime/metrics"
	"testing"
	"time"
)

func TestGiveBackWaitsForRest(t *testing.T) {
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
			r, now, allocated := &rester{}, time.Unix(1_800_000_000, 0), uint64(0)
			for i, l := range test.looks {
				now = now.Add(l.after + lookInterval)
				allocated += l.allocated * mib
				u := usage{allocated: allocated, spare: l.spare * mib, live: l.live * mib}
				got := r.look(u, now)
				if got != l.want {
					t.Errorf("look %d: %v", i, got)
				}
				if got {
					r.gaveBack(u, now)
				}
			}
		})
	}
}

// rest makes garbage and waits until its memory has gone back.
func rest() {
	GiveBack()
	for range 10 {
		garbage = make([]byte, 16<<20)
		for i := 0; i < len(garbage); i += 4096 {
			garbage[i] = 1
		}
	}
	garbage = nil
	for deadline := time.Now().Add(2 * time.Minute); usageNow().spare > leastSpare; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			println("spare is", usageNow().spare)
			os.Exit(1)
		}
	}
	released := []metrics.Sample{{Name: "/memory/classes/heap/released:bytes"}}
	if metrics.Read(released); released[0].Value.Uint64() < 16<<20 {
		println("released is", released[0].Value.Uint64())
		os.Exit(1)
	}
	os.Stdout.WriteString("given back")
}

var garbage []byte
