package node

import (
	"context"
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/memstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const (
	// maxAttempts is how many buckets of failed attempts a node remembers.
	maxAttempts = 65536
	// countPause is how long a node counts alone after the store has failed, so that no sign-in waits for it twice.
	countPause = 2 * time.Second
	// countLanes is how many counts of one node are under way at most.
	countLanes = 256
)

// CountTimeout is how long a sign-in waits for the count of all nodes. Tests that look at the sum of several nodes make it long.
var CountTimeout = 500 * time.Millisecond

// newAttempts returns the node's counter of failed attempts. Only a database that several nodes share needs to count.
func (n *Node) newAttempts() store.AttemptCounter {
	alone := memstore.NewAttempts(maxAttempts)
	if n.settings.Store != Postgres {
		return alone
	}
	return newSharedAttempts(alone, func() store.AttemptStore { return n.Store() }, n.now)
}

// sharedAttempts counts failed sign-ins and client authentications for all nodes together, in the store. While the store does not answer, each node
// counts alone, on top of what it has heard: an outage lets nobody guess without end.
type sharedAttempts struct {
	store func() store.AttemptStore // nil while there is none
	now   func() time.Time
	// timeout is how long a count may take.
	timeout time.Duration

	told  *memstore.Attempts // what the store has said last
	alone *memstore.Attempts // what it was not told
	// forgiving is held while something is taken back of what was counted alone, so that it is taken back once.
	forgiving sync.Mutex

	// lanes let the counts of one bucket go to the store one after the other. It could not take them otherwise, and those
	// who wait for one row would have all connections; and so what was said last is what holds.
	lanes [countLanes]chan struct{}
	seed  maphash.Seed

	failedAt atomic.Int64 // when the store failed last, in Unix nanoseconds; 0: never
}

func newSharedAttempts(alone *memstore.Attempts, store func() store.AttemptStore, now func() time.Time) *sharedAttempts {
	a := &sharedAttempts{
		store: store, now: now, timeout: CountTimeout, told: memstore.NewAttempts(maxAttempts), alone: alone, seed: maphash.MakeSeed(),
	}
	for i := range a.lanes {
		a.lanes[i] = make(chan struct{}, 1)
	}
	return a
}

// isShared reports whether all nodes count a bucket together: those of failed sign-ins and failed client authentications. The rest
// bounds what costs a node something, or is too frequent to be asked of a database: what succeeds.
func isShared(bucket string) bool {
	kind, _, _ := strings.Cut(bucket, "\x00")
	return kind == "account" || kind == "sign-in" || kind == "client"
}

// Failures returns what this node knows of the bucket. There may be more: who relies on it counts.
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

// Forgive takes one failure back: where it was counted, or a bucket that is full here could be emptied there.
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

// count lets the store count, and reports whether it did. Who guesses and hangs up is counted like who waits.
func (a *sharedAttempts) count(ctx context.Context, bucket string, window time.Duration, now time.Time, by int) (n int, until time.Time, ok bool) {
	if !isShared(bucket) {
		return 0, time.Time{}, false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.timeout)
	defer cancel()
	lane := a.lanes[maphash.String(a.seed, bucket)%countLanes]
	select {
	case lane <- struct{}{}:
		defer func() { <-lane }()
	case <-ctx.Done():
		return 0, time.Time{}, false
	}
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

// isPausing reports whether the store has failed just now.
func (a *sharedAttempts) isPausing() bool {
	failed := a.failedAt.Load()
	return failed != 0 && a.now().Sub(time.Unix(0, failed)).Abs() < countPause
}
