package memstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/patrickmn/go-cache"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

// SigningKeys lists every key, oldest first.
func (s *Store) SigningKeys(ctx context.Context) ([]tokenissuer.StoredKey, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, fmt.Errorf("reading signing keys: %w", err)
	}
	return s.signingKeys(), nil
}

func (s *Store) signingKeys() []tokenissuer.StoredKey {
	items := s.keys.Items()
	list := make([]tokenissuer.StoredKey, 0, len(items))
	for _, item := range items {
		key := item.Object.(tokenissuer.StoredKey)
		key.Private = slices.Clone(key.Private)
		list = append(list, key)
	}
	slices.SortFunc(list, func(a, b tokenissuer.StoredKey) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// KeysVersion returns how often the keys have changed.
func (s *Store) KeysVersion(ctx context.Context) (int64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return 0, fmt.Errorf("reading the version of the keys: %w", err)
	}
	return s.keysVersion, nil
}

// changeKeys is a step that changes the keys.
func (s *Store) changeKeys(ctx context.Context, name string, do func() error) error {
	if err := s.lock(ctx); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer s.mu.Unlock()
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	s.keysVersion++
	return nil
}

// AddFirstSigningKey stores the key unless there is one of its algorithm.
func (s *Store) AddFirstSigningKey(ctx context.Context, key tokenissuer.StoredKey) error {
	return s.changeKeys(ctx, "adding first signing key", func() error {
		if slices.ContainsFunc(s.signingKeys(), func(other tokenissuer.StoredKey) bool {
			return other.Algorithm == key.Algorithm && other.RevokedAt.IsZero()
		}) {
			return nil
		}
		return s.addKey(key)
	})
}

// AddSigningKey stores a further key.
func (s *Store) AddSigningKey(ctx context.Context, key tokenissuer.StoredKey) error {
	return s.changeKeys(ctx, "adding signing key", func() error { return s.addKey(key) })
}

func (s *Store) addKey(key tokenissuer.StoredKey) error {
	key.Private = slices.Clone(key.Private)
	if s.keys.Add(key.ID, key, cache.NoExpiration) != nil {
		return tokenissuer.ErrTaken
	}
	return nil
}

// SealSigningKey replaces the private part of a key that is sealed as the caller believes. ErrNotFound when there is no
// such key.
func (s *Store) SealSigningKey(ctx context.Context, sealed tokenissuer.StoredKey, from string) error {
	if sealed.SealedWith == "" {
		return errors.New("sealing signing key: the replacement is not sealed")
	}
	return s.changeKeys(ctx, "sealing signing key", func() error {
		key, err := s.key(sealed.ID)
		if err != nil || key.SealedWith != from || !key.RevokedAt.IsZero() {
			return err
		}
		key.Private, key.SealedWith = slices.Clone(sealed.Private), sealed.SealedWith
		s.keys.Set(key.ID, key, cache.NoExpiration)
		return nil
	})
}

// ActivateKey sets ActiveFrom of a key that has none. ErrNotFound when there is no key of that id.
func (s *Store) ActivateKey(ctx context.Context, id string, from time.Time) error {
	return s.changeKeys(ctx, "activating key", func() error {
		key, err := s.key(id)
		if err != nil || !key.ActiveFrom.IsZero() {
			return err
		}
		key.ActiveFrom = from
		s.keys.Set(key.ID, key, cache.NoExpiration)
		return nil
	})
}

// RevokeSigningKey marks a key, forgets its private part and records the revocation.
func (s *Store) RevokeSigningKey(ctx context.Context, id string, at time.Time, tokens tokenissuer.Revocation) error {
	return s.changeKeys(ctx, "revoking signing key", func() error {
		key, err := s.key(id)
		if err != nil {
			return err
		}
		if key.RevokedAt.IsZero() {
			key.RevokedAt = at
		}
		key.Private, key.SealedWith = nil, ""
		s.keys.Set(id, key, cache.NoExpiration)
		s.record(tokens)
		return nil
	})
}

// DropSigningKey deletes a key.
func (s *Store) DropSigningKey(ctx context.Context, id string) error {
	return s.changeKeys(ctx, "dropping signing key", func() error {
		s.keys.Delete(id)
		return nil
	})
}

func (s *Store) key(id string) (tokenissuer.StoredKey, error) {
	found, ok := s.keys.Get(id)
	if !ok {
		return tokenissuer.StoredKey{}, tokenissuer.ErrNotFound
	}
	return found.(tokenissuer.StoredKey), nil
}
