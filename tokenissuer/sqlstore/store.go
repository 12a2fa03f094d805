// Package sqlstore keeps everything in an SQL database: SQLite in a file of its own. One set of statements serves
// every dialect; what differs between them stands in the struct dialect and in the file that opens one (sqlite.go).
//
// Every step of the protocol is one transaction on a writing connection. Reads are single statements on other
// connections, and wait for no writer.
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
	// Warn is told what was found wrong and put right; nil: nobody is.
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

	clientByID *sql.Stmt
}

// dialect is all that differs between databases once they are open.
type dialect struct {
	// goose is the dialect's name in the migration library.
	goose goose.Dialect
	// erase makes what has been overwritten or deleted leave the database's files.
	erase func(ctx context.Context, db *sql.DB) error
}

// open brings the schema up to date and prepares the statements of the hot path. The Store owns both handles, also
// when open fails.
func open(ctx context.Context, write, read *sql.DB, d dialect, options Options) (*Store, error) {
	s := &Store{dialect: d, options: options, write: write, read: read}
	err := s.migrate(ctx)
	if err == nil {
		err = s.addStandIn(ctx)
	}
	if err == nil {
		s.clientByID, err = read.PrepareContext(ctx, selectClients+whereClient)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Ping tells whether the database answers a reader and lets a writer in.
func (s *Store) Ping(ctx context.Context) error {
	var one int
	if err := s.read.QueryRowContext(ctx, `SELECT 1`).Scan(&one); err != nil {
		return fmt.Errorf("asking the database: %w", err)
	}
	return s.step(ctx, "asking the database", func(*sql.Tx) error { return nil })
}

// Close ends the store. Closing it again does nothing.
func (s *Store) Close() error {
	var statement error
	if s.clientByID != nil {
		statement = s.clientByID.Close()
	}
	// Readers go first: the last connection to leave an SQLite file clears its log, and must be able to write.
	if err := errors.Join(statement, s.read.Close(), s.write.Close()); err != nil {
		return fmt.Errorf("closing the database: %w", err)
	}
	return nil
}

// step runs one step of the protocol: everything in do, or nothing. A nil error means that it is durable. An error of
// the commit may leave open whether it happened; nobody treats it as success.
func (s *Store) step(ctx context.Context, name string, do func(*sql.Tx) error) error {
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if err := do(tx); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// mustHit turns a conditional statement that found no row into ErrNotFound.
func mustHit(result sql.Result, err error) error {
	if err != nil {
		return err
	}
	hit, err := result.RowsAffected()
	if err == nil && hit == 0 {
		err = tokenissuer.ErrNotFound
	}
	return err
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
