package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/gatehouse-auth/gatehouse/internal/failpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore/sqlite"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore/writequeue"
)

var (
	// errLost: the database took the transaction back on its own, as when the disk is full.
	errLost = errors.New("the transaction was rolled back")
	// errPanicked: the step may have run in part.
	errPanicked = errors.New("the step panicked")
)

// groupCommit is the runner of SQLite, which lets one writer in at a time and waits for the disk at each commit: steps that meet
// share a transaction.
//
// A step that fails leaves nothing behind and its neighbours alone, because a savepoint stands before each. When begin
// or commit fails, every step of the transaction has failed, also one that was answered by a sentinel: what it saw was
// a neighbour's step, which did not happen.
type groupCommit struct {
	*writequeue.Queue[job]
	database *sqlite.Database
	options  Options
	// savepoint, release and back begin a step and end it.
	savepoint, release, back *sql.Stmt
}

// newGroupCommit starts the writer. The handle for writing has one connection, and may be used beside the writer.
func newGroupCommit(ctx context.Context, database *sqlite.Database, options Options) (runner, error) {
	// From here on it is AwaitLock that waits for other processes.
	if _, err := database.Write.ExecContext(ctx, `PRAGMA busy_timeout = 0`); err != nil {
		return nil, fmt.Errorf("starting the writer: %w", err)
	}
	g := &groupCommit{database: database, options: options}
	for statement, text := range map[**sql.Stmt]string{
		&g.savepoint: `SAVEPOINT step`, &g.release: `RELEASE step`, &g.back: `ROLLBACK TO step`,
	} {
		var err error
		if *statement, err = database.Write.PrepareContext(ctx, text); err != nil {
			return nil, fmt.Errorf("starting the writer: %w", err)
		}
	}
	g.Queue = writequeue.New(g.transact)
	return g, nil
}

// transact runs one transaction. An error means that nothing has happened, or that the outcome is unknown; the transaction has
// ended in either case.
func (g *groupCommit) transact(b *writequeue.Batch[job]) error {
	var tx *transaction
	err := g.database.AwaitLock(g.Closing(), func() error {
		begun, err := g.database.Write.BeginTx(context.Background(), nil)
		tx = &transaction{Tx: begun}
		return err
	})
	if err != nil {
		for b.Next() != nil { // the other calls would wait as long for the same lock
		}
		return fmt.Errorf("beginning the transaction: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	done := false
	for c := b.Next(); c != nil; c = b.NextOrYield() {
		if err := g.runStep(tx, c); err != nil {
			return err
		}
		done = done || c.Err == nil
	}
	if !done {
		return nil // no step has changed anything
	}
	if err := g.database.Lasts(); err != nil {
		return fmt.Errorf("before the commit: %w", err)
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("committing the transaction: %w", err)
	}
	hitAfterCommit(b)
	return nil
}

// hitAfterCommit hits the failpoint of each step that is durable and not answered yet.
func hitAfterCommit(b *writequeue.Batch[job]) {
	for _, c := range b.Calls() {
		if c.Err == nil {
			failpoint.Hit("after commit", c.Step.name)
		}
	}
}

// runStep runs a step, keeps its result in the call and takes back what a failed one has done. It returns an error when
// the transaction is lost with all its steps.
func (g *groupCommit) runStep(tx *transaction, c *writequeue.Call[job]) error {
	if c.Step.single {
		c.Err = g.protect(tx, c)
		if errors.Is(c.Err, errPanicked) {
			return c.Err
		}
		if c.Err == nil || isOpen(tx) {
			return nil
		}
		return fmt.Errorf("%w: %w", errLost, c.Err)
	}
	do := func(statement *sql.Stmt) error {
		_, err := inTransaction(tx).prepared(c.Context, statement).ExecContext(c.Context)
		return err
	}
	if err := do(g.savepoint); err != nil {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	position := tx.position
	c.Err = g.protect(tx, c)
	var err error
	if c.Err != nil {
		tx.position, err = position, do(g.back) // a position that the step took has gone with it
	}
	// SQLite knows no savepoint of a transaction that it has taken back.
	if err = errors.Join(err, do(g.release)); err != nil {
		return fmt.Errorf("%w: %w", errLost, errors.Join(c.Err, err))
	}
	return nil
}

// isOpen reports whether a failed statement has left the transaction as it was. SQLite refuses to begin one inside of
// another.
func isOpen(tx *transaction) bool {
	_, err := tx.ExecContext(context.Background(), `BEGIN`)
	return err != nil
}

// protect runs the step's own code. A panic is the step's failure, not the writer's.
func (g *groupCommit) protect(tx *transaction, c *writequeue.Call[job]) (err error) {
	defer func() {
		if v := recover(); v != nil {
			g.options.warn("a step panicked: %v\n%s", v, debug.Stack())
			err = fmt.Errorf("%w: %v", errPanicked, v)
		}
	}()
	return c.Step.runIn(c.Context, inTransaction(tx))
}
