package keys

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const (
	// Lead is the least time for which a key is published before it signs, when it is not wanted at once. Whoever keeps
	// the published keys for at most half as long has it in time.
	Lead = 10 * time.Minute
	// maxLead is that of a key that comes on schedule.
	maxLead = 24 * time.Hour

	// LeastRotation is the shortest time between two keys on schedule.
	LeastRotation = time.Hour
)

// Ring looks after the signing keys of a store, for one of the nodes that share it. Nobody leads: every node derives
// from what is stored, and the time, which key signs. So it does no harm when two nodes do the same thing at once: two
// keys are published, and all agree on the one that signs.
type Ring struct {
	Store     store.KeyStore
	Sealer    *Sealer // nil: keys are stored in the clear
	Algorithm oauth.Algorithm
	// Keys are what this node signs and verifies with.
	Keys *Set
	// Rotation is how long a key signs before the next one does; 0: until somebody asks for another.
	Rotation time.Duration
	// Now is the same on every node.
	Now func() time.Time
	// Earliest is the earlier of Now and this node's own clock: a key is dropped when both say that it has outlived its
	// tokens. Nil: Now.
	Earliest func() time.Time
	// Warn is told of every stored key that cannot be opened, or is refused (ErrRefused), while the others are used; nil:
	// nobody is.
	Warn func(error)
}

// errNoKeyLeft: somebody else than a node has taken them out.
var errNoKeyLeft = errors.New("the store holds no signing key of the algorithm any more")

// Refresh brings Keys up to what the store holds. A key that is in use stays in use when its stored form cannot be opened
// any more. When the store cannot be read, or has lost its keys, nothing changes.
func (r *Ring) Refresh(ctx context.Context) error {
	stored, err := signingKeysOf(ctx, r.Store)
	if err != nil {
		return err
	}
	keys := r.open(alive(stored))
	if !hasAlgorithm(keys, r.Algorithm) && slices.ContainsFunc(stored, r.wasRevoked) {
		// All were revoked, as by a node that signs with another algorithm.
		if err := addFirstKey(ctx, r.Store, r.Sealer, r.Algorithm, r.Now(), r.Now()); err != nil {
			return err
		}
		if stored, err = signingKeysOf(ctx, r.Store); err != nil {
			return err
		}
		keys = r.open(alive(stored))
	}
	if !hasAlgorithm(keys, r.Algorithm) {
		return errNoKeyLeft
	}
	return r.Keys.Replace(keys, r.Algorithm)
}

func (r *Ring) wasRevoked(stored store.StoredKey) bool {
	return stored.Algorithm == r.Algorithm && !stored.RevokedAt.IsZero()
}

// open opens what it can, and takes keys that are in use for those that it cannot.
func (r *Ring) open(stored []store.StoredKey) []*SigningKey {
	var keys []*SigningKey
	for _, s := range stored {
		key, err := LoadSigningKey(s, r.Sealer)
		if err != nil {
			r.warn(err)
			if key = r.Keys.signingKey(s.ID); key == nil {
				continue
			}
		}
		keys = append(keys, key)
	}
	return keys
}

func (r *Ring) warn(err error) {
	if r.Warn != nil {
		r.Warn(err)
	}
}

// Upkeep is what Maintain has done.
type Upkeep struct {
	Published *store.StoredKey // the next key, without its private part; nil: it is not time
	Dropped   []string         // ids of keys that no token needs any more
}

// Maintain publishes the next key when it is time, seals what is not sealed under the key-encryption key of now, and drops
// keys that no living token was signed with. It may run on several nodes at once.
func (r *Ring) Maintain(ctx context.Context) (done Upkeep, err error) {
	found, err := Seal(ctx, r.Store, r.Sealer, true)
	if err != nil {
		return done, err
	}
	for _, err := range found.Refused {
		r.warn(err)
	}
	stored, err := signingKeysOf(ctx, r.Store)
	if err != nil {
		return done, err
	}
	stored, now := r.Sealer.accepts(stored), r.Now()
	if r.isDue(stored, now) {
		next, err := r.add(ctx, r.lead())
		if err != nil {
			return done, err
		}
		done.Published = &next
	}
	if r.Earliest != nil {
		now = r.Earliest()
	}
	for _, key := range stored {
		if !isOutlived(key, stored, now) {
			continue
		}
		if err := r.Store.DropSigningKey(ctx, key.ID); err != nil {
			return done, oauth.Unavailable("keys_unwritable", err)
		}
		done.Dropped = append(done.Dropped, key.ID)
	}
	return done, nil
}

// lead is how long the next key is published before it signs.
func (r *Ring) lead() time.Duration {
	return max(min(r.Rotation/10, maxLead), Lead)
}

// isDue reports whether the last of the algorithm's keys has signed for so long that the next one is to be published.
func (r *Ring) isDue(stored []store.StoredKey, now time.Time) bool {
	last := lastOf(alive(stored), r.Algorithm)
	return r.Rotation > 0 && last != nil && !now.Before(last.SignsFrom().Add(r.Rotation-r.lead()))
}

// isOutlived reports whether no living token can have been signed with the key. The last key of an algorithm never is: some
// node may be configured to sign with it.
func isOutlived(key store.StoredKey, all []store.StoredKey, now time.Time) bool {
	if !key.RevokedAt.IsZero() {
		return now.After(key.RevokedAt.Add(store.KeyRetention))
	}
	for _, next := range alive(all) {
		if next.Algorithm == key.Algorithm && now.After(next.SignsFrom().Add(store.KeyRetention)) && compareStored(next, key) > 0 {
			return true
		}
	}
	return false
}

// Rotate publishes a new key, which signs after Lead, or at once, and returns it without its private part. Nodes learn of
// it by Refresh.
func (r *Ring) Rotate(ctx context.Context, atOnce bool) (store.StoredKey, error) {
	if atOnce {
		return r.add(ctx, 0)
	}
	return r.add(ctx, Lead)
}

// Revoke withdraws a key and returns the revocation that was recorded. When the key is the one that signs, one that takes
// its place at once is stored before. ErrNotFound when no signing key has that id.
func (r *Ring) Revoke(ctx context.Context, id string) (store.Revocation, error) {
	stored, err := signingKeysOf(ctx, r.Store)
	if err != nil {
		return store.Revocation{}, err
	}
	if !slices.ContainsFunc(stored, func(s store.StoredKey) bool { return s.ID == id }) {
		return store.Revocation{}, store.ErrNotFound
	}
	now := r.Now()
	if last := lastOf(activeAt(alive(r.Sealer.accepts(stored)), now), r.Algorithm); last != nil && last.ID == id {
		if _, err := r.add(ctx, 0); err != nil {
			return store.Revocation{}, err
		}
	}
	revocation := store.RevocationOfKey(id, now)
	if err := r.Store.RevokeSigningKey(ctx, id, now, revocation); err != nil {
		return store.Revocation{}, oauth.Unavailable("keys_unwritable", err)
	}
	return revocation, nil
}

// add stores a new key that signs after so long, and returns it without its private part.
func (r *Ring) add(ctx context.Context, after time.Duration) (stored store.StoredKey, err error) {
	now := r.Now()
	key, err := NewSigningKey(r.Algorithm, now)
	if err != nil {
		return store.StoredKey{}, err
	}
	key.ActiveFrom = now.Add(after)
	if stored, err = key.Stored(r.Sealer); err != nil {
		return store.StoredKey{}, err
	}
	if err := r.Store.AddSigningKey(ctx, stored); err != nil {
		return store.StoredKey{}, oauth.Unavailable("keys_unwritable", err)
	}
	stored.Private = nil
	return stored, nil
}

// State is what a signing key does.
type State string

// The states of a signing key, in the order of its life.
const (
	StatePublished  State = "published"  // it is yet to sign
	StateSigning    State = "signing"    // it signs
	StateSuperseded State = "superseded" // it verifies what it has signed
	StateRevoked    State = "revoked"
	// StateRefused is a key that anybody may have put there who can write to the store: it is not used. See ErrRefused.
	StateRefused State = "refused"
)

// StateOf returns what a good stored key does now, by the keys that this node has.
func (r *Ring) StateOf(stored store.StoredKey) State {
	now := r.Now()
	signing, err := r.Keys.Signing(now)
	switch {
	case !stored.RevokedAt.IsZero():
		return StateRevoked
	case err == nil && signing.ID == stored.ID:
		return StateSigning
	case stored.SignsFrom().After(now):
		return StatePublished
	}
	return StateSuperseded
}

// ListedKey is a stored key without its private part, and what it does now.
type ListedKey struct {
	store.StoredKey
	State State
}

// List returns the stored signing keys, revoked and refused ones too, oldest first.
func (r *Ring) List(ctx context.Context) ([]ListedKey, error) {
	stored, err := signingKeysOf(ctx, r.Store)
	list := make([]ListedKey, 0, len(stored))
	for _, s := range stored {
		state := StateRefused
		if !r.Sealer.refuses(s) {
			state = r.StateOf(s)
		}
		s.Private, s.ActiveFrom = nil, s.SignsFrom()
		list = append(list, ListedKey{s, state})
	}
	return list, err
}
