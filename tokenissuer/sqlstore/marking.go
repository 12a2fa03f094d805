package sqlstore

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var (
	// errHeld: nothing has happened, because somebody else holds the family's row.
	errHeld = errors.New("another transaction holds the family")
	// errMarking: it was the statement that revokes families which failed.
	errMarking = errors.New("revoking families")
)

const (
	// endFree revokes each family of $1 at the time beside it in $2, unless it was before, and waits for nobody: a family
	// whose row somebody else holds stays as it is, and is returned with TRUE in the last column. So is one that was revoked
	// while the statement ran.
	endFree = `WITH free AS (SELECT id FROM families WHERE id = ANY($1::text[]) AND revoked_at IS NULL FOR UPDATE SKIP LOCKED),
		ended AS (UPDATE families SET revoked_at = e.revoked_at FROM free, unnest($1::text[], $2::bigint[]) AS e (id, revoked_at)
			WHERE families.id = free.id AND e.id = free.id AND families.revoked_at IS NULL
			RETURNING families.id, families.created_at, families.rotated_at, families.token_lifetime)
		SELECT id, created_at, rotated_at, token_lifetime, FALSE FROM ended
		UNION ALL SELECT id, created_at, rotated_at, token_lifetime, TRUE FROM families
			WHERE id = ANY($1::text[]) AND revoked_at IS NULL AND id NOT IN (SELECT id FROM free)`
	// endWaiting is endFree for who waits: see recordAlone, and a database that passes over no row.
	endWaiting = `UPDATE families SET revoked_at = e.revoked_at FROM unnest($1::text[], $2::bigint[]) AS e (id, revoked_at)
		WHERE families.id = e.id AND families.revoked_at IS NULL
		RETURNING families.id, families.created_at, families.rotated_at, families.token_lifetime, FALSE`
)

// marked is a family that was not revoked before: either it is now, or it is held.
type marked struct {
	*store.TokenFamily
	held bool
}

// markTogether marks the families, with endFree or endWaiting, and returns those that were not marked before.
func markTogether(ctx context.Context, tx session, statement string, ends map[string]*recording) (map[string]marked, error) {
	ids := slices.Sorted(maps.Keys(ends)) // so that two nodes seldom wait for each other
	keys, times := make([]string, len(ids)), make([]int64, len(ids))
	for i, id := range ids {
		keys[i], times[i] = possible(id), ends[id].end.At.UnixMicro()
	}
	rows, err := tx.QueryContext(ctx, statement, keys, times)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err has told whatever went wrong
	list, err := scanAll(rows, func(row scanner) (m marked, err error) {
		m.TokenFamily, err = scanEnded(row, &m.held)
		return m, err
	})
	found := make(map[string]marked, len(list))
	for _, m := range list {
		found[m.ID] = m
	}
	return found, err
}
