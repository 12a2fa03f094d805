// Package writequeue lets concurrent writers share a transaction, because the commit is what costs. One goroutine runs the steps of all
// waiting callers in one transaction, and answers them after the commit. A step never waits for others to join it: a single step runs at
// once, and those that arrive meanwhile share the next transaction.
package writequeue

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxBatch is how many steps share a transaction. It limits how long the first of them waits for the last.
	maxBatch = 256
	// maxQueued is how many steps may wait. A further caller blocks until there is room or its context ends.
	maxQueued = 4 * maxBatch
	// maxYield is how long after its beginning a batch still yields to let others join.
	maxYield = 2 * time.Millisecond
)

var (
	errClosed = errors.New("the store is closed")
	// errStopped is the error of the other steps in a batch when one step ends the queue's goroutine.
	errStopped = errors.New("the writer has stopped")
	// ErrUnknown is returned to a caller that gives up while its step runs: the outcome is unknown.
	ErrUnknown = errors.New("gave up waiting, nobody knows whether it happened")
)

// Queue runs the steps of concurrent callers, which have type S, in batches.
type Queue[S any] struct {
	waiting chan *Call[S]
	once    sync.Once
	// closing is closed when no further step may begin, ended when the goroutine has ended.
	closing, ended chan struct{}
	transact       func(*Batch[S]) error
}

// Call is a step whose caller waits.
type Call[S any] struct {
	Step S
	// Err is the step's own result, which transact sets. Nil: the step succeeds if the transaction does.
	Err error
	// Context never ends: an interrupted statement would abort the other steps of the batch.
	Context context.Context

	// taken is set once: by the queue when the step begins, or by a caller that gives up before that.
	taken  atomic.Bool
	answer chan error // buffered, because the queue must not wait for a caller
}

// New starts a queue. Its goroutine calls transact for each batch. If transact returns an error, Run returns it to all callers in the
// batch. Otherwise each caller gets the Err of its own call.
func New[S any](transact func(*Batch[S]) error) *Queue[S] {
	q := &Queue[S]{
		waiting: make(chan *Call[S], maxQueued), closing: make(chan struct{}), ended: make(chan struct{}), transact: transact,
	}
	go q.serve()
	return q
}

// Close waits for the current transaction to end. Waiting and later calls of Run return an error. A second Close does nothing.
func (q *Queue[S]) Close() {
	q.once.Do(func() { close(q.closing) })
	<-q.ended
}

// Closing returns a channel that is closed when no further step may begin.
func (q *Queue[S]) Closing() <-chan struct{} { return q.closing }

// Waiting returns the number of steps that wait.
func (q *Queue[S]) Waiting() int { return len(q.waiting) }

// Run passes a step to the queue and waits for its result, or until ctx ends. A step that has not begun by then never runs. For one that
// has begun, Run returns ErrUnknown.
func (q *Queue[S]) Run(ctx context.Context, step S) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c := &Call[S]{Step: step, Context: context.WithoutCancel(ctx), answer: make(chan error, 1)}
	select {
	case q.waiting <- c:
	case <-ctx.Done():
		return ctx.Err()
	case <-q.ended:
		return errClosed
	}
	select {
	case err := <-c.answer:
		return err
	case <-q.ended:
		if c.take() {
			return errClosed
		}
		return <-c.answer
	case <-ctx.Done():
		if c.take() {
			return ctx.Err()
		}
	}
	select {
	case err := <-c.answer:
		return err
	default:
		return fmt.Errorf("%w: %w", ErrUnknown, ctx.Err())
	}
}

// take reports whether it is the first call of take. Either the queue takes the call to run it, or the caller to abandon it.
func (c *Call[S]) take() bool { return c.taken.CompareAndSwap(false, true) }

func (q *Queue[S]) serve() {
	defer close(q.ended)
	for !q.isClosing() {
		select {
		case <-q.closing:
		case first := <-q.waiting:
			(&Batch[S]{queue: q, first: first, began: time.Now()}).run()
		}
	}
}

func (q *Queue[S]) isClosing() bool {
	select {
	case <-q.closing:
		return true
	default:
		return false
	}
}

// Batch is the calls that share a transaction.
type Batch[S any] struct {
	queue *Queue[S]
	first *Call[S] // nil: Next has returned it
	calls []*Call[S]
	began time.Time
}

// run calls transact and answers all callers, even if transact ends the goroutine.
func (b *Batch[S]) run() {
	outcome := errStopped
	defer func() {
		for _, c := range b.calls {
			if outcome != nil {
				c.Err = outcome
			}
			c.answer <- c.Err
		}
	}()
	outcome = b.queue.transact(b)
}

// Calls returns the calls that Next has returned so far.
func (b *Batch[S]) Calls() []*Call[S] { return b.calls }

// Next adds the next waiting call to the batch. It returns nil when none waits, the batch is full or the queue is closing.
func (b *Batch[S]) Next() *Call[S] {
	for c := b.next(); c != nil; c = b.next() {
		if c.take() { // otherwise its caller has given up
			b.calls = append(b.calls, c)
			return c
		}
	}
	return nil
}

// NextOrYield is Next, but yields the processor once when no call waits, which lets runnable callers join. On a busy machine each of them
// would otherwise get its own transaction. Yielding is free when no goroutine is runnable. It stops maxYield after the batch began,
// because each yield takes long when many goroutines are runnable.
func (b *Batch[S]) NextOrYield() *Call[S] {
	if c := b.Next(); c != nil || time.Since(b.began) > maxYield {
		return c
	}
	runtime.Gosched()
	return b.Next()
}

func (b *Batch[S]) next() *Call[S] {
	if first := b.first; first != nil {
		b.first = nil
		return first
	}
	if len(b.calls) == maxBatch || b.queue.isClosing() {
		return nil
	}
	select {
	case c := <-b.queue.waiting:
		return c
	default:
		return nil
	}
}
