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
	// errLost: the database rolled the transaction back by itself, as when the disk is full.
	errLost = errors.New("the transaction was rolled back")
	// errPanicked: the step may have run partly.
	errPanicked = errors.New("the step panicked")
)

// groupCommit is the runner of SQLite, which allows one writer at a time and waits for the disk at each commit. Concurrent steps
// therefore share a transaction.
//
// A savepoint precedes each step: a step that fails leaves nothing behind and does not affect the others. When begin or commit fails,
// every step of the transaction has failed, also one with the result of a sentinel error: what it saw may be another step's change, which
// was not made.
type groupCommit struct {
	*writequeue.Queue[job]
	database *sqlite.Database
	options  Options
	// savepoint, release and back begin a step, end it and roll it back.
	savepoint, release, back *sql.Stmt
}

// newGroupCommit starts the writer. The handle for writing has one connection, which others may use concurrently.
func newGroupCommit(ctx context.Context, database *sqlite.Database, options Options) (runner, error) {
	// From here on AwaitLock waits for other processes.
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

// transact runs one transaction. An error means that nothing happened, or that the outcome is unknown. The transaction has ended in
// either case.
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
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
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

// hitAfterCommit hits the failpoint of each step that is durable and not yet answered.
func hitAfterCommit(b *writequeue.Batch[job]) {
	for _, c := range b.Calls() {
		if c.Err == nil {
			failpoint.Hit("after commit", c.Step.name)
		}
	}
}

// runStep runs a step, stores its result in the call and rolls a failed step back. It returns an error when the transaction is lost with
// all its steps.
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
		tx.position, err = position, do(g.back) // rolling back also undid a position that the step had taken
	}
	// After SQLite has rolled a transaction back, its savepoint does not exist.
	if err = errors.Join(err, do(g.release)); err != nil {
		return fmt.Errorf("%w: %w", errLost, errors.Join(c.Err, err))
	}
	return nil
}

// isOpen reports whether the transaction is still open after a failed statement. SQLite refuses to begin one inside another.
func isOpen(tx *transaction) bool {
	_, err := tx.ExecContext(context.Background(), `BEGIN`)
	return err != nil
}

// protect runs the step's own code. A panic fails the step, not the writer.
func (g *groupCommit) protect(tx *transaction, c *writequeue.Call[job]) (err error) {
	defer func() {
		if v := recover(); v != nil {
			g.options.warn("a step panicked: %v\n%s", v, debug.Stack())
			err = fmt.Errorf("%w: %v", errPanicked, v)
		}
	}()
	return c.Step.runIn(c.Context, inTransaction(tx))
}
