package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// insertSessionClient records that the client $2 must be notified of the end of the session $1. The step that adds the family holds the
// session's row, which prevents a concurrent end of the session.
const insertSessionClient = `INSERT INTO session_clients (session_id, client_id, user_id, expires_at)
	SELECT id, $2, user_id, expires_at FROM families WHERE id = $1 ON CONFLICT (session_id, client_id) DO NOTHING`

func makeDue(ctx context.Context, tx session, sessionID string, at time.Time) error {
	_, err := tx.ExecContext(ctx, `UPDATE session_clients SET due_at = $2, ended_at = $2 WHERE session_id = $1 AND due_at IS NULL`, sessionID, micros(at))
	if err != nil {
		return fmt.Errorf("making logouts due: %w", err)
	}
	return nil
}

// DueLogouts lists due logouts, earliest DueAt first.
func (s logouts) DueLogouts(ctx context.Context, at time.Time, limit int) ([]store.Logout, error) {
	list, err := askAll(ctx, s.db.background(`SELECT session_id, client_id, user_id, due_at, ended_at, attempts FROM session_clients
		WHERE due_at <= $1 ORDER BY due_at LIMIT $2`), []any{at.UnixMicro(), limit}, func(row scanner) (l store.Logout, err error) {
		var due, ended sql.Null[int64]
		err = row.Scan(&l.SessionID, &l.ClientID, &l.UserID, &due, &ended, &l.Attempts)
		l.DueAt, l.EndedAt = timeOf(due), timeOf(ended)
		return l, err
	})
	if err != nil {
		return nil, fmt.Errorf("listing due logouts: %w", err)
	}
	return list, nil
}

// PostponeLogout makes a logout due later, unless another caller has done so since it was listed.
func (s logouts) PostponeLogout(ctx context.Context, logout store.Logout, next time.Time) error {
	return s.db.statement(ctx, "postponing logout", func(ctx context.Context, tx session) error {
		return mustHit(tx.ExecContext(ctx, `UPDATE session_clients SET due_at = $1, attempts = $2
			WHERE session_id = $3 AND client_id = $4 AND due_at = $5`,
			micros(next), logout.Attempts, possible(logout.SessionID), possible(logout.ClientID), micros(logout.DueAt)))
	})
}

// DropLogout deletes a logout that is due.
func (s logouts) DropLogout(ctx context.Context, logout store.Logout) error {
	return s.db.statement(ctx, "dropping logout", func(ctx context.Context, tx session) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM session_clients WHERE session_id = $1 AND client_id = $2 AND due_at IS NOT NULL`,
			possible(logout.SessionID), possible(logout.ClientID))
		return err
	})
}

// SessionClients lists the clients to notify when the sessions end.
func (s logouts) SessionClients(ctx context.Context, sessionIDs ...string) (map[string][]string, error) {
	if len(sessionIDs) == 0 {
		return nil, nil
	}
	places, args := make([]string, len(sessionIDs)), make([]any, len(sessionIDs))
	for i, id := range sessionIDs {
		places[i], args[i] = fmt.Sprintf("$%d", i+1), possible(id)
	}
	found := make(map[string][]string)
	err := ask(ctx, s.db.text(`SELECT session_id, client_id FROM session_clients
		WHERE due_at IS NULL AND session_id IN (`+strings.Join(places, ", ")+`)`), args, func(rows *sql.Rows) error {
		for rows.Next() {
			var sessionID, clientID string
			if err := rows.Scan(&sessionID, &clientID); err != nil {
				return err
			}
			found[sessionID] = append(found[sessionID], clientID)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("listing the clients of sessions: %w", err)
	}
	for _, clients := range found {
		slices.Sort(clients)
	}
	return found, nil
}
