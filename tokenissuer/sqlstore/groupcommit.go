package sqlstore

import (
	"context"
	"database/sql"
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

// groupCommit is the runner of a database that lets one writer in at a time, where what costs is the commit: it waits
// for the disk. One goroutine runs the steps, as many as are there, in one transaction and answers them after its
// commit. Nothing waits for company: a step that is alone is committed at once, and those that arrive meanwhile are the
// next transaction.
//
// A step that fails leaves nothing behind and its neighbours alone, because a savepoint stands before each. When begin
// or commit fails, every step of the transaction has failed, also one that was answered by a sentinel: what it saw was
// a neighbour's step, which did not happen.
type groupCommit struct {
	db *sql.DB
	// lasts is asked before each commit: an error means that the commit would not last.
	lasts   func() error
	options Options

	queue chan *call
	once  sync.Once
	// closing is closed when no further step is to begin, ended when the goroutine has gone.
	closing, ended chan struct{}
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

// newGroupCommit starts the writer. The handle has one connection, and may be used beside the writer.
func newGroupCommit(ctx context.Context, db *sql.DB, lasts func() error, options Options) (runner, error) {
	// From here on it is awaitLock that waits for other processes.
	if _, err := db.ExecContext(ctx, `PRAGMA busy_timeout = 0`); err != nil {
		return nil, fmt.Errorf("starting the writer: %w", err)
	}
	g := &groupCommit{
		db: db, lasts: lasts, options: options,
		queue: make(chan *call, maxQueued), closing: make(chan struct{}), ended: make(chan struct{}),
	}
	go g.write()
	return g, nil
}

// close lets the transaction that is under way end. Those who still wait then get errClosed.
func (g *groupCommit) close() {
	g.once.Do(func() { close(g.closing) })
	<-g.ended
}

// run hands the step to the writer and waits for its commit, or until ctx ends. A step that has not been begun by then
// never will be.
func (g *groupCommit) run(ctx context.Context, j job) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c := &call{job: j, ctx: context.WithoutCancel(ctx), answer: make(chan error, 1)}
	select {
	case g.queue <- c:
	case <-ctx.Done():
		return ctx.Err()
	case <-g.ended:
		return errClosed
	}
	select {
	case err := <-c.answer:
		return err
	case <-g.ended:
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

// take tells whether the caller of take is the one who decides over the step: the writer, or who gives it up.
func (c *call) take() bool { return c.taken.CompareAndSwap(false, true) }

// write is the writer's goroutine.
func (g *groupCommit) write() {
	defer close(g.ended)
	for !g.isClosing() {
		select {
		case <-g.closing:
		case first := <-g.queue:
			g.transact(first)
		}
	}
}

func (g *groupCommit) isClosing() bool {
	select {
	case <-g.closing:
		return true
	default:
		return false
	}
}
