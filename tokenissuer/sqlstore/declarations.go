package sqlstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

// Declarations lists what the configuration declared when it was loaded last.
func (s *Store) Declarations(ctx context.Context) ([]tokenissuer.Declaration, error) {
	list, err := askAll(ctx, s.text(`SELECT kind, id, version FROM declarations`), nil, func(row scanner) (d tokenissuer.Declaration, err error) {
		err = row.Scan(&d.Kind, &d.ID, &d.Version)
		return d, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading declarations: %w", err)
	}
	return list, nil
}

// PutDeclarations replaces the list.
func (s *Store) PutDeclarations(ctx context.Context, declared []tokenissuer.Declaration) error {
	declared = slices.Clone(declared)
	return s.step(ctx, "storing declarations", func(ctx context.Context, tx session) error {
		// Who holds the counter is alone here, so that two nodes do not mix their lists.
		if _, err := advance(ctx, tx, "declarations"); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM declarations`); err != nil {
			return err
		}
		for _, d := range declared {
			_, err := tx.ExecContext(ctx, `INSERT INTO declarations (kind, id, version) VALUES ($1, $2, $3)`,
				string(d.Kind), d.ID, d.Version)
			if err != nil {
				return err
			}
		}
		return nil
	})
}
