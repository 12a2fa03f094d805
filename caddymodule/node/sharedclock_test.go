package node

import (
	"testing"
	"time"
)

// wall is a clock that a test sets. It has no monotonic reading, like a clock set by hand.
type wall struct{ at time.Time }

func (w *wall) now() time.Time { return w.at }

// TestF17TheSharedClock: a node's clock stepped, off by 90 s or an hour, or beyond 2038 → the store's time counts and never goes back.
func TestF17TheSharedClock(t *testing.T) {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	t.Run("without a clock of the store", func(t *testing.T) {
		w := &wall{start}
		c := newSharedClock(w.now)
		for _, step := range []struct {
			name string
			set  time.Duration // of this node's clock, from the start
			want time.Duration
		}{
			{"goes on", time.Minute, time.Minute},
			{"jumps ahead", time.Hour, time.Hour},
			{"is set back", 10 * time.Minute, time.Hour},
			{"is set back further", -time.Hour, time.Hour},
			{"catches up", time.Hour + time.Second, time.Hour + time.Second},
			{"goes beyond 2038", 15 * 365 * 24 * time.Hour, 15 * 365 * 24 * time.Hour},
		} {
			w.at = start.Add(step.set)
			if got := c.Now().Sub(start).Truncate(time.Second); got != step.want {
				t.Errorf("%s: the time is %s, want %s", step.name, got, step.want)
			}
		}
	})
	t.Run("what has passed has passed", func(t *testing.T) {
		c := newSharedClock(time.Now) // with a monotonic reading
		first := c.Now()
		c.mu.Lock()
		c.told = c.told.Add(time.Hour) // as if the wall clock had been set back by an hour since
		c.mu.Unlock()
		second := c.Now()
		for third := c.Now(); !third.After(second); third = c.Now() {
			if third.Before(second) {
				t.Fatalf("the time went from %s to %s", second, third)
			}
		}
		if second.Before(first.Add(time.Hour)) {
			t.Errorf("the time went back from %s to %s", first.Add(time.Hour), second)
		}
	})
	t.Run("with a clock of the store", func(t *testing.T) {
		for name, ahead := range map[string]time.Duration{"+90 s": 90 * time.Second, "-90 s": -90 * time.Second, "+1 h": time.Hour} {
			w := &wall{start.Add(ahead)}
			c := newSharedClock(w.now)
			if !c.isDue() {
				t.Fatalf("%s: not due at the beginning", name)
			}
			if skew, alarm := c.set(w.at, start, w.at); skew != -ahead || !alarm {
				t.Errorf("%s: skew %s, alarm %t", name, skew, alarm)
			}
			if got := c.Now(); !got.Equal(start) {
				t.Errorf("%s: the time is %s, want the store's", name, got)
			}
			w.at = w.at.Add(skewInterval)
			if got := c.Now(); !got.Equal(start.Add(skewInterval)) || !c.isDue() {
				t.Errorf("%s: later it is %s, due %t", name, got, c.isDue())
			}
			w.at = start.Add(time.Minute)
			if skew, changed := c.set(w.at, start.Add(time.Minute), w.at); skew != 0 || !changed {
				t.Errorf("%s: mended, skew %s, changed %t", name, skew, changed)
			}
		}
	})
	t.Run("a slow answer says nothing", func(t *testing.T) {
		w := &wall{start}
		c := newSharedClock(w.now)
		if skew, changed := c.set(start, start.Add(time.Hour), start.Add(2*skewPrecision)); skew != 0 || changed {
			t.Errorf("skew %s, changed %t", skew, changed)
		}
	})
}
