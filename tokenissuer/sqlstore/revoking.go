package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gatehouse-auth/gatehouse/internal/failpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// recording is what a job records: revocations, or the end of a family.
type recording struct {
	revocations []store.Revocation

	family string
	end    store.Ending
	ended  store.Revocation // the result for family, once the job has succeeded
}

// endedBefore is the revocation of a family that was revoked before, or that does not exist.
func (r *recording) endedBefore() store.Revocation {
	return store.Revocation{Kind: store.RevokeFamily, ID: r.family, ExpiresAt: r.end.Until}
}

// recordAll is advanceFeed, tagFeed with the tag $5, and recordRevocation for each row of the lists $1 to $4.
const recordAll = `WITH taken AS (` + advanceFeed + `),
	tagged AS (INSERT INTO feed_tags (slot, position, tag) SELECT position % $6, position, $5 FROM taken` + orTagAnew + `)
	INSERT INTO revocations (kind, id, issued_until, expires_at, position)
	SELECT r.kind, r.id, r.issued_until, r.expires_at, taken.position
	FROM taken, unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) AS r (kind, id, issued_until, expires_at)` + orWiden

// recordTogether puts revocations into the feed in one statement, all at one position.
func recordTogether(ctx context.Context, tx querier, revocations []store.Revocation) error {
	revocations = widest(revocations)
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

// orNull is a number as an element of a list.
func orNull(n sql.Null[int64]) *int64 {
	if !n.Valid {
		return nil
	}
	return &n.V
}

// widest makes one of the revocations of one id, as orWiden does: a statement changes a row once.
func widest(revocations []store.Revocation) []store.Revocation {
	list := slices.Clone(revocations)
	slices.SortStableFunc(list, func(a, b store.Revocation) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
	})
	merged := list[:0]
	for _, r := range list {
		last := len(merged) - 1
		if last < 0 || merged[last].Kind != r.Kind || merged[last].ID != r.ID {
			merged = append(merged, r)
			continue
		}
		held := &merged[last]
		if !held.IssuedUntil.IsZero() && (r.IssuedUntil.IsZero() || r.IssuedUntil.After(held.IssuedUntil)) {
			held.IssuedUntil = r.IssuedUntil
		}
		if r.ExpiresAt.After(held.ExpiresAt) {
			held.ExpiresAt = r.ExpiresAt
		}
	}
	return merged
}

// record hands the job to the queue. While somebody else holds the row of its family, as a slow transaction or a node that was
// cut off may, the job leaves the queue: who waited for the row there would hold up everybody behind. One caller waits for it
// beside the queue, the others come again.
func (t *transactions) record(ctx context.Context, j job) error {
	for {
		err := t.revoking.run(ctx, j)
		if errors.Is(err, errHeld) {
			err = t.recordAlone(ctx, j)
		}
		if !errors.Is(err, errHeld) {
			return err
		}
		if ended := pause(ctx, conflictPause); ended != nil {
			return fmt.Errorf("%w: %w", err, ended)
		}
	}
}

// recordAlone waits for the family's row in a transaction of its own, which takes the feed's counter when it has the row. Who
// only comes again finds the row of a busy session held nearly every time: each family that is added to it holds the row. One
// caller of a node waits, so that rows which are held for long cost no more than one connection. errHeld, when another one
// does, or when the server has had enough of the statement.
func (t *transactions) recordAlone(ctx context.Context, j job) error {
	select {
	case t.patient <- struct{}{}:
	default:
		return errHeld
	}
	defer func() { <-t.patient }()
	alone := []*call{{job: j}}
	err := t.again(ctx, func() error { return t.recordOnce(ctx, endWaiting, alone) })
	if isTakingTooLong(err) {
		return errHeld
	}
	if err == nil {
		failpoint.Hit("after commit", j.name)
	}
	return err
}

// isTakingTooLong reports whether the server has ended a statement because of its own limits. Nothing has happened.
func isTakingTooLong(err error) bool {
	var refusal *pgconn.PgError
	return errors.As(err, &refusal) && (refusal.Code == "57014" || refusal.Code == "55P03")
}

// recordLine records, in one transaction, what the first call and those behind it have to record. A step of its own would
// hold the feed's counter from the taking of a position to the commit, and all of them, on whatever node, would follow each
// other.
func (t *transactions) recordLine(first *call) {
	var m members
	outcome := errStopped
	defer func() { m.answer(outcome) }() // deferred, so that nobody waits for ever
	for c := first; c != nil; c = t.revoking.next(len(m.ran)) {
		if m.take(c) {
			failpoint.Hit("before", c.name)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.queue.patience)
	defer cancel()
	outcome = t.recordCalls(ctx, m.ran)
}

// recordCalls records everything or nothing, unless it is what one of them has brought that the database refuses: then each
// half is on its own, down to the one. The error of a call that was on its own is in the call.
func (t *transactions) recordCalls(ctx context.Context, calls []*call) error {
	if len(calls) == 0 {
		return nil // they have all left
	}
	try := func() error { return t.again(ctx, func() error { return t.recordOnce(ctx, t.marking(), calls) }) }
	err := try()
	if !t.waits && errors.Is(err, errMarking) && isNotUnderstood(err) {
		t.waits = true // the database cannot pass over rows
		err = try()
	}
	if len(calls) == 1 || !isOfOne(err) {
		return err
	}
	for half := range slices.Chunk(calls, (len(calls)+1)/2) {
		if err := t.recordCalls(ctx, half); err != nil {
			for _, c := range half {
				c.err = err
			}
		}
	}
	return nil
}

// marking is the statement with which the queue revokes families.
func (t *transactions) marking() string {
	if t.waits {
		return endWaiting
	}
	return endFree
}

// isOfOne reports whether the database has refused a value, and not the statement. Nothing has happened.
func isOfOne(err error) bool {
	var refusal *pgconn.PgError
	if !errors.As(err, &refusal) || len(refusal.Code) != 5 {
		return false
	}
	class := refusal.Code[:2]
	return class == "22" || class == "23" || class == "54" // no such text, against a constraint, too long
}

// recordOnce revokes families with the statement marking. It leaves out the calls for those that the statement has passed over:
// their error is errHeld.
func (t *transactions) recordOnce(ctx context.Context, marking string, calls []*call) error {
	var revocations []store.Revocation
	families := false
	for _, c := range calls {
		c.err = nil // a run before this one may have left one
		revocations = append(revocations, c.records.revocations...)
		families = families || c.records.family != ""
	}
	record := func(tx querier, all []store.Revocation) error {
		if len(all) == 0 {
			return nil // all are held
		}
		err := recordTogether(ctx, tx, all)
		if err == nil {
			for _, c := range calls {
				if c.err == nil {
					failpoint.Hit("after step", c.name)
				}
			}
		}
		return err
	}
	if !families {
		return record(t.db, revocations)
	}
	return t.inTransaction(ctx, func(tx session) error {
		ended, err := endCalls(ctx, tx, marking, calls)
		if err != nil {
			return err
		}
		return record(tx, append(revocations, ended...))
	})
}

// endCalls revokes the families of calls and returns what is to be recorded of them. Of several calls for one family the
// first one ends it.
func endCalls(ctx context.Context, tx session, marking string, calls []*call) ([]store.Revocation, error) {
	first := make(map[string]*recording, len(calls))
	for _, c := range calls {
		if r := c.records; r.family != "" && first[r.family] == nil {
			first[r.family] = r
		}
	}
	found, err := markTogether(ctx, tx, marking, first)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errMarking, err)
	}
	var ended []store.Revocation
	for _, c := range calls {
		r := c.records
		if r.family == "" {
			continue
		}
		f, marked := found[r.family]
		switch {
		case marked && f.held:
			c.err = errHeld
			continue
		case marked && first[r.family] == r:
			r.ended = endOf(f.TokenFamily, r.end)
		default:
			r.ended = r.endedBefore()
		}
		ended = append(ended, r.ended)
	}
	return ended, nil
}
