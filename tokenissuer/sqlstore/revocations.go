package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Revoke records the revocations in one step.
func (s revocations) Revoke(ctx context.Context, revocations ...store.Revocation) error {
	if len(revocations) == 0 {
		return nil
	}
	revocations = slices.Clone(revocations)
	return s.db.announced(ctx, job{name: "revoking", records: &recording{revocations: revocations}, do: func(ctx context.Context, tx session) error {
		return s.db.record(ctx, tx, revocations...)
	}})
}

const (
	// advanceFeed takes a position in the feed. It locks the counter's row until the commit. Positions therefore become visible in order:
	// a reader that has seen one has seen all before it.
	advanceFeed = `UPDATE counters SET position = position + 1 WHERE name = 'revocations' RETURNING position`
	// recordRevocation adds a revocation to the feed.
	recordRevocation = `INSERT INTO revocations (kind, id, issued_until, expires_at, position)
		VALUES ($1, $2, $3, $4, $5)` + orWiden
	// orWiden keeps the wider of two revocations of one id, column by column. NULL is the widest issued_until and the shortest
	// expires_at.
	orWiden = ` ON CONFLICT (kind, id) DO UPDATE SET
		issued_until = CASE WHEN revocations.issued_until IS NULL OR excluded.issued_until IS NULL THEN NULL
			WHEN excluded.issued_until > revocations.issued_until THEN excluded.issued_until
			ELSE revocations.issued_until END,
		expires_at = CASE WHEN revocations.expires_at IS NULL OR excluded.expires_at > revocations.expires_at
			THEN excluded.expires_at ELSE revocations.expires_at END,
		position = excluded.position`
)

// record adds revocations to the feed, all at one position. All steps of a transaction share it, because they become visible together.
func (db *database) record(ctx context.Context, tx session, revocations ...store.Revocation) error {
	if db.dialect.concurrent() {
		return recordTogether(ctx, tx, revocations)
	}
	if tx.in.position == 0 {
		var position int64
		if err := tx.prepared(ctx, db.prepared[advanceFeed]).QueryRowContext(ctx).Scan(&position); err != nil {
			return fmt.Errorf("advancing the feed: %w", err)
		}
		if _, err := tx.prepared(ctx, db.prepared[tagFeed]).ExecContext(ctx, position%keptTags, position, randomNumber()); err != nil {
			return err
		}
		tx.in.position = position
	}
	for _, r := range revocations {
		_, err := tx.prepared(ctx, db.prepared[recordRevocation]).ExecContext(ctx,
			string(r.Kind), r.ID, micros(r.IssuedUntil), micros(r.ExpiresAt), tx.in.position)
		if err != nil {
			return err
		}
	}
	return nil
}

// advance increments a counter and returns its value. The counter is locked until the transaction ends.
func advance(ctx context.Context, tx session, counter string) (position int64, err error) {
	err = tx.QueryRowContext(ctx,
		`UPDATE counters SET position = position + 1 WHERE name = $1 RETURNING position`, counter).Scan(&position)
	if err != nil {
		return 0, fmt.Errorf("advancing counter %s: %w", counter, err)
	}
	return position, nil
}

// Revocations lists what was recorded after a position, in pages of at least store.FeedPage. It starts from the beginning when the
// database lacks what the caller has seen, because it was restored to an older state, and when the feed has advanced so far that this is
// unknown, as after Distrust.
func (s revocations) Revocations(ctx context.Context, after store.FeedPosition) ([]store.Revocation, store.FeedPosition, error) {
	list, next, err := s.revocations(ctx, after)
	if err != nil {
		return nil, store.FeedPosition{}, fmt.Errorf("reading revocations: %w", err)
	}
	return list, next, nil
}

func (s revocations) revocations(ctx context.Context, after store.FeedPosition) ([]store.Revocation, store.FeedPosition, error) {
	// Read the counter first: everything up to it has been committed, and the rows that follow include all of it. Rows that are added in
	// between are returned twice.
	now, err := s.db.progress(ctx, Marks{Revocations: after.End, Tag: after.Tag})
	if err != nil {
		return nil, store.FeedPosition{}, err
	}
	next := store.FeedPosition{At: now.Revocations, End: now.Revocations, Tag: now.Tag, Lost: now.Behind}
	from := after.At
	if now.Behind || from > now.Revocations || now.Revocations-after.End >= keptTags {
		from = 0
	}
	if from == now.Revocations {
		return nil, next, nil
	}
	list, page, err := s.readFeed(ctx, from)
	if page != 0 {
		next.At = page
	}
	return list, next, err
}

const (
	selectFeed     = `SELECT kind, id, issued_until, expires_at, position FROM revocations WHERE position `
	selectFeedPage = selectFeed + `> $1 ORDER BY position LIMIT $2`
)

// readFeed reads one page of the feed. It never splits the rows of one position. last is the last position of the page, or 0 when nothing
// follows the page.
func (s revocations) readFeed(ctx context.Context, after int64) (list []store.Revocation, last int64, err error) {
	var positions []int64
	scan := func(row scanner) (r store.Revocation, err error) {
		var issued, expires sql.Null[int64]
		var at int64
		err = row.Scan(&r.Kind, &r.ID, &issued, &expires, &at)
		r.IssuedUntil, r.ExpiresAt = timeOf(issued), timeOf(expires)
		positions = append(positions, at)
		return r, err
	}
	list, err = askAll(ctx, s.db.background(selectFeedPage), []any{after, store.FeedPage}, scan)
	if err != nil || len(list) < store.FeedPage {
		return list, 0, err
	}
	last = positions[len(list)-1]
	rest, err := askAll(ctx, s.db.background(selectFeed+`= $1`), []any{last}, scan)
	return append(list, rest...), last, err
}
