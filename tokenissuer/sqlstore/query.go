package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"
)

// session is where the statements of a step run: in a transaction, or each by itself.
type session struct {
	querier
	in *transaction // nil: each by itself
}

// transaction is what the steps in it share.
type transaction struct {
	*sql.Tx
	prepared map[*sql.Stmt]*sql.Stmt
	// position is that of the feed which was taken for the transaction; 0: none was.
	position int64
}

// inTransaction is the session of a transaction.
func inTransaction(tx *transaction) session { return session{tx, tx} }

// querier is a transaction or a handle.
type querier interface {
	ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, text string, args ...any) *sql.Row
}

// prepared returns a statement of the writing handle as one of the session.
func (s session) prepared(ctx context.Context, statement *sql.Stmt) *sql.Stmt {
	if s.in == nil {
		return statement
	}
	own, ok := s.in.prepared[statement]
	if !ok {
		if s.in.prepared == nil {
			s.in.prepared = make(map[*sql.Stmt]*sql.Stmt)
		}
		own = s.in.StmtContext(ctx, statement)
		s.in.prepared[statement] = own
	}
	return own
}

// possible returns the key of a query, or one that no row has when it is no text: PostgreSQL takes neither bytes that are
// no UTF-8 nor NUL, and refuses the query instead of finding nothing. It is asked all the same, with the same work.
func possible(key string) string {
	if !isText(key) {
		return standIn
	}
	return key
}

// isText reports whether PostgreSQL takes the string as text.
func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// handle is a pool of connections for queries.
type handle struct {
	db      *sql.DB
	queue   *queue
	options Options
	// remote: a connection that is silent for too long may be dead, and then so may be the others.
	remote bool
}

// query is a SELECT on a handle.
type query struct {
	on   *handle
	text string
	stmt *sql.Stmt // nil: it was not prepared
}

// text is a query of a request.
func (s *Store) text(text string) query {
	return query{on: &s.read, text: text, stmt: s.prepared[text]}
}

// background is a query that no request waits for. It has connections of its own, so that no crowd of requests
// keeps revocations out.
func (s *Store) background(text string) query {
	return query{on: &s.feed, text: text, stmt: s.prepared[text]}
}

func (q query) rows(ctx context.Context, args []any) (*sql.Rows, error) {
	if q.stmt != nil {
		return q.stmt.QueryContext(ctx, args...)
	}
	return q.on.db.QueryContext(ctx, q.text, args...)
}

// ask runs a query and reads the answer. Every query goes through here, so that none waits longer than the
// queue's timeout, unless its caller says how long it waits, and no more wait than there is room for.
func ask(ctx context.Context, q query, args []any, read func(*sql.Rows) error) error {
	err := q.ask(ctx, args, read)
	if err != nil {
		q.on.options.failed(err)
	}
	if q.on.remote && (errors.Is(err, context.DeadlineExceeded) || pgconn.Timeout(err)) {
		forsake(q.on.db)
	}
	return unavailable(err)
}

// forsake closes the idle connections, so that new ones are made.
func forsake(db *sql.DB) {
	db.SetMaxIdleConns(-1)
	db.SetMaxIdleConns(db.Stats().MaxOpenConnections)
}

func (q query) ask(ctx context.Context, args []any, read func(*sql.Rows) error) error {
	ctx, leave, err := q.on.queue.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	rows, err := q.rows(ctx, args)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err returns what went wrong
	if err := read(rows); err != nil {
		return err
	}
	return rows.Err()
}

// askOne asks for one row. Without one the error is sql.ErrNoRows.
func askOne(ctx context.Context, q query, args []any, into ...any) error {
	return ask(ctx, q, args, func(rows *sql.Rows) error {
		if rows.Next() {
			return rows.Scan(into...)
		}
		if err := rows.Err(); err != nil {
			return err
		}
		return sql.ErrNoRows
	})
}

// askFor asks for a row and reads it. Without one the error is sql.ErrNoRows.
func askFor[T any](ctx context.Context, q query, args []any, scan func(scanner) (T, error)) (value T, err error) {
	err = ask(ctx, q, args, func(rows *sql.Rows) error {
		if !rows.Next() {
			if err := rows.Err(); err != nil {
				return err
			}
			return sql.ErrNoRows
		}
		value, err = scan(rows)
		return err
	})
	return value, err
}

// askAll asks for any number of rows.
func askAll[T any](ctx context.Context, q query, args []any, scan func(scanner) (T, error)) (list []T, err error) {
	err = ask(ctx, q, args, func(rows *sql.Rows) (err error) {
		list, err = scanAll(rows, scan)
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// queryAll is askAll within a step.
func queryAll[T any](ctx context.Context, tx session, text string, args []any, scan func(scanner) (T, error)) ([]T, error) {
	rows, err := tx.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err returns what went wrong
	return scanAll(rows, scan)
}

// scanner is a row to read: *sql.Row or *sql.Rows.
type scanner interface{ Scan(into ...any) error }

// scanAll reads every row that is left.
func scanAll[T any](rows *sql.Rows, scan func(scanner) (T, error)) ([]T, error) {
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
