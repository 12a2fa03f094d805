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
	factorColumns = `id, user_id, declared_email, kind, name, data, credential, created_at, last_used_at`
	selectFactors = `SELECT ` + factorColumns + ` FROM factors`
)

// scanFactor reads a row of selectFactors.
func scanFactor(row scanner) (*store.Factor, error) {
	var f store.Factor
	var created, used sql.Null[int64]
	err := row.Scan(&f.ID, &f.UserID, &f.DeclaredEmail, &f.Kind, &f.Name, &f.Data, &f.Credential, &created, &used)
	f.CreatedAt, f.LastUsedAt = timeOf(created), timeOf(used)
	return &f, err
}

// Factors lists the factors of a user, oldest first.
func (s factors) Factors(ctx context.Context, userID string) ([]*store.Factor, error) {
	list, err := askAll(ctx, s.db.text(selectFactors+` WHERE user_id = $1`), []any{possible(userID)}, scanFactor)
	if err != nil {
		return nil, fmt.Errorf("listing factors: %w", err)
	}
	slices.SortFunc(list, func(a, b *store.Factor) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return list, nil
}

// FactorByCredential returns the passkey with a credential id.
func (s factors) FactorByCredential(ctx context.Context, credential string) (*store.Factor, error) {
	if credential == "" {
		return nil, store.ErrNotFound
	}
	f, err := askFor(ctx, s.db.text(selectFactors+` WHERE credential = $1`), []any{possible(credential)}, scanFactor)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, store.ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("reading factor: %w", err)
	}
	return f, nil
}

// AddFactor stores a factor. It locks the owner's row first: a concurrent change of the owner waits, and then sees the factor.
func (s factors) AddFactor(ctx context.Context, factor *store.Factor, userVersion string, others ...*store.Factor) error {
	added := []store.Factor{*factor}
	for _, other := range others {
		added = append(added, *other)
	}
	return s.db.step(ctx, "adding factor", func(ctx context.Context, tx session) error {
		f := added[0]
		if f.DeclaredEmail == "" {
			if err := s.db.lockActive(ctx, tx, f.UserID, userVersion); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM factors WHERE user_id = $1 AND declared_email <> $2`, f.UserID, f.DeclaredEmail); err != nil {
			return err
		}
		for _, f := range added {
			if err := addFactor(ctx, tx, f); err != nil {
				return err
			}
		}
		return nil
	})
}

func addFactor(ctx context.Context, tx session, f store.Factor) error {
	if f.Kind == store.RecoveryCodes {
		if _, err := tx.ExecContext(ctx, `DELETE FROM factors WHERE user_id = $1 AND kind = $2`, f.UserID, f.Kind); err != nil {
			return err
		}
	}
	return mustAdd(tx.ExecContext(ctx, `INSERT INTO factors (`+factorColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING`,
		f.ID, f.UserID, f.DeclaredEmail, f.Kind, f.Name, f.Data, f.Credential, micros(f.CreatedAt), micros(f.LastUsedAt)))
}

// ChangeFactor edits a factor.
func (s factors) ChangeFactor(ctx context.Context, id string, change func(*store.Factor) error) error {
	return s.db.step(ctx, "changing factor", func(ctx context.Context, tx session) error {
		// The update changes nothing, but it locks the row in every dialect, which serializes changes.
		list, err := queryAll(ctx, tx, `UPDATE factors SET kind = kind WHERE id = $1 RETURNING `+factorColumns, []any{possible(id)}, scanFactor)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return store.ErrNotFound
		}
		f := list[0]
		if err := change(f); err != nil {
			return editError{err}
		}
		_, err = tx.ExecContext(ctx, `UPDATE factors SET name = $1, data = $2, last_used_at = $3 WHERE id = $4`, f.Name, f.Data, micros(f.LastUsedAt), id)
		return err
	})
}

// RemoveFactors deletes the factors that match.
func (s factors) RemoveFactors(ctx context.Context, which store.FactorFilter) error {
	return s.db.statement(ctx, "removing factors", func(ctx context.Context, tx session) error {
		return mustHit(tx.ExecContext(ctx, `DELETE FROM factors WHERE user_id = $1 AND ($2 = '' OR id = $2)`, possible(which.UserID), possible(which.ID)))
	})
}
