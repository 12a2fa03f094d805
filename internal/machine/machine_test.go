package machine

import (
	"runtime"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for name, row := range map[string]struct {
		text string
		want int // -1: an error
	}{
		"busy": {"0.33 0.76 0.76 5/103 29290\n", 4}, "idle": {"0.00 0.00 0.00 1/95 1\n", 0}, "empty": {"", -1}, "cut": {"0.33 0.76 0.76", -1}, "nobody": {"0 0 0 0/95 1\n", -1},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := parse(row.text); (err != nil) != (row.want < 0) || err == nil && got != row.want {
				t.Errorf("%d, %v", got, err)
			}
		})
	}
}

func TestShare(t *testing.T) {
	now := time.Now()
	var samples []sample
	for i, running := range []int{100, 8, 8, 0, 1} { // a second apart, the last one now
		samples = append(samples, sample{now.Add(time.Duration(i-4) * time.Second), running})
	}
	for name, row := range map[string]struct {
		since time.Duration
		want  float64
	}{
		"idle": {500 * time.Millisecond, 1}, "busy before": {2500 * time.Millisecond, 17.0 / 8}, "nothing is known of before": {time.Hour, 117.0 / 10},
	} {
		t.Run(name, func(t *testing.T) {
			if got := share(samples, now.Add(-row.since), 2); got != row.want {
				t.Errorf("%v, want %v", got, row.want)
			}
		})
	}
	if got := share(nil, now, 2); got != 1 {
		t.Errorf("%v without samples", got)
	}
}

// TestStretchUndoesFair: a time exactly at its bound on a busy machine is within it by either function.
func TestStretchUndoesFair(t *testing.T) {
	mu.Lock()
	before := samples
	samples = []sample{{time.Now().Add(-time.Hour), 0}, {time.Now(), 10 * runtime.NumCPU()}}
	mu.Unlock()
	defer func() { mu.Lock(); defer mu.Unlock(); samples = before }()
	if stretched, fair := Stretch(time.Second), Fair(10*time.Second); stretched != 5*time.Second || fair != 2*time.Second {
		t.Errorf("a second becomes %v, and ten seconds become %v", stretched, fair)
	}
}
