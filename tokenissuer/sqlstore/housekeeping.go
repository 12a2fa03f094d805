package sqlstore

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const (
	// leastDropped and maxDropped bound how many rows one call deletes from a table. The number in between is what can be deleted within
	// dropTime, for which SQLite's other writers wait. It depends on the disk and the size of the tables, because each row is on a
	// different page of every index.
	leastDropped = 8
	maxDropped   = 256
	dropTime     = 2 * time.Millisecond
	// exactBelow is the number of rows from which on the database's own estimate is used.
	exactBelow = 100000
)

// housekeeping is a part of a Store.
type housekeeping struct {
	db    *database
	paces dropPaces
}

// Lease gives a task to its holder.
func (s *housekeeping) Lease(ctx context.Context, name, holder string, until, now time.Time) (bool, error) {
	var rows int64
	err := s.db.statement(ctx, "leasing "+name, func(ctx context.Context, tx session) error {
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

// deletion is a table, and the column with the end of its rows.
type deletion struct{ table, end string }

// deletions are the tables of each kind. The statement of the first reads the index revocations_by_expiry.
var deletions = map[store.Expiring][]deletion{
	store.ExpiringRevocations: {{"revocations", "COALESCE(expires_at, 0)"}},
	store.ExpiringFamilies: {
		{"families", "expires_at"}, {"decided_requests", "expires_at"}, {"session_clients", "expires_at"}, {"personal_tokens", "expires_at"}, {"imported_tokens", "expires_at"},
	},
	store.ExpiringAttempts:    {{"attempts", "ends_at"}, {"devices", "expires_at"}, {"mails", "expires_at"}},
	store.ExpiringAuditEvents: {{"audit_events", "at"}},
}

// Drop deletes rows of every table of the kind, each with the same limit and the longest expired first. It reports whether one of them
// reached the limit: then there may be more. The limit is not shared, because a first table with many rows would otherwise prevent
// deletions from the second.
func (s *housekeeping) Drop(ctx context.Context, kind store.Expiring, before time.Time) (more bool, err error) {
	pace := s.paces[kind]
	if pace == nil {
		return false, fmt.Errorf("dropping %s: the store keeps no such records", kind)
	}
	limit, full := pace.next(), false
	err = s.db.step(ctx, "dropping "+string(kind), func(ctx context.Context, tx session) error {
		full = false
		begun := time.Now()
		for _, d := range deletions[kind] {
			// The statement names the rows by their physical location. With their keys, PostgreSQL would read all expired rows for every
			// batch.
			result, err := tx.ExecContext(ctx, fmt.Sprintf(s.db.dialect.dropSome, d.table, d.end), before.UnixMicro(), limit)
			if err != nil {
				return err
			}
			rows, err := result.RowsAffected()
			if err != nil {
				return err
			}
			full = full || rows == limit
		}
		pace.took(time.Since(begun), full)
		return nil
	})
	if err != nil {
		return false, err
	}
	return full, nil
}

// dropPaces has a pace for each kind, because deleting a row takes longer in some tables than in others.
type dropPaces map[store.Expiring]*dropPace

func newDropPaces() dropPaces {
	paces := make(dropPaces, len(deletions))
	for kind := range deletions {
		paces[kind] = new(dropPace)
	}
	return paces
}

// dropPace is how many rows the next call deletes.
type dropPace struct{ rows atomic.Int64 }

func (p *dropPace) next() int64 { return max(p.rows.Load(), leastDropped) }

// took adjusts the pace after a full batch. The next one should take dropTime, and is at most half larger or smaller.
func (p *dropPace) took(d time.Duration, full bool) {
	if !full {
		return
	}
	rows := p.next()
	fitting := int64(float64(rows) * float64(dropTime) / float64(max(d, time.Microsecond)))
	p.rows.Store(min(max(fitting, rows/2, leastDropped), rows+rows/2, maxDropped))
}

// Sizes returns how many records there are, without the stand-ins.
func (s *housekeeping) Sizes(ctx context.Context) (sizes store.Sizes, err error) {
	for _, table := range []struct {
		name     string
		standIns int64
		rows     *int64
	}{
		{"families", 0, &sizes.Families}, {"revocations", 0, &sizes.Revocations}, {"decided_requests", 0, &sizes.Requests},
		{"clients", 1, &sizes.Clients}, {"users", 1, &sizes.Users}, {"mails", 0, &sizes.Mails}, {"audit_events", 0, &sizes.AuditEvents},
	} {
		rows, err := s.rows(ctx, table.name)
		if err != nil {
			return store.Sizes{}, fmt.Errorf("counting %s: %w", table.name, err)
		}
		*table.rows = max(rows-table.standIns, 0)
	}
	return sizes, nil
}

// rows returns how many rows a table has. For a large table it is the database's estimate, if there is one.
func (s *housekeeping) rows(ctx context.Context, table string) (n int64, err error) {
	if s.db.dialect.estimate != "" {
		// A server that is only compatible with PostgreSQL may not have the table. The rows are then counted.
		if err := askOne(ctx, s.db.background(s.db.dialect.estimate), []any{table}, &n); err == nil && n >= exactBelow {
			return n, nil
		}
	}
	err = askOne(ctx, s.db.background(`SELECT COUNT(*) FROM `+table), nil, &n)
	return n, err
}
