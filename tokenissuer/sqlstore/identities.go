package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const (
	selectIdentities = `SELECT provider, subject, user_id, linked_at, last_used_at FROM identities`
	insertIdentity   = `INSERT INTO identities (provider, subject, user_id, linked_at, last_used_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (provider, subject) `
)

// identityValues are the arguments of insertIdentity.
func identityValues(i store.Identity) []any {
	return []any{i.Provider, i.Subject, i.UserID, micros(i.LinkedAt), micros(i.LastUsedAt)}
}

func scanIdentity(row scanner) (i store.Identity, err error) {
	var linked, used sql.Null[int64]
	err = row.Scan(&i.Provider, &i.Subject, &i.UserID, &linked, &used)
	i.LinkedAt, i.LastUsedAt = timeOf(linked), timeOf(used)
	return i, err
}

// UserByIdentity returns the identity of that name.
func (s *Store) UserByIdentity(ctx context.Context, provider, subject string) (store.Identity, error) {
	found, err := askFor(ctx, s.text(selectIdentities+` WHERE provider = $1 AND subject = $2`),
		[]any{possible(provider), possible(subject)}, scanIdentity)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return store.Identity{}, store.ErrNotFound
	case err != nil:
		return store.Identity{}, fmt.Errorf("reading identity: %w", err)
	}
	return found, nil
}

// Identities lists the identities of a user, by the bytes of provider and subject.
func (s *Store) Identities(ctx context.Context, userID string) ([]store.Identity, error) {
	list, err := askAll(ctx, s.text(selectIdentities+` WHERE user_id = $1`), []any{possible(userID)}, scanIdentity)
	if err != nil {
		return nil, fmt.Errorf("listing identities: %w", err)
	}
	slices.SortFunc(list, func(a, b store.Identity) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Subject, b.Subject))
	})
	return list, nil
}

// LinkIdentity gives an identity to a user. The user's row comes first: whoever removes the user waits, and then sees the identity.
func (s *Store) LinkIdentity(ctx context.Context, identity store.Identity) error {
	return s.step(ctx, "linking identity", func(ctx context.Context, tx session) error {
		err := mustHit(tx.ExecContext(ctx, `UPDATE users SET external = TRUE WHERE id = $1`, identity.UserID))
		if err != nil && (!identity.UserDeclared || !errors.Is(err, store.ErrNotFound)) {
			return err
		}
		return mustAdd(tx.ExecContext(ctx, insertIdentity+`DO UPDATE SET last_used_at = excluded.last_used_at
			WHERE identities.user_id = excluded.user_id`, identityValues(identity)...))
	})
}

// AddExternalUser registers a user with its first identity.
func (s *Store) AddExternalUser(ctx context.Context, user *store.User, identity store.Identity, organisationDeclared bool) error {
	external := *user
	external.External, identity.UserID = true, user.ID
	add := addingUser(&external, organisationDeclared)
	return s.step(ctx, "adding external user", func(ctx context.Context, tx session) error {
		if err := add(ctx, tx); err != nil {
			return err
		}
		return mustAdd(tx.ExecContext(ctx, insertIdentity+`DO NOTHING`, identityValues(identity)...))
	})
}

// UnlinkIdentity deletes an identity. Whether the user has another is asked when the user's row is ours, so that none is linked beside it.
func (s *Store) UnlinkIdentity(ctx context.Context, provider, subject string) error {
	return s.step(ctx, "unlinking identity", func(ctx context.Context, tx session) error {
		var userID string
		err := tx.QueryRowContext(ctx, `DELETE FROM identities WHERE provider = $1 AND subject = $2 RETURNING user_id`,
			possible(provider), possible(subject)).Scan(&userID)
		if errors.Is(err, sql.ErrNoRows) {
			return store.ErrNotFound
		}
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE users SET external = FALSE WHERE id = $1`, userID); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE users SET external = TRUE
			WHERE id = $1 AND EXISTS (SELECT 1 FROM identities WHERE user_id = $1)`, userID)
		return err
	})
}
