package sqlstore

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Marks are how far a database has come. Its counters never go back, unless the database is put back to an older state: then
// what was revoked in between is lost, and no node can know what it was.
type Marks struct {
	Revocations int64 `json:"revocations"` // the position in the feed
	Tag         int64 `json:"tag"`         // of that position; 0: it has none
	Keys        int64 `json:"keys"`        // the version of the keys
	// Manifest is the counter of the keys' manifest, which only a holder of the key-encryption key can read; 0: none. The store does not set it.
	Manifest int64 `json:"manifest,omitzero"`
}

// Progress is how far a database has come, compared with what was seen of it.
type Progress struct {
	Marks
	// Identity distinguishes this database from every other. A copy of it has the same, until one of the two is distrusted.
	Identity string
	// Behind: the database was put back to an older state. It has come less far than was seen, or has come there again in
	// another way.
	Behind bool
}

const (
	// keptTags is how many of the latest positions of the feed have their tag. At the highest rate of revocations it is that
	// of half a minute.
	keptTags = 1 << 14
	// markGap is how far Distrust moves the counters. It is more than keptTags, and more than a database can have come since
	// a backup was made of it.
	markGap = 1 << 20
)

// selectProgress reads everything at one moment. $1 and $2 are the slot and the position of the feed of which the tag is asked.
var selectProgress = fmt.Sprintf(`SELECT r.position, k.position,
	COALESCE((SELECT tag FROM feed_tags WHERE slot = r.position %% %d AND position = r.position), 0),
	COALESCE((SELECT tag FROM feed_tags WHERE slot = $1 AND position = $2), 0),
	COALESCE((SELECT position FROM counters WHERE name = 'identity'), 0)
	FROM counters r, counters k WHERE r.name = 'revocations' AND k.name = 'signing_keys'`, keptTags)

func progressArgs(seen Marks) []any { return []any{seen.Revocations % keptTags, seen.Revocations} }

// scanProgress reads selectProgress and compares it with what was seen.
func scanProgress(row scanner, seen Marks) (now Progress, err error) {
	var tag, identity int64 // tag is that of the position that was seen
	if err := row.Scan(&now.Revocations, &now.Keys, &now.Tag, &tag, &identity); err != nil {
		return Progress{}, err
	}
	now.Identity = identityName(identity)
	kept := now.Revocations-seen.Revocations < keptTags
	now.Behind = now.Revocations < seen.Revocations || now.Keys < seen.Keys || seen.Tag != 0 && kept && tag != seen.Tag
	return now, nil
}

// identityName returns the identity of a database as text; empty: it has none.
func identityName(identity int64) string {
	if identity == 0 {
		return ""
	}
	return strconv.FormatInt(identity, 36)
}

// Progress returns how far the database has come, and reports whether it still has what was seen.
func (s *Store) Progress(ctx context.Context, seen Marks) (Progress, error) {
	now, err := s.progress(ctx, seen)
	if err == nil && now.Identity == "" {
		if err = s.addIdentity(ctx); err == nil {
			now, err = s.progress(ctx, seen)
		}
	}
	if err != nil {
		return Progress{}, fmt.Errorf("reading how far the database has come: %w", err)
	}
	return now, nil
}

func (s *Store) progress(ctx context.Context, seen Marks) (Progress, error) {
	return askFor(ctx, s.background(selectProgress), progressArgs(seen), func(row scanner) (Progress, error) {
		return scanProgress(row, seen)
	})
}

// addIdentity gives the database one. Of many callers one wins.
func (s *Store) addIdentity(ctx context.Context) error {
	return s.step(ctx, "naming the database", nameDatabase)
}

func nameDatabase(ctx context.Context, tx session) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO counters (name, position) VALUES ('identity', $1) ON CONFLICT (name) DO NOTHING`, randomNumber())
	return err
}

// Distrust answers for a database that was put back to a state from before seen: it revokes the keys of those ids, stores
// the fresh one, moves the counters far beyond seen, and gives the database another identity, in one step. The counters move
// so far that nodes which have read the feed before read it anew; and a copy of a database that others still use is no longer
// taken for that one. Distrust does nothing, and returns false, when the database has what was seen: then another node was first.
func (s *Store) Distrust(ctx context.Context, seen Marks, fresh store.StoredKey, ids []string, at time.Time) (done bool, err error) {
	var lacking bool // read only after the step has succeeded: without an answer it may still run
	err = s.changeKeys(ctx, "distrusting older keys", func(ctx context.Context, tx session) (err error) {
		// changeKeys holds the counters of all other nodes off.
		if lacking, err = lacks(ctx, tx, seen); err != nil || !lacking {
			return err
		}
		if err := insertKey(ctx, tx, fresh); err != nil {
			return err
		}
		return s.distrust(ctx, tx, seen, ids, at)
	})
	if err != nil {
		return false, err
	}
	for _, id := range ids {
		s.erase(ctx, id)
	}
	return lacking, nil
}

// lacks reports whether the database has lost what was seen. The caller has just counted a change of the keys.
func lacks(ctx context.Context, tx session, seen Marks) (bool, error) {
	seen.Keys++
	now, err := scanProgress(tx.QueryRowContext(ctx, selectProgress, progressArgs(seen)...), seen)
	return now.Behind, err
}

func (s *Store) distrust(ctx context.Context, tx session, seen Marks, ids []string, at time.Time) error {
	for name, least := range map[string]int64{"signing_keys": seen.Keys + markGap, "revocations": seen.Revocations + markGap} {
		_, err := tx.ExecContext(ctx, `UPDATE counters SET position = $1 WHERE name = $2 AND position < $1`, least, name)
		if err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, `UPDATE counters SET position = $1 WHERE name = 'identity'`, randomNumber())
	if err != nil {
		return err
	}
	var revocations []store.Revocation
	for _, id := range ids {
		if err := wipeKeys(ctx, tx, at, `id = $3`, id); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		revocations = append(revocations, store.RevocationOfKey(id, at))
	}
	if tx.in != nil {
		tx.in.position = 0 // one that was taken before is far behind now
	}
	return s.record(ctx, tx, revocations...)
}

// tagFeed gives the feed's newest position $2 its tag $3, in the slot $1. The caller holds the counter.
const (
	tagFeed   = `INSERT INTO feed_tags (slot, position, tag) VALUES ($1, $2, $3)` + orTagAnew
	orTagAnew = ` ON CONFLICT (slot) DO UPDATE SET position = excluded.position, tag = excluded.tag`
)

// randomNumber is never 0.
func randomNumber() int64 {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	return int64(binary.BigEndian.Uint64(random[:])>>1) | 1
}
