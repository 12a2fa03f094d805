package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// RunAttempts tests a counter of failed attempts. open returns an empty one with room for at least a thousand buckets.
func RunAttempts(t *testing.T, open func(t *testing.T) store.AttemptCounter) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, a store.AttemptCounter)
	}{
		{"WindowBeginsWithTheFirstFailure", attemptsWindow},
		{"BucketsAreBytes", attemptsBuckets},
		{"TimeIsTheCallers", attemptsTime},
		{"ManyBuckets", attemptsMany},
		{"CountsInARace", attemptsRace},
		{"ForgivesOne", attemptsForgiven},
		{"ForgivesAmongMany", attemptsForgivenAmongMany},
		{"ForgivesInARace", attemptsForgivenInARace},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, open(t))
		})
	}
}

// counted ends the test unless the bucket has n failures, and a window that ends at until if n is not zero.
func counted(t *testing.T, a store.AttemptCounter, bucket string, at time.Time, n int, until time.Time) {
	t.Helper()
	got, end := a.Failures(t.Context(), bucket, at)
	if got != n || (n > 0 && !end.Equal(until)) {
		t.Fatalf("bucket %q has %d failures until %v, want %d until %v", bucket, got, end, n, until)
	}
}

// fail counts a failure and ends the test unless the results are n and until.
func fail(t *testing.T, a store.AttemptCounter, bucket string, window time.Duration, at time.Time, n int, until time.Time) {
	t.Helper()
	got, end := a.Fail(t.Context(), bucket, window, at)
	if got != n || !end.Equal(until) {
		t.Fatalf("failing in %q counted %d until %v, want %d until %v", bucket, got, end, n, until)
	}
	counted(t, a, bucket, at, n, until)
}

// attemptsWindow: later failures do not move the end of a window, whatever length they name. At its end exactly, a window is over.
func attemptsWindow(t *testing.T, a store.AttemptCounter) {
	end := now.Add(time.Minute)
	counted(t, a, "b", now, 0, end)
	fail(t, a, "b", time.Minute, now, 1, end)
	fail(t, a, "b", time.Minute, now.Add(30*time.Second), 2, end)
	fail(t, a, "b", time.Hour, end.Add(-1), 3, end)
	counted(t, a, "b", end.Add(-1), 3, end)
	counted(t, a, "b", end, 0, end)
	fail(t, a, "b", time.Hour, end, 1, end.Add(time.Hour))
}

// attemptsBuckets: a failure counts in the bucket with exactly that name.
func attemptsBuckets(t *testing.T, a store.AttemptCounter) {
	names := []string{"", "a", "A", "a ", "a\x00", "caf\u00e9", "cafe\u0301", "\xff", fmt.Sprintf("%010000d", 1), fmt.Sprintf("%010000d", 2)}
	for i, name := range names {
		for n := range i + 1 {
			fail(t, a, name, time.Minute, now, n+1, now.Add(time.Minute))
		}
	}
	for i, name := range names {
		counted(t, a, name, now, i+1, now.Add(time.Minute))
	}
}

// attemptsTime: the caller's clock decides, however far it is from the machine's.
func attemptsTime(t *testing.T, a store.AttemptCounter) {
	for _, at := range []time.Time{time.Unix(1, 0), now.AddDate(-30, 0, 0), now.AddDate(200, 0, 0)} {
		bucket := at.String()
		fail(t, a, bucket, time.Hour, at, 1, at.Add(time.Hour))
		fail(t, a, bucket, time.Hour, at.Add(59*time.Minute), 2, at.Add(time.Hour))
		counted(t, a, bucket, at.Add(time.Hour), 0, at)
	}
}

// attemptsMany: a bucket that has just failed is kept, however many buckets failed before it.
func attemptsMany(t *testing.T, a store.AttemptCounter) {
	end := now.Add(time.Minute)
	fail(t, a, "watched", time.Minute, now, 1, end)
	for i := range 3000 {
		bucket := fmt.Sprint("flood ", i)
		fail(t, a, bucket, time.Minute, now, 1, end)
		if i%100 == 0 { // it fails in between, and stays
			fail(t, a, "watched", time.Minute, now, 2+i/100, end)
		}
	}
}

// attemptsRace: no failure is lost, and each caller gets a different number.
func attemptsRace(t *testing.T, a store.AttemptCounter) {
	const each = 25
	seen := make([][]int, racers)
	race(racers, func(i int) error {
		for range each {
			n, _ := a.Fail(t.Context(), "b", time.Hour, now)
			seen[i] = append(seen[i], n)
			a.Failures(t.Context(), "b", now)
			a.Fail(t.Context(), fmt.Sprint("other ", i), time.Hour, now)
		}
		return nil
	})
	counted(t, a, "b", now, racers*each, now.Add(time.Hour))
	told := make(map[int]bool)
	for _, numbers := range seen {
		for _, n := range numbers {
			told[n] = true
		}
	}
	wantSize(t, told, racers*each)
}

// attemptsForgiven: one failure of the current window of exactly that bucket is taken back, and the window keeps its end while failures
// are left. A window that is over is unchanged, and the count does not become negative.
func attemptsForgiven(t *testing.T, a store.AttemptCounter) {
	end := now.Add(time.Minute)
	a.Forgive(t.Context(), "b", now)
	counted(t, a, "b", now, 0, end)
	fail(t, a, "b", time.Minute, now, 1, end)
	fail(t, a, "B", time.Minute, now, 1, end)
	fail(t, a, "b", time.Minute, now.Add(time.Second), 2, end)
	fail(t, a, "b", time.Minute, now.Add(time.Second), 3, end)
	a.Forgive(t.Context(), "b", now.Add(30*time.Second))
	counted(t, a, "b", now.Add(30*time.Second), 2, end)
	fail(t, a, "b", time.Minute, now.Add(31*time.Second), 3, end)
	for left := 2; left >= -2; left-- {
		a.Forgive(t.Context(), "b", end.Add(-1))
		counted(t, a, "b", end.Add(-1), max(left, 0), end)
	}
	counted(t, a, "B", end.Add(-1), 1, end)
	a.Forgive(t.Context(), "B", end)
	counted(t, a, "B", end, 0, end)
	fail(t, a, "b", time.Minute, end, 1, end.Add(time.Minute))
	fail(t, a, "B", time.Minute, end, 1, end.Add(time.Minute))
}

// attemptsForgivenAmongMany: while other buckets fail, forgiven failures stay forgiven and others stay counted. Guessing at other
// accounts does not change an honest user's count.
func attemptsForgivenAmongMany(t *testing.T, a store.AttemptCounter) {
	end, others := now.Add(time.Hour), 0
	flood := func(n int) {
		for range n {
			others++
			a.Fail(t.Context(), fmt.Sprint("flood ", others), time.Hour, now)
		}
	}
	forgive := func(left int) {
		t.Helper()
		a.Forgive(t.Context(), "watched", now)
		counted(t, a, "watched", now, left, end)
	}
	for range 6 {
		fail(t, a, "watched", time.Hour, now, 1, end)
		flood(110)
		fail(t, a, "watched", time.Hour, now, 2, end)
		flood(130)
		forgive(1)
		flood(70)
		fail(t, a, "watched", time.Hour, now, 2, end)
		flood(90)
		fail(t, a, "watched", time.Hour, now, 3, end)
		forgive(2)
		forgive(1)
		forgive(0)
		flood(150)
		forgive(0)
	}
}

// attemptsForgivenInARace: neither a failure nor a call of Forgive is lost.
func attemptsForgivenInARace(t *testing.T, a store.AttemptCounter) {
	const each = 25
	race(racers, func(int) error {
		for range each {
			a.Fail(t.Context(), "b", time.Hour, now)
			a.Fail(t.Context(), "b", time.Hour, now)
			a.Forgive(t.Context(), "b", now)
		}
		return nil
	})
	counted(t, a, "b", now, racers*each, now.Add(time.Hour))
}
