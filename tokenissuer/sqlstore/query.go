package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/tracing"
)

// session runs the statements of a step: in a transaction, or each by itself.
type session struct {
	querier
	in *transaction // nil: each statement by itself
}

// transaction is the state that steps in one transaction share.
type transaction struct {
	*sql.Tx
	prepared map[*sql.Stmt]*sql.Stmt
	// position is the position in the feed that the transaction has taken; 0: none.
	position int64
}

func inTransaction(tx *transaction) session { return session{tx, tx} }

// querier is a transaction or a handle.
type querier interface {
	ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, text string, args ...any) *sql.Row
}

// prepared returns a prepared statement of the writing handle for use in the session.
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

// possible returns the key of a query, or a key that no row has if the key is not text. PostgreSQL accepts neither invalid UTF-8 nor NUL,
// and would fail instead of finding nothing. The query still runs, which keeps its timing the same.
func possible(key string) string {
	if !isText(key) {
		return standIn
	}
	return key
}

// isText reports whether PostgreSQL accepts the string as text.
func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// handle is a pool of connections for queries.
type handle struct {
	db      *sql.DB
	queue   *queue
	options Options
	// remote: if one connection is silent for too long, it and the others may be dead.
	remote bool
}

// query is a SELECT on a handle.
type query struct {
	on   *handle
	text string
	stmt *sql.Stmt // nil: not prepared
}

// text returns a query for a request.
func (db *database) text(text string) query {
	return query{on: &db.read, text: text, stmt: db.prepared[text]}
}

// background returns a query that no request waits for. It uses its own connections, because many requests must not delay revocations.
func (db *database) background(text string) query {
	return query{on: &db.feed, text: text, stmt: db.prepared[text]}
}

// table returns the name of the first table that the query reads; empty: it reads none.
func (q query) table() string {
	isName := func(r rune) bool { return r == '_' || 'a' <= r && r <= 'z' }
	before := ""
	for word := range strings.FieldsSeq(q.text) {
		if name := strings.TrimRight(word, "),"); before == "FROM" && strings.IndexFunc(name, func(r rune) bool { return !isName(r) }) < 0 {
			return name
		}
		before = word
	}
	return ""
}

func (q query) rows(ctx context.Context, args []any) (*sql.Rows, error) {
	if q.stmt != nil {
		return q.stmt.QueryContext(ctx, args...)
	}
	return q.on.db.QueryContext(ctx, q.text, args...)
}

// ask runs a query and reads the result. Every query goes through it: a query waits no longer than the queue's timeout unless its caller
// sets a deadline, and the queue bounds how many queries wait.
func ask(ctx context.Context, q query, args []any, read func(*sql.Rows) error) error {
	ctx, span := tracing.StartCall(ctx, "store", "query")
	if span.IsRecorded() {
		span.Rename(strings.TrimSpace("store query " + q.table()))
	}
	err := q.ask(ctx, args, read)
	span.End(failure(err))
	if err != nil {
		q.on.options.failed(err)
	}
	if q.on.remote && (errors.Is(err, context.DeadlineExceeded) || pgconn.Timeout(err)) {
		forsake(q.on.db)
	}
	return unavailable(err)
}

// forsake closes the idle connections. New ones are opened when needed.
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
	defer func() { _ = rows.Close() }() // rows.Err returns the error
	if err := read(rows); err != nil {
		return err
	}
	return rows.Err()
}

// askOne queries one row. It returns sql.ErrNoRows if there is none.
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

// askFor queries one row and scans it. It returns sql.ErrNoRows if there is none.
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

// askAll queries any number of rows.
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
	defer func() { _ = rows.Close() }() // rows.Err returns the error
	return scanAll(rows, scan)
}

// scanner is a row to read: *sql.Row or *sql.Rows.
type scanner interface{ Scan(into ...any) error }

// scanAll scans all remaining rows.
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
