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

// Organisation returns the organisation of that id.
func (s users) Organisation(ctx context.Context, id string) (*store.Organisation, error) {
	o := store.Organisation{ID: id}
	var created sql.Null[int64]
	err := askOne(ctx, s.db.text(`SELECT name, created_at FROM organisations WHERE id = $1`), []any{possible(id)}, &o.Name, &created)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, store.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("reading organisation: %w", err)
	}
	o.CreatedAt = timeOf(created)
	return &o, nil
}

// Organisations lists all organisations, sorted by the bytes of their ids.
func (s users) Organisations(ctx context.Context) ([]*store.Organisation, error) {
	list, err := askAll(ctx, s.db.text(`SELECT id, name, created_at FROM organisations`), nil, func(row scanner) (*store.Organisation, error) {
		var o store.Organisation
		var created sql.Null[int64]
		err := row.Scan(&o.ID, &o.Name, &created)
		o.CreatedAt = timeOf(created)
		return &o, err
	})
	if err != nil {
		return nil, fmt.Errorf("listing organisations: %w", err)
	}
	slices.SortFunc(list, func(a, b *store.Organisation) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}

// AddOrganisation registers an organisation.
func (s users) AddOrganisation(ctx context.Context, organisation *store.Organisation) error {
	id, name, created := organisation.ID, organisation.Name, micros(organisation.CreatedAt)
	return s.db.step(ctx, "adding organisation", func(ctx context.Context, tx session) error {
		return mustAdd(tx.ExecContext(ctx, `INSERT INTO organisations (id, name, created_at) VALUES ($1, $2, $3)
			ON CONFLICT (id) DO NOTHING`, id, name, created))
	})
}

// RemoveOrganisation deletes an organisation that has no users.
func (s users) RemoveOrganisation(ctx context.Context, id string) error {
	return s.db.step(ctx, "removing organisation", func(ctx context.Context, tx session) error {
		if err := holdOrganisation(ctx, tx, id); err != nil {
			return err
		}
		var users int
		err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM users WHERE organisation = $1`, id).Scan(&users)
		if err != nil {
			return err
		}
		if users > 0 {
			return store.ErrInUse
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM organisations WHERE id = $1`, id)
		return err
	})
}

// holdOrganisation changes nothing but locks the organisation's row in every dialect, which prevents a user from joining an organisation
// that is being removed. It returns ErrNotFound when there is none.
func holdOrganisation(ctx context.Context, tx session, id string) error {
	return mustHit(tx.ExecContext(ctx, `UPDATE organisations SET name = name WHERE id = $1`, possible(id)))
}
