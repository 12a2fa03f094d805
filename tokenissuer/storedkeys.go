package tokenissuer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// LoadSigningKeys returns every key of the store that was not revoked, and creates the first one of the algorithm when the
// store has read well and holds none. One key that cannot be opened fails them all: a fresh key in its place would orphan
// every token and hide the fault. Keys that are refused are left out; the error is an ErrKeyRefused when one of them stands
// where the first one would. Call SealKeys before.
func LoadSigningKeys(ctx context.Context, store KeyStore, sealer *KeySealer, algorithm Algorithm, now time.Time) ([]*SigningKey, error) {
	keys, err := openSigningKeys(ctx, store, sealer)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(keys, func(k *SigningKey) bool { return k.Algorithm == algorithm }) {
		return keys, nil
	}
	// Only now, with every stored key opened, is it known that the key is missing and not merely damaged.
	from := now
	if len(keys) > 0 {
		from = now.Add(KeyLead) // another algorithm signs until everybody has had time to fetch this one
	}
	if err := addFirstKey(ctx, store, sealer, algorithm, now, from); err != nil {
		return nil, err
	}
	keys, err = openSigningKeys(ctx, store, sealer)
	if err == nil && !slices.ContainsFunc(keys, func(k *SigningKey) bool { return k.Algorithm == algorithm }) {
		err = fmt.Errorf("loading signing keys: %w: it stands in the place of the first one for %s", ErrKeyRefused, algorithm)
	}
	return keys, err
}

// openSigningKeys returns every key of the store that was neither revoked nor refused.
func openSigningKeys(ctx context.Context, store KeyStore, sealer *KeySealer) ([]*SigningKey, error) {
	stored, err := signingKeysOf(ctx, store)
	if err != nil {
		return nil, err
	}
	stored = alive(stored)
	keys := make([]*SigningKey, 0, len(stored))
	for _, s := range stored {
		key, err := LoadSigningKey(s, sealer)
		switch {
		case errors.Is(err, ErrKeyRefused):
			continue
		case err != nil:
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func addFirstKey(ctx context.Context, store KeyStore, sealer *KeySealer, algorithm Algorithm, now, from time.Time) error {
	key, err := NewSigningKey(algorithm, now)
	if err != nil {
		return err
	}
	key.ActiveFrom = from
	stored, err := key.Stored(sealer)
	if err != nil {
		return err
	}
	if err := store.AddFirstSigningKey(ctx, stored); err != nil {
		return Unavailable("keys_unwritable", err)
	}
	return nil
}

// signingKeysOf returns the stored keys that sign, or did, revoked ones too, oldest first.
func signingKeysOf(ctx context.Context, store KeyStore) ([]StoredKey, error) {
	stored, err := store.SigningKeys(ctx)
	if err != nil {
		return nil, Unavailable("keys_unreadable", err)
	}
	return onlySigning(stored), nil
}

// onlySigning leaves the master key out.
func onlySigning(stored []StoredKey) []StoredKey {
	return keysWhere(stored, func(s StoredKey) bool { return s.Algorithm != masterAlgorithm })
}

// alive leaves revoked keys out.
func alive(stored []StoredKey) []StoredKey {
	return keysWhere(stored, func(s StoredKey) bool { return s.RevokedAt.IsZero() })
}

// activeAt leaves out the keys that are yet to sign.
func activeAt(stored []StoredKey, now time.Time) []StoredKey {
	return keysWhere(stored, func(s StoredKey) bool { return !s.activeFrom().After(now) })
}

func keysWhere(stored []StoredKey, holds func(StoredKey) bool) []StoredKey {
	var list []StoredKey
	for _, s := range stored {
		if holds(s) {
			list = append(list, s)
		}
	}
	return list
}

// compareStored orders stored keys by when they begin to sign; see compareTurns.
func compareStored(a, b StoredKey) int {
	return compareTurns(a.activeFrom(), a.ID, b.activeFrom(), b.ID)
}

// lastOf returns the key of an algorithm that begins to sign after all others, or nil.
func lastOf(stored []StoredKey, algorithm Algorithm) *StoredKey {
	var last *StoredKey
	for i, s := range stored {
		if s.Algorithm == algorithm && (last == nil || compareStored(s, *last) > 0) {
			last = &stored[i]
		}
	}
	return last
}
