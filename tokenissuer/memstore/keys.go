package memstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/patrickmn/go-cache"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// SigningKeys lists every key, oldest first.
func (s *Store) SigningKeys(ctx context.Context) ([]store.StoredKey, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, fmt.Errorf("reading signing keys: %w", err)
	}
	return s.signingKeys(), nil
}

func (s *Store) signingKeys() []store.StoredKey {
	items := s.keys.Items()
	list := make([]store.StoredKey, 0, len(items))
	for _, item := range items {
		key := item.Object.(store.StoredKey)
		key.Private, key.Binding = slices.Clone(key.Private), slices.Clone(key.Binding)
		list = append(list, key)
	}
	slices.SortFunc(list, func(a, b store.StoredKey) int {
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
	before := s.signingKeys()
	err := do()
	if err == nil && s.bindKeys != nil {
		var bound store.StoredKey
		bound, err = s.bindKeys(store.KeyStep{Version: s.keysVersion + 1, Before: before, After: s.signingKeys()})
		if err == nil {
			s.keys.Set(bound.ID, bound, cache.NoExpiration)
		} else { // a revocation that do has recorded stays: it takes nothing that is good
			s.keys.Flush()
			for _, key := range before {
				s.keys.Set(key.ID, key, cache.NoExpiration)
			}
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	s.keysVersion++
	return nil
}

// BindKeys has every change of the keys store what bind returns of it.
func (s *Store) BindKeys(bind func(store.KeyStep) (store.StoredKey, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bindKeys = bind
}

// AddFirstSigningKey stores the key unless there is one of its algorithm.
func (s *Store) AddFirstSigningKey(ctx context.Context, key store.StoredKey) error {
	return s.changeKeys(ctx, "adding first signing key", func() error {
		if slices.ContainsFunc(s.signingKeys(), func(other store.StoredKey) bool {
			return other.Algorithm == key.Algorithm && other.RevokedAt.IsZero()
		}) {
			return nil
		}
		return s.addKey(key)
	})
}

// AddSigningKey stores a further key.
func (s *Store) AddSigningKey(ctx context.Context, key store.StoredKey) error {
	return s.changeKeys(ctx, "adding signing key", func() error { return s.addKey(key) })
}

func (s *Store) addKey(key store.StoredKey) error {
	key.Private, key.Binding = slices.Clone(key.Private), slices.Clone(key.Binding)
	if s.keys.Add(key.ID, key, cache.NoExpiration) != nil {
		return store.ErrTaken
	}
	return nil
}

// errChanged is what ReplaceSigningKeys answers with false.
var errChanged = errors.New("the keys have changed")

// ReplaceSigningKeys replaces what may change of keys, all of them or none.
func (s *Store) ReplaceSigningKeys(ctx context.Context, changes ...store.KeyChange) (bool, error) {
	err := s.changeKeys(ctx, "replacing signing keys", func() error {
		becomes := make([]store.StoredKey, 0, len(changes))
		for _, c := range changes {
			if c.Was.SealedWith != "" && c.Becomes.SealedWith == "" {
				return errors.New("the replacement is not sealed")
			}
			key, err := s.key(c.Was.ID)
			if err != nil || !key.RevokedAt.IsZero() || key.SealedWith != c.Was.SealedWith || !bytes.Equal(key.Private, c.Was.Private) ||
				!key.ActiveFrom.Equal(c.Was.ActiveFrom) {
				return errChanged
			}
			key.Private, key.Binding = slices.Clone(c.Becomes.Private), slices.Clone(c.Becomes.Binding)
			key.SealedWith, key.ActiveFrom = c.Becomes.SealedWith, c.Becomes.ActiveFrom
			becomes = append(becomes, key)
		}
		for _, key := range becomes {
			s.keys.Set(key.ID, key, cache.NoExpiration)
		}
		return nil
	})
	if errors.Is(err, errChanged) {
		return false, nil
	}
	return err == nil, err
}

// RevokeSigningKey marks a key, forgets its private part and records the revocation.
func (s *Store) RevokeSigningKey(ctx context.Context, id string, at time.Time, tokens store.Revocation) error {
	return s.changeKeys(ctx, "revoking signing key", func() error {
		key, err := s.key(id)
		if err != nil {
			return err
		}
		if key.RevokedAt.IsZero() {
			key.RevokedAt = at
		}
		key.Private, key.SealedWith, key.Binding = nil, "", nil
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

func (s *Store) key(id string) (store.StoredKey, error) {
	found, ok := s.keys.Get(id)
	if !ok {
		return store.StoredKey{}, store.ErrNotFound
	}
	return found.(store.StoredKey), nil
}
