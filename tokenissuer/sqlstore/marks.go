package sqlstore

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Marks record how far a database has progressed. Its counters never decrease, unless the database is restored to an older state. The
// revocations made in between are then lost, and no node can know what they were.
type Marks struct {
	Revocations int64 `json:"revocations"` // the position in the feed
	Tag         int64 `json:"tag"`         // of that position; 0: it has none
	Keys        int64 `json:"keys"`        // the version of the keys
	// Manifest is the counter of the keys' manifest, which only a holder of the key-encryption key can read; 0: none. The store does not
	// set it.
	Manifest int64 `json:"manifest,omitzero"`
}

// Progress is how far a database has progressed, compared with earlier Marks.
type Progress struct {
	Marks
	// Identity distinguishes this database from every other. A copy has the same identity until Distrust is called on one of the two.
	Identity string
	// Behind: the database was restored to an older state. Its marks are lower than those seen before, or it reached the same position
	// with another history.
	Behind bool
}

const (
	// keptTags is for how many of the latest positions the feed keeps a tag. At the highest rate of revocations these cover half a
	// minute.
	keptTags = 1 << 14
	// markGap is how far Distrust advances the counters. It is larger than keptTags, and than the progress of any database since a backup
	// of it was made.
	markGap = 1 << 20
)

// selectProgress reads all marks at one moment. $1 and $2 are the slot and the position of the feed whose tag is selected.
var selectProgress = fmt.Sprintf(`SELECT r.position, k.position,
	COALESCE((SELECT tag FROM feed_tags WHERE slot = r.position %% %d AND position = r.position), 0),
	COALESCE((SELECT tag FROM feed_tags WHERE slot = $1 AND position = $2), 0),
	COALESCE((SELECT position FROM counters WHERE name = 'identity'), 0)
	FROM counters r, counters k WHERE r.name = 'revocations' AND k.name = 'signing_keys'`, keptTags)

func progressArgs(seen Marks) []any { return []any{seen.Revocations % keptTags, seen.Revocations} }

// scanProgress reads selectProgress and compares it with seen.
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

// identityName returns the identity of a database as text, or "" if it has none.
func identityName(identity int64) string {
	if identity == 0 {
		return ""
	}
	return strconv.FormatInt(identity, 36)
}

// Progress returns how far the database has progressed, and compares it with seen.
func (s *Store) Progress(ctx context.Context, seen Marks) (Progress, error) {
	now, err := s.db.progress(ctx, seen)
	if err == nil && now.Identity == "" {
		if err = s.db.step(ctx, "naming the database", nameDatabase); err == nil {
			now, err = s.db.progress(ctx, seen)
		}
	}
	if err != nil {
		return Progress{}, fmt.Errorf("reading how far the database has come: %w", err)
	}
	return now, nil
}

func (db *database) progress(ctx context.Context, seen Marks) (Progress, error) {
	return askFor(ctx, db.background(selectProgress), progressArgs(seen), func(row scanner) (Progress, error) {
		return scanProgress(row, seen)
	})
}

// nameDatabase gives the database an identity unless it has one.
func nameDatabase(ctx context.Context, tx session) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO counters (name, position) VALUES ('identity', $1) ON CONFLICT (name) DO NOTHING`, randomNumber())
	return err
}

// Distrust handles a database that was restored to a state before seen. In one step it revokes the keys with those ids, stores the fresh
// key, advances the counters far beyond seen, and gives the database another identity. The advance makes nodes that have read the feed
// read it again from the beginning, and the new identity distinguishes the database from a copy that is still in use. Distrust does
// nothing and returns false when the database is not behind seen, because another node was first.
func (s *Store) Distrust(ctx context.Context, seen Marks, fresh store.StoredKey, ids []string, at time.Time) (done bool, err error) {
	var lacking bool // read only after the step has succeeded: without an answer it may still run
	err = s.keys.changeKeys(ctx, "distrusting older keys", func(ctx context.Context, tx session, keys []store.StoredKey) (_ []store.StoredKey, err error) {
		// changeKeys locks the counters against all other nodes.
		if lacking, err = lacks(ctx, tx, seen); err != nil || !lacking {
			return keys, err
		}
		for i, key := range keys {
			if slices.Contains(ids, key.ID) {
				keys[i] = key.Revoked(at)
			}
		}
		return append(keys, fresh), s.distrust(ctx, tx, seen, ids, at)
	})
	if err != nil {
		return false, err
	}
	return lacking, nil
}

// lacks reports whether the database is behind seen. The caller has just advanced the version of the keys.
func lacks(ctx context.Context, tx session, seen Marks) (bool, error) {
	seen.Keys++
	now, err := scanProgress(tx.QueryRowContext(ctx, selectProgress, progressArgs(seen)...), seen)
	return now.Behind, err
}

// distrust advances the counters beyond seen, gives the database another identity and records the revocations of the keys with those ids.
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
		revocations = append(revocations, store.RevocationOfKey(id, at))
	}
	if tx.in != nil {
		tx.in.position = 0 // a position taken before is outdated now
	}
	return s.db.record(ctx, tx, revocations...)
}

// tagFeed stores the tag $3 of the feed's newest position $2 in the slot $1. The caller holds the counter.
const (
	tagFeed   = `INSERT INTO feed_tags (slot, position, tag) VALUES ($1, $2, $3)` + orTagAnew
	orTagAnew = ` ON CONFLICT (slot) DO UPDATE SET position = excluded.position, tag = excluded.tag`
)

// randomNumber returns a random number other than 0.
func randomNumber() int64 {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	return int64(binary.BigEndian.Uint64(random[:])>>1) | 1
}
