// Package sqlstore keeps everything in an SQL database: SQLite in a file of its own or in memory, or a database of a PostgreSQL server
// that any number of nodes share. One set of statements serves every dialect; what differs between them stands in the
// struct dialect and in the files that open one (sqlite.go, postgres.go).
//
// Every step of the protocol is atomic and durable on a writing connection; in SQLite, steps that meet share one
// transaction (groupcommit.go), in PostgreSQL each is its own (transactions.go), but for revocations (revoking.go). Reads are single statements on other
// connections, and wait for no writer (query.go); but in memory, where all share one connection.
package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/gatehouse-auth/gatehouse/internal/failpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore/postgres"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var _ store.Store = (*Store)(nil)

// Options are optional settings of a Store.
type Options struct {
	// Warn, if not nil, is called by any goroutine with what was found wrong, at the opening and later.
	Warn func(message string)
	// Failed, if not nil, is called by any goroutine for every query and step that fails because of the database.
	Failed func(err error)
	// KeepSchema leaves the schema alone: one that is not up to date is refused.
	KeepSchema bool
}

func (o Options) warn(format string, args ...any) {
	if o.Warn != nil {
		o.Warn(fmt.Sprintf(format, args...))
	}
}

// failed reports an error, unless it is an answer or the caller has left.
func (o Options) failed(err error) {
	if o.Failed != nil && !isAnswer(err) && !errors.Is(err, context.Canceled) {
		o.Failed(err)
	}
}

// isAnswer reports whether an error says how things stand, and not that the database has failed.
func isAnswer(err error) bool {
	return store.IsAnswer(err) || errors.As(err, new(refusal)) || errors.As(err, new(editError)) || errors.Is(err, sql.ErrNoRows)
}

// editError is the error of a caller's edit, which ends the step and is returned as it is.
type editError struct{ error }

func (e editError) Unwrap() error { return e.error }

// unavailable translates an error of the database: one that is no answer becomes a temporarily_unavailable. Every query and every
// step returns its error through it.
func unavailable(err error) error {
	if err == nil || isAnswer(err) {
		return err
	}
	return store.Unavailable(err)
}

// Store is a store.Store in an SQL database. Open one with OpenSQLite, OpenMemory or OpenPostgres.
type Store struct {
	dialect  dialect
	options  Options
	write    *sql.DB
	read     handle // for requests
	feed     handle // for what no request waits for
	steps    runner // nil until the schema is there
	dropping dropPaces
	bindKeys atomic.Pointer[func(store.KeyStep) (store.StoredKey, error)] // nil: keys are not bound
	// endLater ends what later has begun; nil: nothing.
	endLater func()
	// prepared are the statements of the hot path, by their texts before what a dialect adds to them.
	prepared map[string]*sql.Stmt
}

// work is what one step does in a session, which is not its own to end. It may run again when the database asks for it,
// and the last run counts.
type work func(ctx context.Context, tx session) error

// job is a step to run, and its name. A single one is one statement, which the database undoes by itself when it fails.
type job struct {
	name   string
	do     work
	single bool
	// records is what the job records when it does nothing else: a runner may do that for several jobs together.
	records *recording
}

// runIn does the job's work in a session.
func (j job) runIn(ctx context.Context, tx session) error {
	failpoint.Hit("before", j.name)
	err := j.do(ctx, tx)
	if err == nil {
		failpoint.Hit("after step", j.name)
	}
	return err
}

// runner runs steps: all that a job does, or nothing of it, and nil means that it is durable. Whether steps share a
// transaction is the dialect's choice.
type runner interface {
	Run(ctx context.Context, j job) error
	// Close waits for what has begun and fails the rest. A second call does nothing.
	Close()
}

// dialect is all that differs between databases once they are open.
type dialect struct {
	// goose is the dialect's name in the migration library.
	goose goose.Dialect
	// erase makes what has been overwritten or deleted leave the database's files.
	erase func(ctx context.Context) error
	// shareLock is what stands behind a SELECT whose answer must hold until the commit; empty where steps run one
	// after the other.
	shareLock string
	// server is shared by several nodes, whose steps run beside each other: one statement sees what had been committed when it began. Nil: no
	// other node uses the database.
	server *postgres.Server
	// notify notifies other nodes of changes; nil: there are none.
	notify *postgres.Notifier
	// dropSome deletes from the table %[1]s what ended, by the column %[2]s, before $1: at most $2 rows, the longest ended of them first. The
	// condition is there twice, because a row may get a later end between the choice and its deletion.
	dropSome string
	// clock asks for the time, in microseconds; empty: it is this process's.
	clock string
	// estimate asks roughly how many rows the table $1 has; empty: the database keeps no such number.
	estimate string
	// backup copies the database into a new file, or returns a NoBackup.
	backup func(ctx context.Context, path string) error
	// newRunner starts what runs the steps once the schema is there. The Store closes it.
	newRunner func(ctx context.Context) (runner, error)
}

func (d dialect) concurrent() bool { return d.server != nil }

// Ping reports whether the database answers a reader and lets a writer write: on a full disk, or with a standby that does not
// confirm, only that shows.
func (s *Store) Ping(ctx context.Context) error {
	var one int
	if err := askOne(ctx, s.background(`SELECT 1`), nil, &one); err != nil {
		return fmt.Errorf("asking the database: %w", err)
	}
	touch := func(ctx context.Context, tx session) error {
		return mustHit(tx.ExecContext(ctx, `UPDATE counters SET position = position + 1 WHERE name = 'pings'`))
	}
	if !s.dialect.concurrent() {
		return s.statement(ctx, "writing to the database", touch)
	}
	// On a connection that no request uses: a crowd of them is no sign that the database is away.
	if err := touch(ctx, session{querier: s.feed.db}); err != nil {
		return unavailable(fmt.Errorf("writing to the database: %w", err))
	}
	return nil
}

// later runs something beside the requests, until it is done or the store is closed.
func (s *Store) later(do func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); do(ctx) }()
	s.endLater = func() { cancel(); <-ended }
}

// Close ends the store. Closing it again does nothing.
func (s *Store) Close() error {
	if s.endLater != nil {
		s.endLater()
	}
	if s.steps != nil {
		s.steps.Close()
	}
	s.dialect.notify.Close()
	if s.dialect.server != nil {
		s.dialect.server.Hurry()
	}
	// The handles close the statements with their connections. Readers go first: the last connection to leave an SQLite
	// file clears its log, and must be able to write.
	if err := errors.Join(s.feed.db.Close(), s.read.db.Close(), s.write.Close()); err != nil {
		return fmt.Errorf("closing the database: %w", err)
	}
	return nil
}

// Clock returns the time by the database's own clock, which is the same for every node; the zero time when it has none but
// this process's.
func (s *Store) Clock(ctx context.Context) (time.Time, error) {
	if s.dialect.clock == "" {
		return time.Time{}, nil
	}
	var now int64
	if err := askOne(ctx, s.background(s.dialect.clock), nil, &now); err != nil {
		return time.Time{}, fmt.Errorf("asking for the time: %w", err)
	}
	return time.UnixMicro(now).UTC(), nil
}

// step runs one step of the protocol: everything in do, or nothing. A nil error means that it is durable. An error of
// the commit may leave open whether it happened; it is never treated as success.
//
// When ctx ends, step may return while do still runs. So do shares nothing with the caller but what the caller leaves
// alone after an error, and it uses the context that it is given.
func (s *Store) step(ctx context.Context, name string, do work) error {
	return s.run(ctx, job{name: name, do: do})
}

// announcedStep is step for what other nodes are to hear of.
func (s *Store) announcedStep(ctx context.Context, name string, do work) error {
	return s.announced(ctx, job{name: name, do: do})
}

func (s *Store) announced(ctx context.Context, j job) error {
	err := s.run(ctx, j)
	if err == nil {
		s.dialect.notify.Tell()
	}
	return err
}

// statement is step for a do that is a single statement. It costs less.
func (s *Store) statement(ctx context.Context, name string, do work) error {
	return s.run(ctx, job{name: name, do: do, single: true})
}

func (s *Store) run(ctx context.Context, j job) error {
	if err := s.steps.Run(ctx, j); err != nil {
		s.options.failed(err)
		return unavailable(fmt.Errorf("%s: %w", j.name, err))
	}
	return nil
}

// They turn a conditional statement that hit no row into what that means.
var (
	mustHit     = hitOr(store.ErrNotFound)
	mustAdd     = hitOr(store.ErrTaken)
	mustBeFirst = hitOr(refusal{outcome: store.Replayed})
	mustLive    = hitOr(refusal{outcome: store.Revoked})
)

func hitOr(missed error) func(sql.Result, error) error {
	return func(result sql.Result, err error) error {
		if err != nil {
			return err
		}
		hit, err := result.RowsAffected()
		if err == nil && hit == 0 {
			err = missed
		}
		return err
	}
}

// micros is a time as the database has it: microseconds since 1970, NULL for the zero time.
func micros(t time.Time) sql.Null[int64] {
	if t.IsZero() {
		return sql.Null[int64]{}
	}
	return sql.Null[int64]{V: t.UnixMicro(), Valid: true}
}

// timeOf is the reverse of micros.
func timeOf(n sql.Null[int64]) time.Time {
	if !n.Valid {
		return time.Time{}
	}
	return time.UnixMicro(n.V).UTC()
}
