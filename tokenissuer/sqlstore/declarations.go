package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

// Declarations lists what the configuration declared when it was loaded last.
func (s *Store) Declarations(ctx context.Context) ([]tokenissuer.Declaration, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT kind, id, version FROM declarations`)
	list, err := scanAll(rows, err, func(row scanner) (d tokenissuer.Declaration, err error) {
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
	return s.step(ctx, "storing declarations", func(ctx context.Context, tx *sql.Tx) error {
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
