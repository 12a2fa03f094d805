package node

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/machine"
	"github.com/gatehouse-auth/gatehouse/internal/teststore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/attempts"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/storetest"
)

// countingStore is an AttemptStore that can fail and counts its calls.
type countingStore struct {
	store.AttemptStore
	asked atomic.Int64
	fault atomic.Pointer[func(context.Context) error]
}

func newCountingStore(t *testing.T) *countingStore {
	return &countingStore{AttemptStore: teststore.New(t).Attempts}
}

func (s *countingStore) CountAttempt(ctx context.Context, bucket string, window time.Duration, now time.Time, by int) (int, time.Time, error) {
	s.asked.Add(1)
	if fault := s.fault.Load(); fault != nil {
		return 0, time.Time{}, (*fault)(ctx)
	}
	if err := ctx.Err(); err != nil {
		return 0, time.Time{}, err
	}
	return s.AttemptStore.CountAttempt(ctx, bucket, window, now, by)
}

func (s *countingStore) fail(fault func(context.Context) error) { s.fault.Store(&fault) }

func (s *countingStore) recover() { s.fault.Store(nil) }

// node returns a node's counter on the store, and its clock. The counter waits for the store as long as a busy
// machine may take.
func (s *countingStore) node(t *testing.T) (*sharedAttempts, *testClock) {
	c := new(testClock)
	begin := time.Now()
	a := newSharedAttempts(attempts.NewCounter(maxAttempts), func() store.AttemptStore { return s },
		func() time.Time { return begin.Add(time.Duration(c.offset.Load())) })
	a.timeout = patience
	return a, c
}

// sharedBuckets is a counter that shares all of its buckets between nodes.
type sharedBuckets struct{ *sharedAttempts }

func (b sharedBuckets) Failures(ctx context.Context, bucket string, now time.Time) (int, time.Time) {
	return b.sharedAttempts.Failures(ctx, "account\x00"+bucket, now)
}

func (b sharedBuckets) Fail(ctx context.Context, bucket string, window time.Duration, now time.Time) (int, time.Time) {
	return b.sharedAttempts.Fail(ctx, "account\x00"+bucket, window, now)
}

func (b sharedBuckets) Forgive(ctx context.Context, bucket string, now time.Time) {
	b.sharedAttempts.Forgive(ctx, "account\x00"+bucket, now)
}

// TestT72SharedAttemptsCount runs the contract of the in-memory counter on the shared one: while the store answers,
// and while it does not and the node counts alone.
func TestT72SharedAttemptsCount(t *testing.T) {
	t.Run("with the store", func(t *testing.T) {
		storetest.RunAttempts(t, func(t *testing.T) store.AttemptCounter {
			a, _ := newCountingStore(t).node(t)
			return sharedBuckets{a}
		})
	})
	t.Run("alone", func(t *testing.T) {
		storetest.RunAttempts(t, func(t *testing.T) store.AttemptCounter {
			s := newCountingStore(t)
			s.fail(func(context.Context) error { return errors.New("down") })
			a, _ := s.node(t)
			return sharedBuckets{a}
		})
	})
}

// TestT72P136WhatNodesShare: failed sign-ins at several nodes, of a directory's person too → one count by account and address.
func TestT72P136WhatNodesShare(t *testing.T) {
	s := newCountingStore(t)
	a, _ := s.node(t)
	b, _ := s.node(t)
	now := time.Now()
	for bucket, shared := range map[string]bool{
		"account\x00ada@acme.example": true, "account\x00ada@acme.example\x00device": true, "sign-in\x00127.0.0.1": true,
		"person\x00corp\x00an-entry": true, "person\x00corp\x00an-entry\x00device": true,
		"proved\x00u-ada": false, "client\x00127.0.0.1\x00conf": true, "address\x00127.0.0.1": false, "mint\x00u-ada": false,
	} {
		a.Fail(t.Context(), bucket, time.Minute, now)
		want := 1
		if shared {
			want = 2
		}
		if n, _ := b.Fail(t.Context(), bucket, time.Minute, now); n != want {
			t.Errorf("%q: the other node counts %d, want %d", bucket, n, want)
		}
	}
	if n := s.asked.Load(); n != 12 {
		t.Errorf("the store was asked %d times, want 12", n)
	}
}

// TestT72WhoHangsUpIsCounted: an attacker who closes the connection right after sending a guess can learn the verdict
// in other ways, such as a session that answers a second request. The guess counts on every node.
func TestT72WhoHangsUpIsCounted(t *testing.T) {
	s := newCountingStore(t)
	a, _ := s.node(t)
	b, _ := s.node(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	now := time.Now()
	a.Fail(gone, "account\x00ada", time.Minute, now)
	if n, _ := b.Fail(t.Context(), "account\x00ada", time.Minute, now); n != 2 {
		t.Errorf("the other node counts %d, want 2", n)
	}
}

// TestT73AnOutageLetsNobodyGuess: a node without the store continues from the last counts it has received. What it
// has counted alone is added to the store's counts when the store is back.
func TestT73AnOutageLetsNobodyGuess(t *testing.T) {
	const bucket = "account\x00ada"
	s := newCountingStore(t)
	a, c := s.node(t)
	now := time.Now()
	fail := func(want int) {
		t.Helper()
		if n, until := a.Fail(t.Context(), bucket, time.Minute, now); n != want || until.Before(now) {
			t.Fatalf("%d failures until %v, want %d", n, until, want)
		}
	}
	fail(1)
	fail(2)
	s.fail(func(context.Context) error { return errors.New("down") })
	asked := s.asked.Load()
	fail(3)
	fail(4)
	fail(5)
	if n := s.asked.Load() - asked; n != 1 {
		t.Errorf("within %v the store was asked %d times, want once", countPause, n)
	}
	c.advance(countPause)
	fail(6)
	if n := s.asked.Load() - asked; n != 2 {
		t.Errorf("after the pause the store was asked %d times, want twice", n)
	}
	s.recover()
	c.advance(countPause)
	fail(7)
	// Counts that the store never received are not subtracted from it. Otherwise callers that find a full bucket
	// would empty it.
	for left := 6; left >= 3; left-- {
		a.Forgive(t.Context(), bucket, now)
		if n, _ := a.Failures(t.Context(), bucket, now); n != left {
			t.Fatalf("%d failures are left, want %d", n, left)
		}
	}
	other, _ := s.node(t)
	if n, _ := other.Fail(t.Context(), bucket, time.Minute, now); n != 4 {
		t.Errorf("the other node counts %d, want the store's 3 and its own", n)
	}
}

// TestT73ABlockedStoreHoldsNobodyUp: a database that accepts connections and never answers delays a sign-in by half a
// second, once.
func TestT73ABlockedStoreHoldsNobodyUp(t *testing.T) {
	s := newCountingStore(t)
	s.fail(func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	})
	a, _ := s.node(t)
	a.timeout = CountTimeout
	const many = 200 // waiting for one another would take a hundred seconds
	var guesses sync.WaitGroup
	begun := time.Now()
	for range many {
		guesses.Go(func() { a.Fail(t.Context(), "account\x00ada", time.Minute, begun) })
	}
	guesses.Wait()
	if took := time.Since(begun); machine.Fair(took) > 2*CountTimeout { // includes the time to count them
		t.Errorf("%d guesses took %v", many, took)
	}
	if n, _ := a.Failures(t.Context(), "account\x00ada", begun); n != many {
		t.Errorf("%d of %d are counted", n, many)
	}
	if n := s.asked.Load(); n > 3 {
		t.Errorf("the store was asked %d times", n)
	}
}
