package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
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
	*writeQueue
	db *sql.DB
	// lasts is asked before each commit: an error means that the commit would not last.
	lasts   func() error
	options Options
	// savepoint, release and back begin a step and end it.
	savepoint, release, back *sql.Stmt
}

// newGroupCommit starts the writer. The handle has one connection, and may be used beside the writer.
func newGroupCommit(ctx context.Context, db *sql.DB, lasts func() error, options Options) (runner, error) {
	// From here on it is awaitLock that waits for other processes.
	if _, err := db.ExecContext(ctx, `PRAGMA busy_timeout = 0`); err != nil {
		return nil, fmt.Errorf("starting the writer: %w", err)
	}
	g := &groupCommit{db: db, lasts: lasts, options: options}
	for statement, text := range map[**sql.Stmt]string{
		&g.savepoint: `SAVEPOINT step`, &g.release: `RELEASE step`, &g.back: `ROLLBACK TO step`,
	} {
		var err error
		if *statement, err = db.PrepareContext(ctx, text); err != nil {
			return nil, fmt.Errorf("starting the writer: %w", err)
		}
	}
	g.writeQueue = newWriteQueue(g.transact)
	return g, nil
}
