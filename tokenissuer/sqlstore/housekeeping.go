package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

const (
	// maxDropped is how many rows one call deletes. It takes a few milliseconds, for which SQLite's other writers wait.
	maxDropped = 250
	// exactBelow is the number of rows from which on the database's own estimate is taken.
	exactBelow = 100000
)

// Lease gives a task to its holder.
func (s *Store) Lease(ctx context.Context, name, holder string, until, now time.Time) (bool, error) {
	var rows int64
	err := s.statement(ctx, "leasing "+name, func(ctx context.Context, tx session) error {
		result, err := tx.ExecContext(ctx, `INSERT INTO leases (name, holder, expires_at) VALUES ($1, $2, $3)
			ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
			WHERE leases.holder = excluded.holder OR leases.expires_at <= $4`,
			name, holder, until.UnixMicro(), now.UnixMicro())
		if err != nil {
			return err
		}
		rows, err = result.RowsAffected()
		return err
	})
	if err != nil {
		return false, err
	}
	return rows == 1, nil
}

// DropRevocations deletes what can hit no token any more. Its statement reads the index revocations_by_expiry.
func (s *Store) DropRevocations(ctx context.Context, expiredBefore time.Time) (more bool, err error) {
	return s.drop(ctx, "dropping revocations", expiredBefore, `DELETE FROM revocations
		WHERE COALESCE(expires_at, 0) < $1 AND (kind, id) IN (
			SELECT kind, id FROM revocations WHERE COALESCE(expires_at, 0) < $1 ORDER BY COALESCE(expires_at, 0) LIMIT $2)`)
}

// DropFamilies deletes what expired before then, families first, the longest expired of them first.
func (s *Store) DropFamilies(ctx context.Context, expiredBefore time.Time) (more bool, err error) {
	return s.drop(ctx, "dropping families", expiredBefore,
		dropWhere("families", "id", "expires_at"), dropWhere("decided_requests", "id", "expires_at"))
}

// DropAttempts deletes the counts of windows that ended before then.
func (s *Store) DropAttempts(ctx context.Context, endedBefore time.Time) (more bool, err error) {
	return s.drop(ctx, "dropping attempts", endedBefore, dropWhere("attempts", "bucket", "ends_at"))
}

// dropWhere deletes from a table what ended before $1, at most $2 rows. The condition stands twice, because a row may get
// a later end between the choice and its deletion.
func dropWhere(table, key, end string) string {
	return fmt.Sprintf(`DELETE FROM %[1]s WHERE %[3]s < $1 AND %[2]s IN (
		SELECT %[2]s FROM %[1]s WHERE %[3]s < $1 ORDER BY %[3]s LIMIT $2)`, table, key, end)
}

// drop runs deletions until maxDropped rows are gone, and tells whether they are: then there may be more.
func (s *Store) drop(ctx context.Context, name string, before time.Time, deletions ...string) (more bool, err error) {
	var dropped int64
	err = s.step(ctx, name, func(ctx context.Context, tx session) error {
		dropped = 0
		for _, deletion := range deletions {
			result, err := tx.ExecContext(ctx, deletion, before.UnixMicro(), maxDropped-dropped)
			if err != nil {
				return err
			}
			rows, err := result.RowsAffected()
			if err != nil {
				return err
			}
			dropped += rows
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	return dropped == maxDropped, nil
}

// Sizes tells how many records there are. Stand-ins are none.
func (s *Store) Sizes(ctx context.Context) (sizes tokenissuer.Sizes, err error) {
	for _, table := range []struct {
		name     string
		standIns int64
		rows     *int64
	}{
		{"families", 1, &sizes.Families}, {"revocations", 0, &sizes.Revocations}, {"decided_requests", 0, &sizes.Requests},
		{"clients", 1, &sizes.Clients}, {"users", 1, &sizes.Users},
	} {
		rows, err := s.rows(ctx, table.name)
		if err != nil {
			return tokenissuer.Sizes{}, fmt.Errorf("counting %s: %w", table.name, err)
		}
		*table.rows = max(rows-table.standIns, 0)
	}
	return sizes, nil
}

// rows tells how many rows a table has. A large one is not counted when the database has an estimate of it.
func (s *Store) rows(ctx context.Context, table string) (n int64, err error) {
	if s.dialect.estimate != "" {
		// A database of another make may have no such table: then it counts.
		if err := askOne(ctx, s.background(s.dialect.estimate), []any{table}, &n); err == nil && n >= exactBelow {
			return n, nil
		}
	}
	err = askOne(ctx, s.background(`SELECT COUNT(*) FROM `+table), nil, &n)
	return n, err
}
