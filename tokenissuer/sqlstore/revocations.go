package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

// Revoke records the revocations, all in one step.
func (s *Store) Revoke(ctx context.Context, revocations ...tokenissuer.Revocation) error {
	if len(revocations) == 0 {
		return nil
	}
	revocations = slices.Clone(revocations)
	return s.announcedStep(ctx, "revoking", func(ctx context.Context, tx session) error { return record(ctx, tx, revocations...) })
}

// record puts revocations into the feed, all at one position.
//
// The position is taken first. That holds the counter's row until the commit, so that positions become visible in
// their order: a reader that has seen one has seen all before it.
func record(ctx context.Context, tx session, revocations ...tokenissuer.Revocation) error {
	position, err := advance(ctx, tx, "revocations")
	if err != nil {
		return err
	}
	for _, r := range revocations {
		// Of two for one id the wider wins, member by member. NULL is the widest issued_until and the shortest expires_at.
		_, err := tx.ExecContext(ctx, `INSERT INTO revocations (kind, id, issued_until, expires_at, position)
			VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (kind, id) DO UPDATE SET
			issued_until = CASE WHEN revocations.issued_until IS NULL OR excluded.issued_until IS NULL THEN NULL
				WHEN excluded.issued_until > revocations.issued_until THEN excluded.issued_until
				ELSE revocations.issued_until END,
			expires_at = CASE WHEN revocations.expires_at IS NULL OR excluded.expires_at > revocations.expires_at
				THEN excluded.expires_at ELSE revocations.expires_at END,
			position = excluded.position`,
			string(r.Kind), r.ID, micros(r.IssuedUntil), micros(r.ExpiresAt), position)
		if err != nil {
			return err
		}
	}
	return nil
}

// advance moves a counter on and returns where it stands. The counter is held until the transaction ends.
func advance(ctx context.Context, tx session, counter string) (position int64, err error) {
	err = tx.QueryRowContext(ctx,
		`UPDATE counters SET position = position + 1 WHERE name = $1 RETURNING position`, counter).Scan(&position)
	if err != nil {
		return 0, fmt.Errorf("advancing counter %s: %w", counter, err)
	}
	return position, nil
}

// Revocations lists what was recorded after position. A position that this database has not reached comes from the
// time before it was put back to an older state, and so does one that is behind by more than is possible (see Distrust):
// they get everything.
func (s *Store) Revocations(ctx context.Context, after int64) ([]tokenissuer.Revocation, int64, error) {
	list, position, err := s.revocations(ctx, after)
	if err != nil {
		return nil, 0, fmt.Errorf("reading revocations: %w", err)
	}
	return list, position, nil
}

func (s *Store) revocations(ctx context.Context, after int64) ([]tokenissuer.Revocation, int64, error) {
	// The counter is read first: everything up to it has been committed, so the rows that follow cannot lack any of it.
	var position int64
	err := askOne(ctx, s.background(`SELECT position FROM counters WHERE name = 'revocations'`), nil, &position)
	if err != nil {
		return nil, 0, err
	}
	if after == position {
		return nil, after, nil
	}
	if after > position || position-after > markGap/2 {
		after = 0
	}
	list, err := askAll(ctx, s.background(`SELECT kind, id, issued_until, expires_at, position FROM revocations
		WHERE position > $1 ORDER BY position, kind, id`), []any{after}, func(row scanner) (r tokenissuer.Revocation, err error) {
		var issued, expires sql.Null[int64]
		var at int64
		err = row.Scan(&r.Kind, &r.ID, &issued, &expires, &at)
		r.IssuedUntil, r.ExpiresAt = timeOf(issued), timeOf(expires)
		position = max(position, at)
		return r, err
	})
	return list, position, err
}
