package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/failpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore/postgres"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore/writequeue"
)

const (
	// maxRuns is how often a step runs that the database rolls back because of a conflict.
	maxRuns = 4
	// conflictPause is the longest pause between two runs.
	conflictPause = 20 * time.Millisecond
)

// transactions is the runner of a database that allows concurrent writers. Every step is its own transaction, and the server combines
// concurrent commits into one write.
type transactions struct {
	db    *sql.DB
	queue *queue
	// revoking batches the jobs that record revocations; see record.
	revoking *writequeue.Queue[job]
}

func newTransactions(db *sql.DB, q *queue) *transactions {
	t := &transactions{db: db, queue: q}
	t.revoking = writequeue.New(t.recordBatch)
	return t
}

func (t *transactions) Close() { t.revoking.Close() }

// Run runs the step. It continues when the caller has gone away: cancelling would cost the connection and leave the outcome unknown.
func (t *transactions) Run(ctx context.Context, j job) error {
	ctx, leave, err := t.queue.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if j.records != nil {
		return t.record(ctx, j)
	}
	return t.runAlone(ctx, j)
}

// runAlone runs the step in its own transaction.
func (t *transactions) runAlone(ctx context.Context, j job) error {
	err := t.again(ctx, func() error { return t.once(ctx, j) })
	if err == nil {
		failpoint.Hit("after commit", j.name)
	}
	return err
}

// again calls try until it succeeds, as long as the database rolls it back because of a conflict, at most maxRuns times.
func (t *transactions) again(ctx context.Context, try func() error) error {
	for runs := 1; ; runs++ {
		err := try()
		if !isConflict(err) || runs == maxRuns {
			t.dropReadOnly(err)
			return err
		}
		if err := postgres.Pause(ctx, conflictPause); err != nil {
			return err
		}
	}
}

func (t *transactions) once(ctx context.Context, j job) error {
	if j.single {
		return j.runIn(ctx, session{querier: t.db})
	}
	return t.inTransaction(ctx, func(tx session) error { return j.runIn(ctx, tx) })
}

func (t *transactions) inTransaction(ctx context.Context, do func(session) error) error {
	tx, err := t.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	if err := do(inTransaction(&transaction{Tx: tx})); err != nil {
		return err
	}
	return tx.Commit()
}

// errOvertaken is the error of a transaction whose rows another one has stored since it looked for them.
var errOvertaken = errors.New("another step has stored the same rows")

// isConflict reports whether a transaction was rolled back because of a serialization failure, a deadlock, or another one that overtook it.
// Nothing has happened, and the transaction may succeed the next time.
func isConflict(err error) bool {
	code := postgres.Code(err)
	return code == "40001" || code == "40P01" || errors.Is(err, errOvertaken)
}

// dropReadOnly closes the connections to a server that has become a standby.
func (t *transactions) dropReadOnly(err error) {
	if postgres.Code(err) == "25006" {
		forsake(t.db)
	}
}
