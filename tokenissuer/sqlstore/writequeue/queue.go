// Package writequeue lets callers that write at the same time share a transaction, because the commit is what costs. One goroutine
// runs the steps of all waiting callers in one transaction, and answers them after it. A step never waits for others to join it:
// a single one runs at once, and those that arrive meanwhile share the next transaction.
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
	// maxBatch is how many steps share a transaction, so that the first of them does not wait long for the last.
	maxBatch = 256
	// maxQueued is how many steps wait for their turn. A further caller waits for a place until its context ends.
	maxQueued = 4 * maxBatch
	// maxYield is how long after its beginning a batch still lets others arrive.
	maxYield = 2 * time.Millisecond
)

var (
	errClosed = errors.New("the store is closed")
	// errStopped is what a step's neighbours get when it ends the goroutine of the queue.
	errStopped = errors.New("the writer has stopped")
	// ErrUnknown is returned to a caller who gives up while the step runs: its outcome is unknown.
	ErrUnknown = errors.New("gave up waiting, nobody knows whether it happened")
)

// Queue runs the steps of concurrent callers, which are of type S, in batches.
type Queue[S any] struct {
	waiting chan *Call[S]
	once    sync.Once
	// closing is closed when no further step is to begin, ended when the goroutine has gone.
	closing, ended chan struct{}
	transact       func(*Batch[S]) error
}

// Call is a step whose caller waits.
type Call[S any] struct {
	Step S
	// Err is the step's own result, which transact sets. Nil: it has succeeded, if the transaction does.
	Err error
	// Context never ends: an interrupted statement would take the neighbours' steps with it.
	Context context.Context

	// taken is set once: by the queue when the step begins, or by its caller who gives up before that.
	taken  atomic.Bool
	answer chan error // has room, so that the queue waits for no caller
}

// New starts a queue. Its goroutine calls transact for each batch. Run returns an error of transact to all
// callers in the batch; without one, each gets the Err of its own call.
func New[S any](transact func(*Batch[S]) error) *Queue[S] {
	q := &Queue[S]{
		waiting: make(chan *Call[S], maxQueued), closing: make(chan struct{}), ended: make(chan struct{}), transact: transact,
	}
	go q.serve()
	return q
}

// Close lets the transaction that is under way end. Calls of Run that still wait return an error, and so do later
// ones. A second Close does nothing.
func (q *Queue[S]) Close() {
	q.once.Do(func() { close(q.closing) })
	<-q.ended
}

// Closing is closed when no further step is to begin.
func (q *Queue[S]) Closing() <-chan struct{} { return q.closing }

// Waiting returns how many steps wait for their turn.
func (q *Queue[S]) Waiting() int { return len(q.waiting) }

// Run hands a step to the queue and waits for its result, or until ctx ends. A step that has not begun by then never will; of
// one that has, the error is ErrUnknown.
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

// take reports whether it is the first call of take: the queue then runs the step, or its caller gives it up.
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
	first *Call[S] // nil: it was taken
	calls []*Call[S]
	began time.Time
}

// run calls transact and answers all callers, also when transact ends the goroutine.
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

// Calls are those that Next has returned.
func (b *Batch[S]) Calls() []*Call[S] { return b.calls }

// Next adds the call that waits next to the batch; nil when none waits, the batch is full or the queue is being closed.
func (b *Batch[S]) Next() *Call[S] {
	for c := b.next(); c != nil; c = b.next() {
		if c.take() { // else its caller has given up
			b.calls = append(b.calls, c)
			return c
		}
	}
	return nil
}

// NextOrYield is Next, but yields the processor once when no call waits, so that callers which are ready to run can join: on a busy
// machine each of them would else have a transaction to itself. It costs nothing when no goroutine is ready. It stops yielding
// maxYield after the batch began, because each yield takes long when many goroutines are ready.
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
