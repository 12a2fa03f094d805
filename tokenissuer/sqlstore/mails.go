package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const mailColumns = `id, recipient, sealed, created_at, due_at, expires_at, attempts, unanswered`

// insertMail adds a mail unless $9 mails wait, or $10 for its recipient. One that is there already stays as it is, and counts as added.
const insertMail = `INSERT INTO mails (` + mailColumns + `) SELECT $1, $2, $3, $4, $5, $6, $7, $8
	WHERE (SELECT COUNT(*) FROM mails) < $9 AND (SELECT COUNT(*) FROM mails WHERE recipient = $2) < $10
	ON CONFLICT (id) DO UPDATE SET id = excluded.id`

// AddMail stores a mail, unless too many wait.
func (s mails) AddMail(ctx context.Context, mail store.Mail, limits store.MailLimits) error {
	m := mail
	return s.db.statement(ctx, "adding mail", func(ctx context.Context, tx session) error {
		err := mustHit(tx.ExecContext(ctx, insertMail, m.ID, m.To, m.Sealed, micros(m.CreatedAt), micros(m.DueAt), micros(m.ExpiresAt), m.Attempts,
			m.Unanswered, limits.All, limits.PerAddress))
		if errors.Is(err, store.ErrNotFound) {
			return store.ErrFull
		}
		return err
	})
}

// DueMails lists due mails, earliest DueAt first.
func (s mails) DueMails(ctx context.Context, at time.Time, limit int) ([]store.Mail, error) {
	list, err := askAll(ctx, s.db.background(`SELECT `+mailColumns+` FROM mails WHERE due_at <= $1 ORDER BY due_at, id LIMIT $2`), []any{at.UnixMicro(), limit},
		func(row scanner) (m store.Mail, err error) {
			var created, due, expires sql.Null[int64]
			err = row.Scan(&m.ID, &m.To, &m.Sealed, &created, &due, &expires, &m.Attempts, &m.Unanswered)
			m.CreatedAt, m.DueAt, m.ExpiresAt = timeOf(created), timeOf(due), timeOf(expires)
			return m, err
		})
	if err != nil {
		return nil, fmt.Errorf("listing due mails: %w", err)
	}
	return list, nil
}

// PostponeMail makes a mail due later, unless another caller has done so since it was listed.
func (s mails) PostponeMail(ctx context.Context, m store.Mail, next time.Time) error {
	return s.db.statement(ctx, "postponing mail", func(ctx context.Context, tx session) error {
		return mustHit(tx.ExecContext(ctx, `UPDATE mails SET due_at = $1, attempts = $2, unanswered = $3 WHERE id = $4 AND due_at = $5`,
			micros(next), m.Attempts, m.Unanswered, possible(m.ID), micros(m.DueAt)))
	})
}

// DropMail deletes a mail.
func (s mails) DropMail(ctx context.Context, id string) error {
	return s.db.statement(ctx, "dropping mail", func(ctx context.Context, tx session) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM mails WHERE id = $1`, possible(id))
		return err
	})
}
