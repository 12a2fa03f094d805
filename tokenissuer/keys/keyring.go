package keys

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const (
	// Lead is the minimum time between a key's publication and its first signature, unless it is needed at once. Caches
	// with half that lifetime get the key in time.
	Lead = 10 * time.Minute
	// maxLead is the lead of a scheduled key.
	maxLead = 24 * time.Hour

	// LeastRotation is the minimum rotation interval.
	LeastRotation = time.Hour
)

// Ring maintains the signing keys of a store on one node. There is no leader: every node derives the signing key from the
// stored keys and the time. Two nodes may do the same work at once: they then publish two keys and agree on the one that
// signs.
type Ring struct {
	Store  store.KeyStore
	Sealer *Sealer // nil: keys are stored in the clear
	// Algorithms are those that are signed with, the issuer's own first. Each has keys of its own, which take turns.
	Algorithms []oauth.Algorithm
	// Keys is the set that this node signs and verifies with.
	Keys *Set
	// Rotation is how long a key signs; 0: until Rotate is called.
	Rotation time.Duration
	// Now returns a time that all nodes agree on.
	Now func() time.Time
	// Earliest returns the earlier of Now and this node's own clock. A key is dropped only when both say that all its
	// tokens have expired. Nil: Now.
	Earliest func() time.Time
	// Warn is called for every stored key that cannot be opened or is refused (ErrRefused) while others are used; nil:
	// not at all.
	Warn func(error)
}

// errNoKeyLeft: the keys were deleted from the store, which no node does.
var errNoKeyLeft = errors.New("the store holds no signing key of the algorithm any more")

// Refresh updates Keys from the store. It keeps a key in use whose stored form can no longer be opened. If the store
// cannot be read, or has lost its keys, it changes nothing.
func (r *Ring) Refresh(ctx context.Context) error {
	set, err := readSet(ctx, r.Store, r.Sealer)
	if err != nil {
		return err
	}
	if len(set.strange) > 0 {
		for _, err := range set.refused() {
			r.warn(err)
		}
	}
	stored := onlySigning(set.keys)
	keys := r.open(unrevoked(stored))
	for _, algorithm := range r.Algorithms {
		if hasAlgorithm(keys, algorithm) || !slices.ContainsFunc(stored, wasRevoked(algorithm)) {
			continue
		}
		// A node that does not sign with it has revoked them all.
		if err := addFirstKey(ctx, r.Store, r.Sealer, algorithm, r.Now(), r.Now()); err != nil {
			return err
		}
		if set, err = readSet(ctx, r.Store, r.Sealer); err != nil {
			return err
		}
		keys = r.open(unrevoked(onlySigning(set.keys)))
	}
	for _, algorithm := range r.Algorithms {
		if !hasAlgorithm(keys, algorithm) {
			return fmt.Errorf("%w: %s", errNoKeyLeft, algorithm)
		}
	}
	return r.Keys.Replace(keys, r.Algorithms...)
}

func wasRevoked(algorithm oauth.Algorithm) func(store.StoredKey) bool {
	return func(s store.StoredKey) bool { return s.Algorithm == algorithm && !s.RevokedAt.IsZero() }
}

// open opens the stored keys. For one that cannot be opened it returns the key in use.
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

// Upkeep is the result of Maintain.
type Upkeep struct {
	Published []store.StoredKey // the next key of each algorithm that was due, without its private part
	Dropped   []string          // ids of keys whose tokens have all expired
}

// Maintain publishes the next key of each algorithm when it is due, seals keys under the current key-encryption key, and drops keys whose
// tokens have all expired. Several nodes may run it at once.
func (r *Ring) Maintain(ctx context.Context) (done Upkeep, err error) {
	found, err := Seal(ctx, r.Store, r.Sealer, true)
	if err != nil {
		return done, err
	}
	for _, err := range found.Refused {
		r.warn(err)
	}
	set, err := readSet(ctx, r.Store, r.Sealer)
	if err != nil {
		return done, err
	}
	stored, now := r.Sealer.accepts(onlySigning(set.keys)), r.Now()
	for _, algorithm := range r.Algorithms {
		if !r.isDue(stored, algorithm, now) {
			continue
		}
		next, err := r.add(ctx, algorithm, r.lead())
		if err != nil {
			return done, err
		}
		done.Published = append(done.Published, next)
	}
	if r.Earliest != nil {
		now = r.Earliest()
	}
	for _, key := range stored {
		if !isOutlived(key, stored, now) {
			continue
		}
		if err := r.Store.ChangeKeys(ctx, store.DropKey(key.ID)); err != nil {
			return done, err
		}
		done.Dropped = append(done.Dropped, key.ID)
	}
	return done, nil
}

// lead returns how long the next key is published before it signs.
func (r *Ring) lead() time.Duration {
	return max(min(r.Rotation/10, maxLead), Lead)
}

// isDue reports whether it is time to publish the algorithm's next key.
func (r *Ring) isDue(stored []store.StoredKey, algorithm oauth.Algorithm, now time.Time) bool {
	last := lastOf(unrevoked(stored), algorithm)
	return r.Rotation > 0 && last != nil && !now.Before(last.ActiveFrom.Add(r.Rotation-r.lead()))
}

// isOutlived reports whether all tokens that the key signed have expired. It is false for the last key of an algorithm,
// because some node may be configured to sign with it.
func isOutlived(key store.StoredKey, all []store.StoredKey, now time.Time) bool {
	if !key.RevokedAt.IsZero() {
		return now.After(key.RevokedAt.Add(store.KeyRetention))
	}
	for _, next := range unrevoked(all) {
		if next.Algorithm == key.Algorithm && now.After(next.ActiveFrom.Add(store.KeyRetention)) && compareStored(next, key) > 0 {
			return true
		}
	}
	return false
}

// Rotate publishes a new key of the algorithm, which is one of Algorithms, and returns it without its private part. The key signs
// at once or after Lead. Nodes receive it by Refresh.
func (r *Ring) Rotate(ctx context.Context, algorithm oauth.Algorithm, atOnce bool) (store.StoredKey, error) {
	if atOnce {
		return r.add(ctx, algorithm, 0)
	}
	return r.add(ctx, algorithm, Lead)
}

// Revoke revokes a key and returns the recorded revocation. If the key is the one that signs with its algorithm, Revoke first
// stores a replacement of the same algorithm. It returns ErrNotFound if no signing key has that id.
func (r *Ring) Revoke(ctx context.Context, id string) (store.Revocation, error) {
	set, err := readSet(ctx, r.Store, r.Sealer)
	if err != nil && !errors.Is(err, ErrOldSet) {
		return store.Revocation{}, err
	}
	stored := slices.Concat(onlySigning(set.keys), set.strange)
	i := slices.IndexFunc(stored, func(s store.StoredKey) bool { return s.ID == id })
	if i < 0 {
		return store.Revocation{}, store.ErrNotFound
	}
	now, algorithm := r.Now(), stored[i].Algorithm
	last := lastOf(activeAt(unrevoked(r.Sealer.accepts(onlySigning(set.keys))), now), algorithm)
	if last != nil && last.ID == id && slices.Contains(r.Algorithms, algorithm) {
		if _, err := r.add(ctx, algorithm, 0); err != nil {
			return store.Revocation{}, err
		}
	}
	revocation := store.RevocationOfKey(id, now)
	if err := r.Store.ChangeKeys(ctx, store.EndKey(id, now, revocation)); err != nil {
		return store.Revocation{}, err
	}
	return revocation, nil
}

// add stores a new key that signs after the delay, and returns it without its private part.
func (r *Ring) add(ctx context.Context, algorithm oauth.Algorithm, after time.Duration) (stored store.StoredKey, err error) {
	now := r.Now()
	key, err := NewSigningKey(algorithm, now)
	if err != nil {
		return store.StoredKey{}, err
	}
	key.ActiveFrom = now.Add(after)
	if stored, err = key.Stored(r.Sealer); err != nil {
		return store.StoredKey{}, err
	}
	if err := r.Store.ChangeKeys(ctx, store.AddKey(stored)); err != nil {
		return store.StoredKey{}, err
	}
	stored.Private = nil
	return stored, nil
}

// State is the state of a signing key.
type State string

// The states of a signing key, in the order of its life.
const (
	StatePublished  State = "published"  // does not sign yet
	StateSigning    State = "signing"    // it signs
	StateSuperseded State = "superseded" // only verifies
	StateRevoked    State = "revoked"
	// StateRefused is a key that anybody with write access to the store may have put there. It is not used. See
	// ErrRefused.
	StateRefused State = "refused"
)

// StateOf returns the state of a stored key, by the keys of this node.
func (r *Ring) StateOf(stored store.StoredKey) State {
	if !stored.RevokedAt.IsZero() {
		return StateRevoked
	}
	return r.Keys.stateOf(stored.ID, stored.Algorithm, stored.ActiveFrom, r.Now())
}

// ListedKey is a stored key without its private part, and its state.
type ListedKey struct {
	store.StoredKey
	State State
}

// List returns the stored signing keys, oldest first, including revoked and refused ones.
func (r *Ring) List(ctx context.Context) ([]ListedKey, error) {
	set, err := readSet(ctx, r.Store, r.Sealer)
	if err != nil && !errors.Is(err, ErrOldSet) {
		return nil, err
	}
	stored := slices.Concat(onlySigning(set.keys), set.strange)
	slices.SortFunc(stored, func(a, b store.StoredKey) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	list := make([]ListedKey, 0, len(stored))
	for _, s := range stored {
		state := StateRefused
		isStrange := slices.ContainsFunc(set.strange, func(other store.StoredKey) bool { return other.ID == s.ID && s.RevokedAt.IsZero() })
		if !isStrange && !r.Sealer.refuses(s) {
			state = r.StateOf(s)
		}
		s.Private = nil
		list = append(list, ListedKey{s, state})
	}
	return list, nil
}
