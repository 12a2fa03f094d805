package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

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

// commitGroup is one transaction and the calls whose steps it has begun. How it tells what a failed step has left of it is
// SQLite's way.
type commitGroup struct {
	tx *transaction
	members
}

// members are the calls that share a transaction.
type members struct{ ran []*call }

// transact runs one transaction, of the first call and those behind it, and answers them.
func (g *groupCommit) transact(first *call) {
	var b commitGroup
	outcome := errStopped
	defer func() { b.answer(outcome) }() // deferred, so that nobody waits for ever
	outcome = g.commit(&b, first)
}

// answer tells every caller its own result, unless the transaction has failed.
func (m *members) answer(outcome error) {
	for _, c := range m.ran {
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
func (g *groupCommit) commit(b *commitGroup, first *call) (err error) {
	err = awaitLock(g.closing, func() (err error) {
		tx, err := g.db.BeginTx(context.Background(), nil)
		b.tx = &transaction{Tx: tx}
		return err
	})
	if err != nil {
		// Those behind the first would wait as long for the same.
		for c := first; c != nil; c = g.next(len(b.ran)) {
			b.take(c)
		}
		return fmt.Errorf("beginning the transaction: %w", err)
	}
	defer func() { _ = b.tx.Rollback() }() // after a commit it does nothing
	done, began := false, time.Now()
	for c := first; c != nil; c = g.nextOrYield(len(b.ran), began) {
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

// maxYield is how long after its beginning a transaction still lets others arrive.
const maxYield = 2 * time.Millisecond

// nextOrYield is next, and lets those who could run now arrive first: on a machine that is busy, each of them would else have a
// commit to itself. With nobody who could run it costs nothing. Nobody is waited for in this way beyond maxYield: on a machine
// where everybody could run, each turn takes long.
func (g *groupCommit) nextOrYield(taken int, began time.Time) *call {
	if c := g.next(taken); c != nil || time.Since(began) > maxYield {
		return c
	}
	runtime.Gosched()
	return g.next(taken)
}

// take makes the call one of the transaction's, unless its caller has given it up.
func (m *members) take(c *call) bool {
	if !c.take() {
		return false
	}
	m.ran = append(m.ran, c)
	return true
}

// runStep runs a step, keeps its result in the call and takes back what a failed one has done. It returns an error when
// the transaction is lost with all its steps.
func (g *groupCommit) runStep(tx *transaction, c *call) error {
	if c.single {
		c.err = g.protect(tx, c)
		if errors.Is(c.err, errPanicked) {
			return c.err
		}
		if c.err == nil || isOpen(tx) {
			return nil
		}
		return fmt.Errorf("%w: %w", errLost, c.err)
	}
	do := func(statement *sql.Stmt) error {
		_, err := inTransaction(tx).prepared(c.ctx, statement).ExecContext(c.ctx)
		return err
	}
	if err := do(g.savepoint); err != nil {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	position := tx.position
	c.err = g.protect(tx, c)
	var err error
	if c.err != nil {
		tx.position, err = position, do(g.back) // a position that the step took has gone with it
	}
	// SQLite knows no savepoint of a transaction that it has taken back.
	if err = errors.Join(err, do(g.release)); err != nil {
		return fmt.Errorf("%w: %w", errLost, errors.Join(c.err, err))
	}
	return nil
}

// IsOpen reports whether a failed statement has left the transaction as it was. SQLite refuses to begin one inside of
// another.
func isOpen(tx *transaction) bool {
	_, err := tx.ExecContext(context.Background(), `BEGIN`)
	return err != nil
}

// protect runs the step's own code. A panic is the step's failure, not the writer's.
func (g *groupCommit) protect(tx *transaction, c *call) (err error) {
	defer func() {
		if v := recover(); v != nil {
			g.options.warn("a step panicked: %v\n%s", v, debug.Stack())
			err = fmt.Errorf("%w: %v", errPanicked, v)
		}
	}()
	return c.runIn(c.ctx, inTransaction(tx))
}
