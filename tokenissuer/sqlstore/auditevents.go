package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// maxExamined is how many events one page looks at if it has several filters: the most selective column is unknown, and two common values
// may never occur together.
const maxExamined = 2000

const auditColumns = `at, id, event, user_id, client_id, reason, host`

const selectBeyond = `SELECT at FROM audit_events ORDER BY at DESC, id DESC LIMIT 1 OFFSET $1`

// AddAuditEvents stores events.
func (s auditEvents) AddAuditEvents(ctx context.Context, events ...store.AuditEvent) error {
	if len(events) == 0 {
		return nil
	}
	const columns = 8
	var rows []string
	args := make([]any, 0, columns*len(events))
	for _, e := range events {
		row := make([]string, columns)
		for i := range row {
			row[i] = fmt.Sprintf("$%d", len(args)+i+1)
		}
		rows = append(rows, "("+strings.Join(row, ", ")+")")
		args = append(args, e.Key.At.UnixMicro(), e.Key.ID, asText(e.Event), optional(e.UserID), optional(e.ClientID), optional(e.Reason), optional(e.Host), asText(e.Data))
	}
	insert := `INSERT INTO audit_events (` + auditColumns + `, data) VALUES ` + strings.Join(rows, ", ") + ` ON CONFLICT (at, id) DO NOTHING`
	return s.db.statement(ctx, "adding audit events", func(ctx context.Context, tx session) error {
		_, err := tx.ExecContext(ctx, insert, args...)
		return err
	})
}

// asText returns the text that PostgreSQL accepts in place of s.
func asText(s string) string {
	if isText(s) {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// optional is asText with NULL for the empty text.
func optional(s string) sql.Null[string] { return sql.Null[string]{V: asText(s), Valid: s != ""} }

// pageOfEvents returns the query for a page: one range of one index, of which it reads as many rows as fits are needed or, if further
// columns decide, as may be examined. The data of a row that does not match is NULL.
func pageOfEvents(f store.AuditFilter, before store.AuditKey, limit int) (text string, args []any) {
	arg := func(value any) string {
		args = append(args, value)
		return fmt.Sprintf("$%d", len(args))
	}
	where, matches, rows := "", []string(nil), limit+1
	for _, column := range []struct{ name, value string }{ // the one that usually has the fewest events first
		{"user_id", f.UserID}, {"client_id", f.ClientID}, {"reason", f.Reason}, {"host", f.Host}, {"event", f.Event},
	} {
		switch {
		case column.value == "":
		case where == "":
			where = column.name + " = " + arg(asText(column.value)) + " AND "
		default:
			matches, rows = append(matches, column.name+" = "+arg(asText(column.value))), maxExamined+1
		}
	}
	data := "data"
	if len(matches) > 0 {
		data = "CASE WHEN " + strings.Join(matches, " AND ") + " THEN data END"
	}
	from, to := int64(math.MinInt64), [2]int64{math.MaxInt64, math.MaxInt64}
	if !f.Since.IsZero() {
		from = f.Since.UnixMicro()
	}
	if !f.Until.IsZero() {
		to = [2]int64{f.Until.UnixMicro(), 0}
	}
	if at := before.At.UnixMicro(); !before.IsZero() && (at < to[0] || at == to[0] && before.ID < to[1]) {
		to = [2]int64{at, before.ID}
	}
	return `SELECT ` + auditColumns + `, ` + data + ` FROM audit_events WHERE ` + where + `at >= ` + arg(from) + ` AND (at, id) < (` + arg(to[0]) + `, ` + arg(to[1]) +
		`) ORDER BY at DESC, id DESC LIMIT ` + arg(rows), args
}

// AuditEvents lists events, newest first.
func (s auditEvents) AuditEvents(ctx context.Context, f store.AuditFilter, before store.AuditKey, limit int) (events []store.AuditEvent, next store.AuditKey, err error) {
	text, args := pageOfEvents(f, before, limit)
	most := args[len(args)-1].(int) - 1
	err = ask(ctx, s.db.background(text), args, func(rows *sql.Rows) error {
		var last store.AuditKey
		for examined := 0; rows.Next(); examined++ {
			if examined == most || len(events) == limit { // and there is one more
				next = last
				return nil
			}
			var e store.AuditEvent
			var at int64
			var user, client, reason, host, data sql.Null[string]
			if err := rows.Scan(&at, &e.Key.ID, &e.Event, &user, &client, &reason, &host, &data); err != nil {
				return err
			}
			e.Key.At = time.UnixMicro(at).UTC()
			last = e.Key
			if data.Valid {
				e.UserID, e.ClientID, e.Reason, e.Host, e.Data = user.V, client.V, reason.V, host.V, data.V
				events = append(events, e)
			}
		}
		return nil
	})
	if err != nil {
		return nil, store.AuditKey{}, fmt.Errorf("listing audit events: %w", err)
	}
	return events, next, nil
}

// selectCounts counts from the index alone, for each span at most $5 entries. It is a row a span, in their order.
const selectCounts = `WITH RECURSIVE spans(n, begins) AS (SELECT 1, CAST($2 AS BIGINT) UNION ALL SELECT n + 1, begins + CAST($3 AS BIGINT) FROM spans WHERE n < $4)
	SELECT (SELECT COUNT(*) FROM (SELECT 1 FROM audit_events WHERE event = $1 AND at >= spans.begins AND at < spans.begins + CAST($3 AS BIGINT) LIMIT $5) AS counted)
	FROM spans ORDER BY n`

// CountAuditEvents counts the events of each span.
func (s auditEvents) CountAuditEvents(ctx context.Context, event string, from time.Time, span time.Duration, n, most int) ([]int, error) {
	counts, err := askAll(ctx, s.db.background(selectCounts), []any{asText(event), from.UnixMicro(), span.Microseconds(), n, most}, func(row scanner) (int, error) {
		var count int
		err := row.Scan(&count)
		return count, err
	})
	if err != nil {
		return nil, fmt.Errorf("counting audit events: %w", err)
	}
	return counts, nil
}

// AuditEventsBeyond returns the time of the newest event that has n newer ones.
func (s auditEvents) AuditEventsBeyond(ctx context.Context, n int) (time.Time, error) {
	var at int64
	err := askOne(ctx, s.db.background(selectBeyond), []any{n}, &at)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return time.Time{}, nil
	case err != nil:
		return time.Time{}, fmt.Errorf("counting audit events: %w", err)
	}
	return time.UnixMicro(at).UTC(), nil
}
