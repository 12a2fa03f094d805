package keys

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// LoadSigningKeys returns every key of the store that was not revoked, and creates the first one of the algorithm when the
// store has read well and holds none. Keys that are refused are left out. When no other is left, the error is theirs, an
// ErrRefused: a fresh key in their place would orphan every token and hide the fault. Without a sealer one key that cannot
// be opened fails them all. Call Seal before.
func LoadSigningKeys(ctx context.Context, st store.KeyStore, sealer *Sealer, algorithm oauth.Algorithm, now time.Time) ([]*SigningKey, error) {
	keys, refused, err := openSigningKeys(ctx, st, sealer)
	if err == nil && len(keys) == 0 {
		err = refused
	}
	if err != nil {
		return nil, err
	}
	if hasAlgorithm(keys, algorithm) {
		return keys, nil
	}
	// Only now, with every stored key opened, is it known that the key is missing and not merely damaged.
	from := now
	if len(keys) > 0 {
		from = now.Add(Lead) // another algorithm signs until everybody has had time to fetch this one
	}
	if err := addFirstKey(ctx, st, sealer, algorithm, now, from); err != nil {
		return nil, err
	}
	keys, _, err = openSigningKeys(ctx, st, sealer)
	return keys, err
}

func hasAlgorithm(keys []*SigningKey, algorithm oauth.Algorithm) bool {
	return slices.ContainsFunc(keys, func(k *SigningKey) bool { return k.Algorithm == algorithm })
}

// openSigningKeys returns every key of the store that was neither revoked nor refused, and why others are refused.
func openSigningKeys(ctx context.Context, st store.KeyStore, sealer *Sealer) (keys []*SigningKey, refused, err error) {
	stored, err := signingKeysOf(ctx, st)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range alive(stored) {
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

// addFirstKey stores a key of the algorithm unless there is one already, however many nodes do. Keys that are refused are
// none.
func addFirstKey(ctx context.Context, st store.KeyStore, sealer *Sealer, algorithm oauth.Algorithm, now, from time.Time) error {
	others, err := signingKeysOf(ctx, st)
	if err != nil {
		return err
	}
	add := st.AddFirstSigningKey
	if slices.ContainsFunc(others, func(s store.StoredKey) bool { return s.Algorithm == algorithm && sealer.refuses(s) }) {
		add = st.AddSigningKey // several nodes may store one each, which does no harm
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
	if err := add(ctx, stored); err != nil {
		return oauth.Unavailable("keys_unwritable", err)
	}
	return nil
}

// signingKeysOf returns the stored keys that sign, or did, revoked ones too, oldest first.
func signingKeysOf(ctx context.Context, st store.KeyStore) ([]store.StoredKey, error) {
	stored, err := st.SigningKeys(ctx)
	if err != nil {
		return nil, oauth.Unavailable("keys_unreadable", err)
	}
	return onlySigning(stored), nil
}

// onlySigning leaves the master key out.
func onlySigning(stored []store.StoredKey) []store.StoredKey {
	return keysWhere(stored, func(s store.StoredKey) bool { return s.Algorithm != masterAlgorithm })
}

// alive leaves revoked keys out.
func alive(stored []store.StoredKey) []store.StoredKey {
	return keysWhere(stored, func(s store.StoredKey) bool { return s.RevokedAt.IsZero() })
}

// activeAt leaves out the keys that are yet to sign.
func activeAt(stored []store.StoredKey, now time.Time) []store.StoredKey {
	return keysWhere(stored, func(s store.StoredKey) bool { return !s.SignsFrom().After(now) })
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
	return compareTurns(a.SignsFrom(), a.ID, b.SignsFrom(), b.ID)
}

// lastOf returns the key of an algorithm that begins to sign after all others, or nil.
func lastOf(stored []store.StoredKey, algorithm oauth.Algorithm) *store.StoredKey {
	var last *store.StoredKey
	for i, s := range stored {
		if s.Algorithm == algorithm && (last == nil || compareStored(s, *last) > 0) {
			last = &stored[i]
		}
	}
	return last
}
