package memstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

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

// AddFirstSigningKey stores the key unless there is one of its algorithm.
func (s *Store) AddFirstSigningKey(ctx context.Context, key tokenissuer.StoredKey) error {
	fail := func(err error) error { return fmt.Errorf("adding first signing key: %w", err) }
	if err := s.lock(ctx); err != nil {
		return fail(err)
	}
	defer s.mu.Unlock()
	for _, other := range s.signingKeys() {
		if other.Algorithm == key.Algorithm {
			return nil
		}
	}
	key.Private = slices.Clone(key.Private)
	if err := s.keys.Add(key.ID, key, cache.NoExpiration); err != nil {
		return fail(errors.New("a key of another algorithm has this id"))
	}
	return nil
}

// SealSigningKey replaces the private part of a key that is not sealed yet. ErrNotFound when there is no such key.
func (s *Store) SealSigningKey(ctx context.Context, sealed tokenissuer.StoredKey) error {
	fail := func(err error) error { return fmt.Errorf("sealing signing key: %w", err) }
	if sealed.SealedWith == "" {
		return fail(errors.New("the replacement is not sealed"))
	}
	if err := s.lock(ctx); err != nil {
		return fail(err)
	}
	defer s.mu.Unlock()
	found, ok := s.keys.Get(sealed.ID)
	if !ok {
		return fail(tokenissuer.ErrNotFound)
	}
	key := found.(tokenissuer.StoredKey)
	if key.SealedWith != "" {
		return nil
	}
	key.Private, key.SealedWith = slices.Clone(sealed.Private), sealed.SealedWith
	s.keys.Set(key.ID, key, cache.NoExpiration)
	return nil
}
