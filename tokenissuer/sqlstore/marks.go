package sqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

// Marks are how far the counters of a database have come. They never go back, unless the database is put back to an older
// state: then what was revoked in between is lost, and no node can know what it was.
type Marks struct {
	Revocations int64 `json:"revocations"` // the position in the feed
	Keys        int64 `json:"keys"`        // the version of the keys
}

// markGap is how far Distrust moves the counters. Half of it is more than a node can have fallen behind another.
const markGap = 1 << 20

// IsBehind tells whether a counter has come less far than in other.
func (m Marks) IsBehind(other Marks) bool {
	return m.Revocations < other.Revocations || m.Keys < other.Keys
}

// Furthest returns the further of each counter.
func (m Marks) Furthest(other Marks) Marks {
	return Marks{max(m.Revocations, other.Revocations), max(m.Keys, other.Keys)}
}

// Marks reads the counters.
func (s *Store) Marks(ctx context.Context) (m Marks, err error) {
	err = askOne(ctx, s.background(`SELECT
		(SELECT position FROM counters WHERE name = 'revocations'), (SELECT position FROM counters WHERE name = 'signing_keys')`),
		nil, &m.Revocations, &m.Keys)
	if err != nil {
		return Marks{}, fmt.Errorf("reading how far the database has come: %w", err)
	}
	return m, nil
}

// Identity returns what tells this database from every other. A copy of it has the same.
func (s *Store) Identity(ctx context.Context) (string, error) {
	identity, err := s.identity(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		if err = s.addIdentity(ctx); err == nil {
			identity, err = s.identity(ctx)
		}
	}
	if err != nil {
		return "", fmt.Errorf("reading the database's identity: %w", err)
	}
	return strconv.FormatInt(identity, 36), nil
}

func (s *Store) identity(ctx context.Context) (identity int64, err error) {
	err = askOne(ctx, s.background(`SELECT position FROM counters WHERE name = 'identity'`), nil, &identity)
	return identity, err
}

// addIdentity gives the database one. Of many callers one wins.
func (s *Store) addIdentity(ctx context.Context) error {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	identity := int64(binary.BigEndian.Uint64(random[:]) >> 1)
	return s.step(ctx, "naming the database", func(ctx context.Context, tx session) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO counters (name, position) VALUES ('identity', $1) ON CONFLICT (name) DO NOTHING`, identity)
		return err
	})
}

// Distrust answers for a database that was put back to a state from before seen: it revokes the keys of those ids, stores
// the fresh one, and moves the counters far beyond seen, in one step: so far that whoever followed the feed before reads it
// anew. It does nothing, and returns false, when the counters have come as far as seen: then another node was first.
func (s *Store) Distrust(ctx context.Context, seen Marks, fresh tokenissuer.StoredKey, ids []string, at time.Time) (done bool, err error) {
	err = s.changeKeys(ctx, "distrusting older keys", func(ctx context.Context, tx session) error {
		done = false
		var now Marks
		// changeKeys has counted one, and holds the counters of all other nodes off.
		err := tx.QueryRowContext(ctx, `SELECT (SELECT position FROM counters WHERE name = 'revocations'), position - 1
			FROM counters WHERE name = 'signing_keys'`).Scan(&now.Revocations, &now.Keys)
		if err != nil || !now.IsBehind(seen) {
			return err
		}
		done = true
		if err := insertKey(ctx, tx, fresh); err != nil {
			return err
		}
		return distrust(ctx, tx, seen, ids, at)
	})
	if err != nil {
		return false, err
	}
	for _, id := range ids {
		s.erase(ctx, id)
	}
	return done, nil
}

func distrust(ctx context.Context, tx session, seen Marks, ids []string, at time.Time) error {
	for name, least := range map[string]int64{"signing_keys": seen.Keys + markGap, "revocations": seen.Revocations + markGap} {
		_, err := tx.ExecContext(ctx, `UPDATE counters SET position = $1 WHERE name = $2 AND position < $1`, least, name)
		if err != nil {
			return err
		}
	}
	var revocations []tokenissuer.Revocation
	for _, id := range ids {
		if err := wipeKeys(ctx, tx, at, `id = $3`, id); err != nil && !errors.Is(err, tokenissuer.ErrNotFound) {
			return err
		}
		revocations = append(revocations, tokenissuer.RevocationOfKey(id, at))
	}
	return record(ctx, tx, revocations...)
}
