package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gatehouse-auth/gatehouse/internal/failpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore/postgres"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore/writequeue"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// recording is what a job records, alone or with others: revocations, or the end of a family.
type recording struct {
	revocations []store.Revocation

	family string
	end    store.Ending
	ended  store.Revocation // the result for family, once the job has succeeded
}

// endedBefore returns the revocation of a family that was revoked before, or that does not exist.
func (r *recording) endedBefore() store.Revocation {
	return store.Revocation{Kind: store.RevokeFamily, ID: r.family, ExpiresAt: r.end.Until}
}

// errHeld: nothing has happened, because another transaction has locked the family's row, or the family is a sign-in.
var errHeld = errors.New("the family does not end in a batch")

// recordAll is advanceFeed, tagFeed with the tag $5, and recordRevocation for each row of the lists $1 to $4. It merges rows with one id
// as orWiden does, because a statement can insert a row only once.
const recordAll = `WITH taken AS (` + advanceFeed + `),
	tagged AS (INSERT INTO feed_tags (slot, position, tag) SELECT position % $6, position, $5 FROM taken` + orTagAnew + `)
	INSERT INTO revocations (kind, id, issued_until, expires_at, position)
	SELECT r.kind, r.id, CASE WHEN COUNT(r.issued_until) = COUNT(*) THEN MAX(r.issued_until) END, MAX(r.expires_at), taken.position
	FROM taken, unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) AS r (kind, id, issued_until, expires_at)
	GROUP BY r.kind, r.id, taken.position` + orWiden

// recordTogether adds revocations to the feed in one statement, all at one position.
func recordTogether(ctx context.Context, tx querier, revocations []store.Revocation) error {
	kinds, ids := make([]string, len(revocations)), make([]string, len(revocations))
	issued, expires := make([]*int64, len(revocations)), make([]*int64, len(revocations))
	for i, r := range revocations {
		kinds[i], ids[i], issued[i], expires[i] = string(r.Kind), r.ID, orNull(micros(r.IssuedUntil)), orNull(micros(r.ExpiresAt))
	}
	if _, err := tx.ExecContext(ctx, recordAll, kinds, ids, issued, expires, randomNumber(), keptTags); err != nil {
		return fmt.Errorf("recording revocations: %w", err)
	}
	return nil
}

// orNull returns a number as an element of a list.
func orNull(n sql.Null[int64]) *int64 {
	if !n.Valid {
		return nil
	}
	return &n.V
}

// record runs the job in a transaction with those of other callers. Each such transaction holds the feed's counter from taking a position
// until the commit, and all of them, on every node, are therefore serialized. A job whose family's row is locked leaves the batch and
// waits for the row in its own transaction, as any other step does. No other job waits for it. The end of a sign-in does the same,
// because other families end with it whose rows may be locked.
func (t *transactions) record(ctx context.Context, j job) error {
	err := t.revoking.Run(ctx, j)
	if errors.Is(err, errHeld) {
		return t.runAlone(ctx, j)
	}
	return err
}

// recordBatch records, in one transaction, what all calls of a batch have to record.
func (t *transactions) recordBatch(b *writequeue.Batch[job]) error {
	for c := b.Next(); c != nil; c = b.Next() {
		failpoint.Hit("before", c.Step.name)
	}
	if len(b.Calls()) == 0 {
		return nil // all callers have given up
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.queue.timeout)
	defer cancel()
	err := t.again(ctx, func() error { return t.recordCalls(ctx, b.Calls()) })
	if len(b.Calls()) > 1 && postgres.RefusesValue(err) { // for example an id of one of them, which does not concern the others
		for _, c := range b.Calls() {
			alone := []*writequeue.Call[job]{c}
			if err := t.again(ctx, func() error { return t.recordCalls(ctx, alone) }); err != nil {
				c.Err = err
			}
		}
		err = nil
	}
	if err == nil {
		hitAfterCommit(b)
	}
	return err
}

// recordCalls records what the calls have to record, in one transaction. It sets errHeld on a call whose family's row is locked.
func (t *transactions) recordCalls(ctx context.Context, calls []*writequeue.Call[job]) error {
	var revocations []store.Revocation
	ends := make(map[string]*recording) // the first one for each family; the others find it ended
	for _, c := range calls {
		c.Err = nil // an earlier run may have set one
		r := c.Step.records
		revocations = append(revocations, r.revocations...)
		if r.family != "" && ends[r.family] == nil {
			ends[r.family] = r
		}
	}
	record := func(tx querier) error {
		if len(revocations) == 0 {
			return nil // all are locked
		}
		err := recordTogether(ctx, tx, revocations)
		for _, c := range calls {
			if err == nil && c.Err == nil {
				failpoint.Hit("after step", c.Step.name)
			}
		}
		return err
	}
	if len(ends) == 0 {
		return record(t.db) // one statement needs no BEGIN
	}
	return t.inTransaction(ctx, func(tx session) error {
		ended, held, err := endTogether(ctx, tx, ends)
		if err != nil {
			return err
		}
		for _, c := range calls {
			r := c.Step.records
			if r.family == "" {
				continue
			}
			if held[r.family] {
				c.Err = errHeld
				continue
			}
			r.ended = r.endedBefore()
			if f := ended[r.family]; f != nil && ends[r.family] == r {
				r.ended = endOf(f, r.end)
			}
			revocations = append(revocations, r.ended)
		}
		return record(tx)
	})
}

// endFree revokes each family of $1 at the corresponding time in $2, unless it was revoked before, is a sign-in, or its row is locked by
// another transaction.
const endFree = `WITH free AS (SELECT id FROM families WHERE id = ANY($1::text[]) AND origin <> 'session' AND revoked_at IS NULL FOR UPDATE SKIP LOCKED)
	UPDATE families SET revoked_at = e.revoked_at FROM free, unnest($1::text[], $2::bigint[]) AS e (id, revoked_at)
	WHERE families.id = free.id AND e.id = free.id
	RETURNING families.id, families.created_at, families.rotated_at, families.token_lifetime, families.origin`

// endTogether revokes the families whose rows are not locked, except sign-ins. It returns those that it revoked, and the ids of those
// that are still alive.
func endTogether(ctx context.Context, tx session, ends map[string]*recording) (
	ended map[string]*store.TokenFamily, held map[string]bool, err error,
) {
	ids := slices.Sorted(maps.Keys(ends))
	times := make([]int64, len(ids))
	for i, id := range ids {
		times[i] = ends[id].end.At.UnixMicro()
	}
	list, err := queryAll(ctx, tx, endFree, []any{ids, times}, scanEnded)
	if err != nil {
		return nil, nil, fmt.Errorf("ending families: %w", err)
	}
	ended, held = make(map[string]*store.TokenFamily, len(list)), make(map[string]bool)
	for _, f := range list {
		ended[f.ID] = f
	}
	if len(ended) == len(ids) {
		return ended, nil, nil
	}
	living, err := queryAll(ctx, tx, `SELECT id FROM families WHERE id = ANY($1::text[]) AND revoked_at IS NULL`, []any{ids}, func(row scanner) (id string, err error) {
		err = row.Scan(&id)
		return id, err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("looking for families that are held: %w", err)
	}
	for _, id := range living {
		held[id] = true
	}
	return ended, held, nil
}
