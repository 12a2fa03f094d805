// Package sqlstore implements the parts of a store.Store in an SQL database: SQLite in a file or in memory, or a PostgreSQL database that
// any number of nodes share. All dialects share one set of statements. What differs is in the struct dialect and in the files that open a
// database (sqlite.go, postgres.go).
//
// Every step of the protocol is atomic and durable, on a connection for writing. In SQLite, concurrent steps share one transaction
// (groupcommit.go). In PostgreSQL each step is its own transaction (transactions.go), except that revocations share one (revoking.go).
// Reads are single statements on other connections and do not wait for writers (query.go). In memory, however, there is only one
// connection.
package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/gatehouse-auth/gatehouse/internal/failpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore/postgres"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/tracing"
)

// Options are optional settings of a Store.
type Options struct {
	// Warn, if not nil, is called from any goroutine with problems found at the opening or later.
	Warn func(message string)
	// Failed, if not nil, is called from any goroutine for every query and step that fails because of the database.
	Failed func(err error)
	// KeepSchema prevents migrations. A schema that is not up to date is refused.
	KeepSchema bool
}

func (o Options) warn(format string, args ...any) {
	if o.Warn != nil {
		o.Warn(fmt.Sprintf(format, args...))
	}
}

// failed reports an error, unless it is an answer or the caller has gone away.
func (o Options) failed(err error) {
	if o.Failed != nil && !isAnswer(err) && !errors.Is(err, context.Canceled) {
		o.Failed(err)
	}
}

// isAnswer reports whether an error describes the stored state, rather than a failure of the database.
func isAnswer(err error) bool {
	return store.IsAnswer(err) || errors.As(err, new(refusal)) || errors.As(err, new(editError)) || errors.Is(err, sql.ErrNoRows)
}

// editError is the error of a caller's edit. It ends the step and is returned unchanged.
type editError struct{ error }

func (e editError) Unwrap() error { return e.error }

// unavailable translates an error of the database: one that is not an answer becomes temporarily_unavailable. Every query and every step
// returns its error through it.
func unavailable(err error) error {
	if err == nil || isAnswer(err) {
		return err
	}
	return store.Unavailable(err)
}

// failure returns the error of a query or a step for its span: nil for an answer.
func failure(err error) error {
	if err == nil || isAnswer(err) {
		return nil
	}
	return unavailable(err)
}

// Store is a store in an SQL database. Open one with OpenSQLite, OpenMemory or OpenPostgres.
type Store struct {
	store.Store
	db   *database
	keys *signingKeys
}

// newStore returns the store in an open database.
func newStore(db *database) *Store {
	keys := &signingKeys{db: db}
	return &Store{db: db, keys: keys, Store: store.Store{
		Clients:  clients{db},
		People:   store.People{Users: users{db}, Identities: identities{db}, Factors: factors{db}, PersonalTokens: personalTokens{db}},
		Issued:   store.Issued{Families: families{db}, Devices: devices{db}, Imports: imports{db}},
		Outgoing: store.Outgoing{Logouts: logouts{db}, Mails: mails{db}}, Keys: keys,
		Revocations: revocations{db}, Declarations: declarations{db}, Attempts: attempts{db}, Audit: auditEvents{db},
		Housekeeping: &housekeeping{db, newDropPaces()}, Connection: db,
	}}
}

// The parts of a Store.
type (
	clients        struct{ db *database }
	users          struct{ db *database }
	identities     struct{ db *database }
	personalTokens struct{ db *database }
	factors        struct{ db *database }
	families       struct{ db *database }
	logouts        struct{ db *database }
	mails          struct{ db *database }
	revocations    struct{ db *database }
	declarations   struct{ db *database }
	attempts       struct{ db *database }
	auditEvents    struct{ db *database }
	imports        struct{ db *database }
)

// database is an open database, which the parts of a Store share.
type database struct {
	dialect dialect
	options Options
	write   *sql.DB
	read    handle // for requests
	feed    handle // for queries that no request waits for
	steps   runner // nil until the schema exists
	// endLater ends the goroutine of later; nil: there is none.
	endLater func()
	// prepared are the statements of the hot path, by their text before the dialect's additions.
	prepared map[string]*sql.Stmt
}

// work is what a step does in a session. It must not end the session. It may run again when the database asks for it, and only the last
// run counts.
type work func(ctx context.Context, tx session) error

// job is a step to run. A single job is one statement, which the database undoes by itself when it fails.
type job struct {
	name   string
	do     work
	single bool
	// records is what the job records, if it does nothing else. A runner may record it together with other jobs.
	records *recording
}

func (j job) runIn(ctx context.Context, tx session) error {
	failpoint.Hit("before", j.name)
	err := j.do(ctx, tx)
	if err == nil {
		failpoint.Hit("after step", j.name)
	}
	return err
}

// runner runs steps. A job either happens completely or not at all, and nil means that it is durable. The dialect decides whether steps
// share a transaction.
type runner interface {
	Run(ctx context.Context, j job) error
	// Close waits for jobs in progress and fails the rest. A second call does nothing.
	Close()
}

// dialect is everything that differs between databases once they are open.
type dialect struct {
	// goose is the dialect of the migration library.
	goose goose.Dialect
	// erase removes overwritten and deleted content from the database's files.
	erase func(ctx context.Context) error
	// shareLock is appended to a SELECT whose answer must hold until the commit. It is empty if steps run one after the other.
	shareLock string
	// server is shared by several nodes, whose steps run concurrently. A statement sees what was committed when it began. Nil: no other
	// node uses the database.
	server *postgres.Server
	// notify notifies other nodes of changes; nil: there are none.
	notify *postgres.Notifier
	// dropSome deletes rows of the table %[1]s whose end, in column %[2]s, is before $1: at most $2 rows, earliest end first. It contains
	// the condition twice, because a row may get a later end between its selection and its deletion.
	dropSome string
	// clock selects the time in microseconds; empty: use this process's clock.
	clock string
	// estimate selects roughly how many rows the table $1 has; empty: the database has no such number.
	estimate string
	// backup copies the database into a new file, or returns a NoBackup.
	backup func(ctx context.Context, path string) error
	// newRunner starts the runner once the schema exists. The database closes it.
	newRunner func(ctx context.Context) (runner, error)
}

func (d dialect) concurrent() bool { return d.server != nil }

// Ping returns an error unless the database answers a reader and lets a writer write. Only a write detects a full disk, or a standby that
// does not confirm.
func (db *database) Ping(ctx context.Context) error {
	var one int
	if err := askOne(ctx, db.background(`SELECT 1`), nil, &one); err != nil {
		return fmt.Errorf("asking the database: %w", err)
	}
	touch := func(ctx context.Context, tx session) error {
		return mustHit(tx.ExecContext(ctx, `UPDATE counters SET position = position + 1 WHERE name = 'pings'`))
	}
	if !db.dialect.concurrent() {
		return db.statement(ctx, "writing to the database", touch)
	}
	// A connection that no request uses: many requests do not mean that the database is down.
	if err := touch(ctx, session{querier: db.feed.db}); err != nil {
		return unavailable(fmt.Errorf("writing to the database: %w", err))
	}
	return nil
}

// later runs do in the background, until it returns or the store is closed.
func (db *database) later(do func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); do(ctx) }()
	db.endLater = func() { cancel(); <-ended }
}

// Close closes the store. A second call does nothing.
func (db *database) Close() error {
	if db.endLater != nil {
		db.endLater()
	}
	if db.steps != nil {
		db.steps.Close()
	}
	db.dialect.notify.Close()
	if db.dialect.server != nil {
		db.dialect.server.Hurry()
	}
	// The handles close the statements with their connections. Readers go first: the last connection that closes an SQLite file truncates
	// its log, and must be able to write.
	if err := errors.Join(db.feed.db.Close(), db.read.db.Close(), db.write.Close()); err != nil {
		return fmt.Errorf("closing the database: %w", err)
	}
	return nil
}

// Clock returns the time of the database's clock, which is the same for every node, or the zero time when the database has no clock of
// its own.
func (s *Store) Clock(ctx context.Context) (time.Time, error) {
	if s.db.dialect.clock == "" {
		return time.Time{}, nil
	}
	var now int64
	if err := askOne(ctx, s.db.background(s.db.dialect.clock), nil, &now); err != nil {
		return time.Time{}, fmt.Errorf("asking for the time: %w", err)
	}
	return time.UnixMicro(now).UTC(), nil
}

// step runs one step of the protocol: everything in do, or nothing. A nil error means that it is durable. After an error of the commit it
// may be unknown whether the step happened, and it is never treated as success.
//
// When ctx ends, step may return while do still runs. do must therefore use the context that it is given, and share with the caller only
// data that the caller does not touch after an error.
func (db *database) step(ctx context.Context, name string, do work) error {
	return db.run(ctx, job{name: name, do: do})
}

// announcedStep is step for a change that other nodes are notified of.
func (db *database) announcedStep(ctx context.Context, name string, do work) error {
	return db.announced(ctx, job{name: name, do: do})
}

func (db *database) announced(ctx context.Context, j job) error {
	err := db.run(ctx, j)
	if err == nil {
		db.dialect.notify.Tell()
	}
	return err
}

// statement is step for a do that is a single statement. It is cheaper.
func (db *database) statement(ctx context.Context, name string, do work) error {
	return db.run(ctx, job{name: name, do: do, single: true})
}

func (db *database) run(ctx context.Context, j job) error {
	ctx, span := tracing.StartCall(ctx, "store", j.name)
	err := db.steps.Run(ctx, j)
	span.End(failure(err))
	if err != nil {
		db.options.failed(err)
		return unavailable(fmt.Errorf("%s: %w", j.name, err))
	}
	return nil
}

// These return an error if a conditional statement affected no row.
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

// micros converts a time to its stored form: microseconds since 1970, NULL for the zero time.
func micros(t time.Time) sql.Null[int64] {
	if t.IsZero() {
		return sql.Null[int64]{}
	}
	return sql.Null[int64]{V: t.UnixMicro(), Valid: true}
}

// timeOf is the inverse of micros.
func timeOf(n sql.Null[int64]) time.Time {
	if !n.Valid {
		return time.Time{}
	}
	return time.UnixMicro(n.V).UTC()
}
