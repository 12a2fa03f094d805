package tokenissuer

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"
)

// KeySet holds the issuer's keys: one signs, all verify. The zero value holds none. It may be replaced while in use.
type KeySet struct {
	keys       atomic.Pointer[keys]
	generation atomic.Uint64
}

// keys is one state of a KeySet, never changed.
type keys struct {
	signing *SigningKey
	byID    map[string]*SigningKey
	jwks    []byte
}

// Replace sets the keys, oldest first. The newest of the algorithm signs; without one nothing can be signed.
func (s *KeySet) Replace(list []*SigningKey, algorithm Algorithm) error {
	next := &keys{byID: make(map[string]*SigningKey, len(list))}
	for _, key := range list {
		next.byID[key.ID] = key
		if key.Algorithm == algorithm {
			next.signing = key
		}
	}
	var err error
	if next.jwks, err = marshalJWKS(list); err != nil {
		return err
	}
	s.keys.Store(next)
	s.generation.Add(1)
	return nil
}

// Generation changes whenever the keys are replaced.
func (s *KeySet) Generation() uint64 { return s.generation.Load() }

// Signing returns the key that signs now.
func (s *KeySet) Signing() (*SigningKey, error) {
	if k := s.keys.Load(); k != nil && k.signing != nil {
		return k.signing, nil
	}
	return nil, Unavailable("keys_not_loaded", nil)
}

// Find returns the key of that kid; there is no search by trial.
func (s *KeySet) Find(kid string) (*VerificationKey, error) {
	k := s.keys.Load()
	if k == nil {
		return nil, Unavailable("keys_not_loaded", nil)
	}
	if key, ok := k.byID[kid]; ok {
		return &key.VerificationKey, nil
	}
	return nil, NewError(InvalidToken, "key_unknown")
}

// JWKS returns the public keys as a JWK Set (RFC 7517 §5).
func (s *KeySet) JWKS() ([]byte, error) {
	if k := s.keys.Load(); k != nil {
		return k.jwks, nil
	}
	return nil, Unavailable("keys_not_loaded", nil)
}

// List returns the keys, oldest first.
func (s *KeySet) List() []*SigningKey {
	k := s.keys.Load()
	if k == nil {
		return nil
	}
	list := make([]*SigningKey, 0, len(k.byID))
	for _, key := range k.byID {
		list = append(list, key)
	}
	slices.SortFunc(list, func(a, b *SigningKey) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// LoadSigningKeys returns every key of the store, and creates the first one of the algorithm when the store has read
// well and holds none. One key that cannot be opened fails them all: a fresh key in its place would orphan every token
// and hide the fault.
func LoadSigningKeys(ctx context.Context, store KeyStore, sealer *KeySealer, algorithm Algorithm, now time.Time) ([]*SigningKey, error) {
	keys, err := openSigningKeys(ctx, store, sealer)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(keys, func(k *SigningKey) bool { return k.Algorithm == algorithm }) {
		return keys, nil
	}
	// Only now, with every stored key opened, is it known that the key is missing and not merely damaged.
	if err := addFirstKey(ctx, store, sealer, algorithm, now); err != nil {
		return nil, err
	}
	return openSigningKeys(ctx, store, sealer)
}

// openSigningKeys returns every key of the store, and seals those that are not sealed yet.
func openSigningKeys(ctx context.Context, store KeyStore, sealer *KeySealer) ([]*SigningKey, error) {
	stored, err := store.SigningKeys(ctx)
	if err != nil {
		return nil, Unavailable("keys_unreadable", err)
	}
	stored = slices.DeleteFunc(stored, func(s StoredKey) bool { return s.Algorithm == masterAlgorithm })
	keys := make([]*SigningKey, 0, len(stored))
	for _, s := range stored {
		key, err := LoadSigningKey(s, sealer)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	for i, s := range stored {
		if sealer != nil && s.SealedWith == "" {
			if err := sealKey(ctx, store, sealer, keys[i]); err != nil {
				return nil, err
			}
		}
	}
	return keys, nil
}

// sealKey seals a key that was stored before a key-encryption key was configured.
func sealKey(ctx context.Context, store KeyStore, sealer *KeySealer, key *SigningKey) error {
	sealed, err := key.Stored(sealer)
	if err != nil {
		return err
	}
	if err := store.SealSigningKey(ctx, sealed); err != nil {
		return Unavailable("keys_unwritable", err)
	}
	return nil
}

func addFirstKey(ctx context.Context, store KeyStore, sealer *KeySealer, algorithm Algorithm, now time.Time) error {
	key, err := NewSigningKey(algorithm, now)
	if err != nil {
		return err
	}
	stored, err := key.Stored(sealer)
	if err != nil {
		return err
	}
	if err := store.AddFirstSigningKey(ctx, stored); err != nil {
		return Unavailable("keys_unwritable", err)
	}
	return nil
}
