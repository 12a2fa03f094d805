package sqlstore

import (
	"context"
	"database/sql"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/failpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore/postgres"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore/writequeue"
)

const (
	// maxRuns is how often a step runs that the database has taken back because it met another.
	maxRuns = 4
	// conflictPause is the longest time between two runs.
	conflictPause = 20 * time.Millisecond
)

// transactions is the runner of a database that takes many writers at a time: every step is a transaction of its own,
// and the server puts those that commit together into one write.
type transactions struct {
	db    *sql.DB
	queue *queue
	// revoking batches the jobs that record revocations; see record.
	revoking *writequeue.Queue[job]
}

// newTransactions starts the queue.
func newTransactions(db *sql.DB, q *queue) *transactions {
	t := &transactions{db: db, queue: q}
	t.revoking = writequeue.New(t.recordBatch)
	return t
}

func (t *transactions) Close() { t.revoking.Close() }

// Run runs the step. It goes on when the caller has gone: to break off would cost the connection, and would leave open
// whether the step happened.
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

// runAlone runs the step in a transaction of its own.
func (t *transactions) runAlone(ctx context.Context, j job) error {
	err := t.again(ctx, func() error { return t.once(ctx, j) })
	if err == nil {
		failpoint.Hit("after commit", j.name)
	}
	return err
}

// again tries something as often as the database takes it back because it met another.
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
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if err := do(inTransaction(&transaction{Tx: tx})); err != nil {
		return err
	}
	return tx.Commit()
}

// isConflict reports whether the database has taken a transaction back because of another one: it could not be put in an
// order with it, or each waited for the other. Nothing has happened, and it may go well the next time.
func isConflict(err error) bool {
	code := postgres.Code(err)
	return code == "40001" || code == "40P01"
}

// dropReadOnly lets go of the connections to a server that has become a standby.
func (t *transactions) dropReadOnly(err error) {
	if postgres.Code(err) == "25006" {
		forsake(t.db)
	}
}
