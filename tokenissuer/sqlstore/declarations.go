package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Declarations returns what the configuration declared when it was last loaded, and what had been removed from it by then. One query
// reads both, which gives a consistent view.
func (s declarations) Declarations(ctx context.Context) (declared []store.Declaration, ended []store.EndedDeclaration, err error) {
	type row struct {
		store.EndedDeclaration
		over bool
	}
	list, err := askAll(ctx, s.db.text(`SELECT kind, id, version, NULL, FALSE FROM declarations
		UNION ALL SELECT kind, id, version, ended_at, TRUE FROM ended_declarations`), nil, func(from scanner) (r row, err error) {
		var at sql.Null[int64]
		err = from.Scan(&r.Kind, &r.ID, &r.Version, &at, &r.over)
		r.At = timeOf(at)
		return r, err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("reading declarations: %w", err)
	}
	for _, r := range list {
		if r.over {
			ended = append(ended, r.EndedDeclaration)
		} else {
			declared = append(declared, r.Declaration)
		}
	}
	return declared, ended, nil
}

// PutDeclarations replaces both lists.
func (s declarations) PutDeclarations(ctx context.Context, declared []store.Declaration, ended []store.EndedDeclaration) error {
	declared, ended = slices.Clone(declared), slices.Clone(ended)
	return s.db.step(ctx, "storing declarations", func(ctx context.Context, tx session) error {
		// The counter is a lock: two nodes must not mix their lists.
		if _, err := advance(ctx, tx, "declarations"); err != nil {
			return err
		}
		for _, statement := range []string{`DELETE FROM declarations`, `DELETE FROM ended_declarations`} {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		for _, d := range declared {
			_, err := tx.ExecContext(ctx, `INSERT INTO declarations (kind, id, version) VALUES ($1, $2, $3)`,
				string(d.Kind), d.ID, d.Version)
			if err != nil {
				return err
			}
		}
		for _, d := range ended {
			_, err := tx.ExecContext(ctx, `INSERT INTO ended_declarations (kind, id, version, ended_at) VALUES ($1, $2, $3, $4)`,
				string(d.Kind), d.ID, d.Version, micros(d.At))
			if err != nil {
				return err
			}
		}
		return nil
	})
}
