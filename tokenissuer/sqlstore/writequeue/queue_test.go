package writequeue

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
)

// begin makes the queue run a step that lasts until release is called. Other steps wait meanwhile.
func begin(t *testing.T, q *Queue[func()]) (held <-chan error, release func()) {
	t.Helper()
	begun, gate := make(chan struct{}), make(chan struct{})
	held = start(t.Context(), q, func() { close(begun); <-gate })
	<-begun
	return held, func() { close(gate) }
}

func start(ctx context.Context, q *Queue[func()], step func()) <-chan error {
	result := make(chan error, 1)
	go func() { result <- q.Run(ctx, step) }()
	return result
}

// lineUp queues the steps in order.
func lineUp(t *testing.T, q *Queue[func()], steps ...func()) (results []<-chan error) {
	t.Helper()
	for i, step := range steps {
		results = append(results, start(t.Context(), q, step))
		await(q, i+1)
	}
	return results
}

// await returns when that many steps wait.
func await(q *Queue[func()], waiting int) {
	for q.Waiting() != waiting {
		runtime.Gosched()
	}
}

// runAll runs every step, and records the size of each batch.
func runAll(sizes *[]int) func(*Batch[func()]) error {
	return func(b *Batch[func()]) error {
		for c := b.Next(); c != nil; c = b.NextOrYield() {
			c.Step()
		}
		*sizes = append(*sizes, len(b.Calls()))
		return nil
	}
}

// TestQueueIsBounded fills the queue. A further caller waits outside it, and a batch takes at most its share.
func TestQueueIsBounded(t *testing.T) {
	var sizes []int
	q := New(runAll(&sizes))
	held, release := begin(t, q)
	var group sync.WaitGroup
	for range maxQueued {
		group.Go(func() {
			if err := q.Run(t.Context(), func() {}); err != nil {
				t.Error(err)
			}
		})
	}
	await(q, maxQueued)
	ctx, cancel := context.WithCancel(t.Context())
	outside := start(ctx, q, func() { t.Error("the step of somebody who has left was run") })
	cancel()
	if err := <-outside; !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnknown) {
		t.Errorf("the caller who found no place got %v", err)
	}
	release()
	if err := <-held; err != nil {
		t.Error(err)
	}
	group.Wait()
	q.Close()
	largest := 0
	for _, size := range sizes {
		largest = max(largest, size)
	}
	if largest != maxBatch {
		t.Errorf("the largest batch has %d steps, want %d", largest, maxBatch)
	}
}

// TestClose: a step that has begun returns its own result, waiting callers get an error, and none hangs.
func TestClose(t *testing.T) {
	var sizes []int
	q := New(runAll(&sizes))
	held, release := begin(t, q)
	never := func() { t.Error("a step began after the end") }
	results := lineUp(t, q, never, never)
	closed := make(chan struct{})
	go func() { defer close(closed); q.Close() }()
	<-q.Closing()
	release()
	if err := <-held; err != nil {
		t.Error(err)
	}
	<-closed
	for i, result := range append(results, start(t.Context(), q, never)) {
		if err := <-result; !errors.Is(err, errClosed) {
			t.Errorf("step %d returned %v", i, err)
		}
	}
	q.Close()
}

// TestStoppedWriter ends the goroutine from within a step, as t.Fatal in a test would. All callers get an error.
func TestStoppedWriter(t *testing.T) {
	var sizes []int
	q := New(runAll(&sizes))
	held, release := begin(t, q)
	results := lineUp(t, q, runtime.Goexit, func() { t.Error("a step began after the end") })
	release()
	for i, c := range []struct {
		result <-chan error
		want   error
	}{{held, errStopped}, {results[0], errStopped}, {results[1], errClosed}} {
		if err := <-c.result; !errors.Is(err, c.want) {
			t.Errorf("step %d returned %v, want %v", i, err, c.want)
		}
	}
}

// TestFailedBatch: an error of the transaction is returned to all callers, whatever the result of their own step.
func TestFailedBatch(t *testing.T) {
	lost, own := errors.New("lost"), errors.New("own")
	fail := true
	q := New(func(b *Batch[error]) error {
		for c := b.Next(); c != nil; c = b.Next() {
			c.Err = c.Step
		}
		if fail {
			return lost
		}
		return nil
	})
	defer q.Close()
	for _, step := range []error{nil, own} {
		if err := q.Run(t.Context(), step); !errors.Is(err, lost) {
			t.Errorf("%v: %v", step, err)
		}
	}
	fail = false
	for _, step := range []error{nil, own} {
		if err := q.Run(t.Context(), step); !errors.Is(err, step) {
			t.Errorf("%v: %v", step, err)
		}
	}
}
