package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// takeSubject assigns an id to a client or a user. It returns ErrTaken when the id is in use, and RemovedError when it was in use and
// tokens of its former owner may still live at that time.
func takeSubject(ctx context.Context, tx session, id, kind string, now time.Time) error {
	err := mustAdd(tx.ExecContext(ctx,
		`INSERT INTO subjects (id, kind) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING`, id, kind))
	if errors.Is(err, store.ErrTaken) {
		err = mustAdd(tx.ExecContext(ctx,
			`UPDATE subjects SET kind = $2, free_at = NULL WHERE id = $1 AND free_at <= $3`, id, kind, micros(now)))
	}
	if err == nil { // remaining records belong to a former owner, who was removed or declared
		err = forget(ctx, tx, id, kind)
	}
	if !errors.Is(err, store.ErrTaken) {
		return err
	}
	var freeAt sql.Null[int64]
	if err := tx.QueryRowContext(ctx, `SELECT free_at FROM subjects WHERE id = $1`, id).Scan(&freeAt); err != nil {
		return err
	}
	if freeAt.Valid {
		return store.RemovedError{FreeAt: timeOf(freeAt)}
	}
	return store.ErrTaken
}

// forget deletes what is stored about a client or a user in other tables: consents, identities, factors, personal access tokens, and what a user
// is found by.
func forget(ctx context.Context, tx session, id, kind string) error {
	statements := []string{`DELETE FROM consents WHERE client_id = $1`}
	if kind == "user" {
		statements = []string{`DELETE FROM consents WHERE user_id = $1`, `DELETE FROM identities WHERE user_id = $1`, `DELETE FROM factors WHERE user_id = $1`, `DELETE FROM personal_tokens WHERE user_id = $1`,
			`DELETE FROM user_terms WHERE user_id = $1`}
	}
	for _, statement := range statements {
		if _, err := tx.ExecContext(ctx, statement, id); err != nil {
			return err
		}
	}
	return nil
}

// freeSubject sets when the id of a removed client or user may be used again.
func freeSubject(ctx context.Context, tx session, id string, at time.Time) error {
	_, err := tx.ExecContext(ctx, `UPDATE subjects SET free_at = $2 WHERE id = $1`, id, micros(at))
	return err
}

// HadUser reports whether the id belongs or belonged to a user.
func (s users) HadUser(ctx context.Context, userID string) (bool, error) {
	had, err := askFor(ctx, s.db.text(`SELECT EXISTS (SELECT 1 FROM subjects WHERE id = $1 AND kind = 'user')`), []any{possible(userID)},
		func(row scanner) (had bool, err error) { return had, row.Scan(&had) })
	if err != nil {
		return false, fmt.Errorf("asking for an id: %w", err)
	}
	return had, nil
}
