package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

const (
	// maxBatch is how many steps share a commit, so that the first of them does not wait long for the last.
	maxBatch = 256
	// maxQueued is how many steps wait for their turn. Who comes then waits for a place, as long as its context lets it.
	maxQueued = 4 * maxBatch
)

var (
	errClosed = errors.New("the store is closed")
	// errUnknown: whether the step happened will be decided after its caller has gone.
	errUnknown = errors.New("gave up waiting, nobody knows whether it happened")
)

// writeQueue is where callers wait for a transaction that they share. One goroutine takes them out.
type writeQueue struct {
	queue chan *call
	once  sync.Once
	// closing is closed when no further step is to begin, ended when the goroutine has gone.
	closing, ended chan struct{}
	// transact runs one transaction, of the first call and those behind it, and answers them.
	transact func(first *call)
}

// call is a step with a caller who waits.
type call struct {
	job
	ctx context.Context // it never ends: an interrupted statement would take the neighbours' steps with it
	// taken is set once, by the writer when it begins the step or by a caller who gives up before that.
	taken  atomic.Bool
	answer chan error // has room, so that the writer waits for no caller
	err    error      // the step's own result, the writer's until the commit
}

// newWriteQueue starts the goroutine.
func newWriteQueue(transact func(first *call)) *writeQueue {
	l := &writeQueue{
		queue: make(chan *call, maxQueued), closing: make(chan struct{}), ended: make(chan struct{}), transact: transact,
	}
	go l.write()
	return l
}

// close lets the transaction that is under way end. Those who still wait then get errClosed.
func (l *writeQueue) close() {
	l.once.Do(func() { close(l.closing) })
	<-l.ended
}

// run hands the step to the writer and waits for its commit, or until ctx ends. A step that has not been begun by then
// never will be.
func (l *writeQueue) run(ctx context.Context, j job) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c := &call{job: j, ctx: context.WithoutCancel(ctx), answer: make(chan error, 1)}
	select {
	case l.queue <- c:
	case <-ctx.Done():
		return ctx.Err()
	case <-l.ended:
		return errClosed
	}
	select {
	case err := <-c.answer:
		return err
	case <-l.ended:
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
		return fmt.Errorf("%w: %w", errUnknown, ctx.Err())
	}
}

// take reports whether the caller of take is the one who decides over the step: the writer, or who gives it up.
func (c *call) take() bool { return c.taken.CompareAndSwap(false, true) }

// write is the writer's goroutine.
func (l *writeQueue) write() {
	defer close(l.ended)
	for !l.isClosing() {
		select {
		case <-l.closing:
		case first := <-l.queue:
			l.transact(first)
		}
	}
}

func (l *writeQueue) isClosing() bool {
	select {
	case <-l.closing:
		return true
	default:
		return false
	}
}

// next is who waits next; nil when nobody does, that many are enough or the store is being closed.
func (l *writeQueue) next(taken int) *call {
	if taken == maxBatch || l.isClosing() {
		return nil
	}
	select {
	case c := <-l.queue:
		return c
	default:
		return nil
	}
}
