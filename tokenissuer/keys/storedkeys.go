package keys

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// LoadSigningKeys returns the stored keys that are not revoked, and creates the first one of each algorithm if the store was
// read without error and has none. It skips refused keys. If only refused ones are left, it returns their error, an
// ErrRefused: a new key would orphan every token and hide the fault. Without a sealer, one key that cannot be opened is
// an error. Call Seal first.
func LoadSigningKeys(ctx context.Context, st store.KeyStore, sealer *Sealer, now time.Time, algorithms ...oauth.Algorithm) ([]*SigningKey, error) {
	keys, refused, err := openSigningKeys(ctx, st, sealer)
	if err == nil && len(keys) == 0 {
		err = refused
	}
	if err != nil {
		return nil, err
	}
	// Create keys only now: the stored keys have all been opened, so one is missing and not just damaged.
	from := now
	if len(keys) > 0 {
		from = now.Add(Lead) // another algorithm signs access tokens until caches have these keys
	}
	added := false
	for _, algorithm := range algorithms {
		if hasAlgorithm(keys, algorithm) {
			continue
		}
		if err := addFirstKey(ctx, st, sealer, algorithm, now, from); err != nil {
			return nil, err
		}
		added = true
	}
	if !added {
		return keys, nil
	}
	keys, _, err = openSigningKeys(ctx, st, sealer)
	return keys, err
}

func hasAlgorithm(keys []*SigningKey, algorithm oauth.Algorithm) bool {
	return slices.ContainsFunc(keys, func(k *SigningKey) bool { return k.Algorithm == algorithm })
}

// openSigningKeys returns the stored keys that are neither revoked nor refused, and the error of refused ones.
func openSigningKeys(ctx context.Context, st store.KeyStore, sealer *Sealer) (keys []*SigningKey, refused, err error) {
	set, err := readSet(ctx, st, sealer)
	if err != nil {
		return nil, nil, err
	}
	if len(set.strange) > 0 {
		refused = errors.Join(set.refused()...)
	}
	for _, s := range unrevoked(onlySigning(set.keys)) {
		key, err := LoadSigningKey(s, sealer)
		switch {
		case errors.Is(err, ErrRefused):
			refused = errors.Join(refused, err)
			continue
		case err != nil:
			return nil, nil, err
		}
		keys = append(keys, key)
	}
	return keys, refused, nil
}

// addFirstKey stores a key of the algorithm unless there is one that is not refused. Several nodes may call it at once.
func addFirstKey(ctx context.Context, st store.KeyStore, sealer *Sealer, algorithm oauth.Algorithm, now, from time.Time) error {
	set, err := readSet(ctx, st, sealer)
	if err != nil {
		return err
	}
	isRefused := func(s store.StoredKey) bool { return s.Algorithm == algorithm && sealer.refuses(s) }
	isStrange := func(s store.StoredKey) bool { return s.Algorithm == algorithm }
	add := store.AddFirstKey
	if slices.ContainsFunc(set.keys, isRefused) || slices.ContainsFunc(set.strange, isStrange) {
		add = store.AddKey // several nodes may store one each, which is harmless
	}
	key, err := NewSigningKey(algorithm, now)
	if err != nil {
		return err
	}
	key.ActiveFrom = from
	stored, err := key.Stored(sealer)
	if err != nil {
		return err
	}
	return st.ChangeKeys(ctx, add(stored))
}

// onlySigning returns all but the master key and the manifest.
func onlySigning(stored []store.StoredKey) []store.StoredKey {
	return keysWhere(stored, func(s store.StoredKey) bool {
		return s.Algorithm != masterAlgorithm && s.Algorithm != manifestAlgorithm
	})
}

// unrevoked returns the keys that are not revoked.
func unrevoked(stored []store.StoredKey) []store.StoredKey {
	return keysWhere(stored, func(s store.StoredKey) bool { return s.RevokedAt.IsZero() })
}

// activeAt returns the keys that have begun to sign.
func activeAt(stored []store.StoredKey, now time.Time) []store.StoredKey {
	return keysWhere(stored, func(s store.StoredKey) bool { return !s.ActiveFrom.After(now) })
}

func keysWhere(stored []store.StoredKey, holds func(store.StoredKey) bool) []store.StoredKey {
	var list []store.StoredKey
	for _, s := range stored {
		if holds(s) {
			list = append(list, s)
		}
	}
	return list
}

// compareStored orders stored keys by when they begin to sign; see compareTurns.
func compareStored(a, b store.StoredKey) int {
	return compareTurns(a.ActiveFrom, a.ID, b.ActiveFrom, b.ID)
}

// lastOf returns the key of an algorithm that begins to sign last, or nil.
func lastOf(stored []store.StoredKey, algorithm oauth.Algorithm) *store.StoredKey {
	var last *store.StoredKey
	for i, s := range stored {
		if s.Algorithm == algorithm && (last == nil || compareStored(s, *last) > 0) {
			last = &stored[i]
		}
	}
	return last
}
