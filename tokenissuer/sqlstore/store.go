// Package sqlstore keeps everything in an SQL database: SQLite in a file of its own. One set of statements serves
// every dialect; what differs between them stands in the struct dialect and in the file that opens one (sqlite.go).
//
// Every step of the protocol is atomic and durable on a writing connection; in SQLite, steps that meet share one
// transaction (groupcommit.go). Reads are single statements on other connections, and wait for no writer.
package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

var _ tokenissuer.Store = (*Store)(nil)

// Options are what an opening may be told. The zero value works.
type Options struct {
	// Warn is told what was found wrong and put right, at the opening and later, by any goroutine; nil: nobody is.
	Warn func(message string)
}

func (o Options) warn(format string, args ...any) {
	if o.Warn != nil {
		o.Warn(fmt.Sprintf(format, args...))
	}
}

// Store is a tokenissuer.Store in an SQL database. Open one with OpenSQLite.
type Store struct {
	dialect dialect
	options Options
	write   *sql.DB
	read    *sql.DB
	steps   runner // nil until the schema is there

	statements
}

// statements are prepared for the hot path: questions on the reading handle, steps on the writing one.
type statements struct {
	clientByID, userByID, userByEmail, familyByID            *sql.Stmt
	addFamily, decideRequest, redeemCode, rotateRefreshToken *sql.Stmt
}

// work is what one step does in a transaction, which is not its own to end.
type work func(ctx context.Context, tx *sql.Tx) error

// job is a step to run. A single one is one statement, which the database undoes by itself when it fails.
type job struct {
	do     work
	single bool
}

// runner runs steps: all that a job does, or nothing of it, and nil means that it is durable. Whether steps share a
// transaction is the dialect's choice.
type runner interface {
	run(ctx context.Context, j job) error
	// close waits for what has begun and fails the rest. A second call does nothing.
	close()
}

// dialect is all that differs between databases once they are open.
type dialect struct {
	// goose is the dialect's name in the migration library.
	goose goose.Dialect
	// erase makes what has been overwritten or deleted leave the database's files.
	erase func(ctx context.Context, db *sql.DB) error
	// shareLock is what stands behind a SELECT whose answer must hold until the commit; empty where steps run one
	// after the other.
	shareLock string
	// newRunner starts what runs the steps once the schema is there. The Store closes it.
	newRunner func(ctx context.Context, write *sql.DB, options Options) (runner, error)
}

// open brings the schema up to date and prepares the statements of the hot path. The Store owns both handles, also
// when open fails.
func open(ctx context.Context, write, read *sql.DB, d dialect, options Options) (*Store, error) {
	s := &Store{dialect: d, options: options, write: write, read: read}
	for _, next := range []func(context.Context) error{
		s.migrate, s.start, s.addStandIn, s.addStandInUser, s.addStandInFamily, s.prepare,
	} {
		if err := next(ctx); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// start lets steps begin.
func (s *Store) start(ctx context.Context) (err error) {
	s.steps, err = s.dialect.newRunner(ctx, s.write, s.options)
	return err
}

// prepare fills statements.
func (s *Store) prepare(ctx context.Context) error {
	for _, p := range []struct {
		statement **sql.Stmt
		handle    *sql.DB
		text      string
	}{
		{&s.clientByID, s.read, selectClients + whereClient},
		{&s.userByID, s.read, selectUsers + whereUser},
		{&s.userByEmail, s.read, selectUsers + whereEmail},
		{&s.familyByID, s.read, selectFamily},
		{&s.addFamily, s.write, fmt.Sprintf(insertFamily, s.dialect.shareLock)},
		{&s.decideRequest, s.write, decideRequest},
		{&s.redeemCode, s.write, redeemCode},
		{&s.rotateRefreshToken, s.write, rotateRefreshToken},
	} {
		var err error
		if *p.statement, err = p.handle.PrepareContext(ctx, p.text); err != nil {
			return fmt.Errorf("preparing %.40q: %w", p.text, err)
		}
	}
	return nil
}

// Ping tells whether the database answers a reader and lets a writer in.
func (s *Store) Ping(ctx context.Context) error {
	var one int
	if err := s.read.QueryRowContext(ctx, `SELECT 1`).Scan(&one); err != nil {
		return fmt.Errorf("asking the database: %w", err)
	}
	return s.step(ctx, "asking the database", func(context.Context, *sql.Tx) error { return nil })
}

// Close ends the store. Closing it again does nothing.
func (s *Store) Close() error {
	if s.steps != nil {
		s.steps.close()
	}
	// The handles close the statements with their connections. Readers go first: the last connection to leave an SQLite
	// file clears its log, and must be able to write.
	if err := errors.Join(s.read.Close(), s.write.Close()); err != nil {
		return fmt.Errorf("closing the database: %w", err)
	}
	return nil
}

// step runs one step of the protocol: everything in do, or nothing. A nil error means that it is durable. An error of
// the commit may leave open whether it happened; nobody treats it as success.
//
// When ctx ends, step may return while do still runs. So do shares nothing with the caller but what the caller leaves
// alone after an error, and it uses the context that it is given.
func (s *Store) step(ctx context.Context, name string, do work) error {
	return s.run(ctx, name, job{do: do})
}

// statement is step for a do that is a single statement. It costs less.
func (s *Store) statement(ctx context.Context, name string, do work) error {
	return s.run(ctx, name, job{do: do, single: true})
}

func (s *Store) run(ctx context.Context, name string, j job) error {
	if err := s.steps.run(ctx, j); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// mustHit, mustAdd, mustBeFirst and mustStand turn a conditional statement that hit no row into what that means.
var (
	mustHit     = hitOr(tokenissuer.ErrNotFound)
	mustAdd     = hitOr(tokenissuer.ErrTaken)
	mustBeFirst = hitOr(tokenissuer.ErrSpent)
	mustStand   = hitOr(tokenissuer.ErrStale)
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

// scanner is a row to read: *sql.Row or *sql.Rows.
type scanner interface{ Scan(into ...any) error }

// scanAll reads every row of a query that may have failed.
func scanAll[T any](rows *sql.Rows, err error, scan func(scanner) (T, error)) ([]T, error) {
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err has told whatever went wrong
	var list []T
	for rows.Next() {
		value, err := scan(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return list, rows.Err()
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
