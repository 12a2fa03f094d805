package node

import (
	"context"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/attempts"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const (
	// maxAttempts bounds the buckets of failed attempts in memory.
	maxAttempts = 65536
	// countPause is how long a node counts in memory after the store has failed, so that sign-ins do not wait for the timeout again.
	countPause = 2 * time.Second
	// countLocks bounds the concurrent counts of one node.
	countLocks = 256
)

// CountTimeout bounds how long a sign-in waits for the shared count. Tests raise it.
var CountTimeout = 500 * time.Millisecond

// newAttempts returns the counter of failed attempts. It counts in the store only if nodes can share the store.
func newAttempts(h *storeHandle, now func() time.Time) store.AttemptCounter {
	alone := attempts.NewCounter(maxAttempts)
	if h.settings.Store != Postgres {
		return alone
	}
	opened := func() store.AttemptStore {
		if h.IsOpen() {
			return h.store.Attempts
		}
		return nil
	}
	return newSharedAttempts(alone, opened, now)
}

// sharedAttempts counts failed sign-ins and client authentications of all nodes in the store. While the store does not answer, each node
// counts in memory, in addition to the store's last answer, so that guesses stay bounded during an outage.
type sharedAttempts struct {
	store func() store.AttemptStore // nil while there is none
	now   func() time.Time
	// timeout bounds one count.
	timeout time.Duration

	told  *attempts.Counter // the store's last answers
	alone *attempts.Counter // failures that are counted only in memory
	// forgiving makes forgiveAlone atomic.
	forgiving sync.Mutex

	// locks serialise the counts of one bucket, chosen by its hash. The counts wait for the same row anyway, and would use up all
	// connections while they wait. Locks also keep the store's answers in order.
	locks [countLocks]timedLock
	seed  maphash.Seed

	failedAt atomic.Int64 // when the store failed last, in Unix nanoseconds; 0: never
}

func newSharedAttempts(alone *attempts.Counter, store func() store.AttemptStore, now func() time.Time) *sharedAttempts {
	a := &sharedAttempts{
		store: store, now: now, timeout: CountTimeout, told: attempts.NewCounter(maxAttempts), alone: alone, seed: maphash.MakeSeed(),
	}
	for i := range a.locks {
		a.locks[i] = newTimedLock()
	}
	return a
}

// isShared reports whether a bucket is counted in the store: those of failed sign-ins, by account, by person of a directory and by address,
// those of failed client authentications, and those of letters. Other buckets bound the work of one node, or count successes, which are too frequent for a
// database.
func isShared(bucket string) bool {
	kind, _, _ := strings.Cut(bucket, "\x00")
	return slices.Contains([]string{"account", "person", "sign-in", "client", "letter", "letters"}, kind)
}

// Failures returns the failures that this node knows. The store may have more; Fail returns the sum.
func (a *sharedAttempts) Failures(ctx context.Context, bucket string, now time.Time) (n int, until time.Time) {
	told, until := a.told.Failures(ctx, bucket, now)
	alone, end := a.alone.Failures(ctx, bucket, now)
	return told + alone, later(until, end)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Fail counts a failure.
func (a *sharedAttempts) Fail(ctx context.Context, bucket string, window time.Duration, now time.Time) (n int, until time.Time) {
	told, until, ok := a.count(ctx, bucket, window, now, 1)
	if ok {
		alone, end := a.alone.Failures(ctx, bucket, now)
		return told + alone, later(until, end)
	}
	told, until = a.told.Failures(ctx, bucket, now)
	alone, end := a.alone.Fail(ctx, bucket, window, now)
	return told + alone, later(until, end)
}

// Forgive subtracts one failure, from where it was counted.
func (a *sharedAttempts) Forgive(ctx context.Context, bucket string, now time.Time) {
	if !a.forgiveAlone(ctx, bucket, now) {
		a.count(ctx, bucket, 0, now, -1)
	}
}

func (a *sharedAttempts) forgiveAlone(ctx context.Context, bucket string, now time.Time) bool {
	a.forgiving.Lock()
	defer a.forgiving.Unlock()
	if n, _ := a.alone.Failures(ctx, bucket, now); n == 0 {
		return false
	}
	a.alone.Forgive(ctx, bucket, now)
	return true
}

// count counts in the store, and reports whether that succeeded. It goes on when the request ends, so that the guesses of a client that
// disconnects count too.
func (a *sharedAttempts) count(ctx context.Context, bucket string, window time.Duration, now time.Time, by int) (n int, until time.Time, ok bool) {
	if !isShared(bucket) {
		return 0, time.Time{}, false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.timeout)
	defer cancel()
	lock := a.locks[maphash.String(a.seed, bucket)%countLocks]
	if err := lock.LockWithin(ctx); err != nil {
		return 0, time.Time{}, false
	}
	defer lock.Unlock()
	store := a.store()
	if store == nil || a.isPausing() {
		return 0, time.Time{}, false
	}
	n, until, err := store.CountAttempt(ctx, bucket, window, now, by)
	if err != nil {
		a.failedAt.Store(a.now().UnixNano())
		return 0, time.Time{}, false
	}
	a.told.Learn(bucket, n, until)
	return n, until, true
}

// isPausing reports whether the store has failed within countPause.
func (a *sharedAttempts) isPausing() bool {
	failed := a.failedAt.Load()
	return failed != 0 && a.now().Sub(time.Unix(0, failed)).Abs() < countPause
}
