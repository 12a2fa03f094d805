package attempts

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/storetest"
)

func TestCounter(t *testing.T) {
	storetest.RunAttempts(t, func(*testing.T) store.AttemptCounter { return NewCounter(1000) })
}

// TestCounterIsBounded floods the counter with names. It never holds more than its limit, and a bucket is kept as long as fewer than half
// the limit failed after it.
func TestCounterIsBounded(t *testing.T) {
	for _, limit := range []int{-1, 0, 1, 2, 3, 10, 101, 1000} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			a, now := NewCounter(limit), time.Unix(1, 0)
			for i := range 10 * max(limit, 10) {
				a.Fail(t.Context(), fmt.Sprint(i), time.Hour, now)
				if held := len(a.current) + len(a.previous); held > max(limit, 2) {
					t.Fatalf("%d buckets are held", held)
				}
				oldest := max(i-a.half+1, 0)
				if n, _ := a.Failures(t.Context(), fmt.Sprint(oldest), now); n != 1 {
					t.Fatalf("bucket %d is forgotten after %d others", oldest, i-oldest)
				}
			}
		})
	}
}

// TestForgiveUncoversNothing forgives buckets in each state that the two generations can leave them in, down to the last failure and
// beyond. The state in the previous generation never reappears.
func TestForgiveUncoversNothing(t *testing.T) {
	now := time.Unix(1, 0)
	for _, c := range []struct {
		name          string
		before, after int // failures before and after the bucket's generation became the previous one
	}{
		{"current generation", 0, 3},
		{"previous generation", 3, 0},
		{"moved into the current one", 3, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			const limit = 8
			a := NewCounter(limit)
			fail := func(bucket string, times int) {
				for range times {
					a.Fail(t.Context(), bucket, time.Hour, now)
				}
			}
			fail("b", c.before)
			for i := range limit / 2 {
				fail(fmt.Sprint("other ", i), 1)
			}
			fail("b", c.after)
			for left := c.before + c.after - 1; left >= -1; left-- {
				a.Forgive(t.Context(), "b", now)
				if n, until := a.Failures(t.Context(), "b", now); n != max(left, 0) || until.IsZero() != (n == 0) {
					t.Fatalf("%d failures are left until %v, want %d", n, until, max(left, 0))
				}
			}
			later := now.Add(time.Minute)
			if n, until := a.Fail(t.Context(), "b", time.Hour, later); n != 1 || !until.Equal(later.Add(time.Hour)) {
				t.Errorf("the next failure is number %d of a window until %v", n, until)
			}
		})
	}
}

// TestForgiveCostsNobodyAPlace forgives every bucket that is held, and some that are not. This evicts and creates no bucket, and a window
// that is over stays over.
func TestForgiveCostsNobodyAPlace(t *testing.T) {
	const limit = 10
	a, now := NewCounter(limit), time.Unix(1, 0)
	for i := range limit {
		for range 3 {
			a.Fail(t.Context(), fmt.Sprint(i), time.Hour, now)
		}
	}
	for i := range limit {
		a.Forgive(t.Context(), fmt.Sprint(i), now)
		a.Forgive(t.Context(), fmt.Sprint("unknown ", i), now)
	}
	for i := range limit {
		if n, _ := a.Failures(t.Context(), fmt.Sprint(i), now); n != 2 {
			t.Errorf("bucket %d has %d failures, want 2", i, n)
		}
	}
	if held := len(a.current) + len(a.previous); held != limit {
		t.Errorf("%d buckets are held, want %d", held, limit)
	}
	a.Forgive(t.Context(), "0", now.Add(time.Hour))
	if n, _ := a.Failures(t.Context(), "0", now.Add(time.Hour)); n != 0 {
		t.Errorf("a window that was over has %d failures", n)
	}
}

// TestForgiveInARace counts attempts in advance and takes back the successful ones, as a sign-in does.
func TestForgiveInARace(t *testing.T) {
	const callers, each = 16, 100
	a, now := NewCounter(1000), time.Unix(1, 0)
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			for range each {
				a.Fail(t.Context(), "b", time.Hour, now)
				if i > 0 {
					a.Forgive(t.Context(), "b", now)
				}
			}
		})
	}
	group.Wait()
	if n, _ := a.Failures(t.Context(), "b", now); n != each {
		t.Errorf("%d failures are left, want the %d that nobody took back", n, each)
	}
}

func BenchmarkCounterFail(b *testing.B) {
	a, now := NewCounter(65536), time.Now()
	names := make([]string, 100_000)
	for i := range names {
		names[i] = fmt.Sprint("bucket ", i)
	}
	for i := 0; b.Loop(); i++ {
		a.Fail(b.Context(), names[i%len(names)], time.Hour, now)
	}
}
