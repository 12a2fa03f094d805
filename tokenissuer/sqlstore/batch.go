package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/gatehouse-auth/gatehouse/internal/failpoint"
)

var (
	// errStopped is what a step's neighbours get when it ends the writer's goroutine.
	errStopped = errors.New("the writer has stopped")
	// errLost: the database took the transaction back on its own, as when the disk is full.
	errLost = errors.New("the transaction was rolled back")
	// errPanicked: nobody knows how far the step came.
	errPanicked = errors.New("the step panicked")
)

// batch is one transaction and the calls whose steps it has begun. How it tells what a failed step has left of it is
// SQLite's way.
type batch struct {
	tx  *sql.Tx
	ran []*call
}

// transact runs one transaction, of the first call and those behind it, and answers them.
func (g *groupCommit) transact(first *call) {
	var b batch
	outcome := errStopped
	defer func() { b.answer(outcome) }() // deferred, so that nobody waits for ever
	outcome = g.commit(&b, first)
}

// answer tells every caller its own result, unless the transaction has failed.
func (b *batch) answer(outcome error) {
	for _, c := range b.ran {
		if outcome != nil {
			c.err = outcome
		}
		if c.err == nil {
			failpoint.Hit("after commit", c.name)
		}
		c.answer <- c.err
	}
}

// commit runs the steps and commits them. An error means that nothing has happened, or that nobody knows; with either,
// no transaction is left.
func (g *groupCommit) commit(b *batch, first *call) (err error) {
	err = awaitLock(g.closing, func() (err error) {
		b.tx, err = g.db.BeginTx(context.Background(), nil)
		return err
	})
	if err != nil {
		// Those behind the first would wait as long for the same.
		for c := first; c != nil; c = g.next(b) {
			b.take(c)
		}
		return fmt.Errorf("beginning the transaction: %w", err)
	}
	defer func() { _ = b.tx.Rollback() }() // after a commit it does nothing
	done := false
	for c := first; c != nil; c = g.next(b) {
		if !b.take(c) {
			continue
		}
		if err := g.runStep(b.tx, c); err != nil {
			return err
		}
		done = done || c.err == nil
	}
	if !done {
		return nil // who only looked, or was too late, needs no commit
	}
	if err := g.lasts(); err != nil {
		return fmt.Errorf("before the commit: %w", err)
	}
	if err := b.tx.Commit(); err != nil {
		return fmt.Errorf("committing the transaction: %w", err)
	}
	return nil
}

// next is who waits next; nil when nobody does, the batch is full or the store is being closed.
func (g *groupCommit) next(b *batch) *call {
	if len(b.ran) == maxBatch || g.isClosing() {
		return nil
	}
	select {
	case c := <-g.queue:
		return c
	default:
		return nil
	}
}

// take makes the call one of the batch, unless its caller has given it up.
func (b *batch) take(c *call) bool {
	if !c.take() {
		return false
	}
	b.ran = append(b.ran, c)
	return true
}

// runStep runs a step, keeps its result in the call and takes back what a failed one has done. It returns an error when
// the transaction is lost with all its steps.
func (g *groupCommit) runStep(tx *sql.Tx, c *call) error {
	if c.single {
		c.err = g.protect(tx, c)
		if errors.Is(c.err, errPanicked) {
			return c.err
		}
		if c.err == nil || inTransaction(tx) {
			return nil
		}
		return fmt.Errorf("%w: %w", errLost, c.err)
	}
	if _, err := tx.ExecContext(c.ctx, `SAVEPOINT step`); err != nil {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	c.err = g.protect(tx, c)
	end := `RELEASE step`
	if c.err != nil {
		end = `ROLLBACK TO step; RELEASE step`
	}
	// SQLite knows no savepoint of a transaction that it has taken back.
	if _, err := tx.ExecContext(c.ctx, end); err != nil {
		return fmt.Errorf("%w: %w", errLost, errors.Join(c.err, err))
	}
	return nil
}

// inTransaction tells whether a failed statement has left the transaction as it was. SQLite refuses to begin one inside
// of another.
func inTransaction(tx *sql.Tx) bool {
	_, err := tx.ExecContext(context.Background(), `BEGIN`)
	return err != nil
}

// protect runs the step's own code. A panic is the step's failure, not the writer's.
func (g *groupCommit) protect(tx *sql.Tx, c *call) (err error) {
	defer func() {
		if v := recover(); v != nil {
			g.options.warn("a step panicked: %v\n%s", v, debug.Stack())
			err = fmt.Errorf("%w: %v", errPanicked, v)
		}
	}()
	return c.runIn(c.ctx, session{tx, tx})
}
