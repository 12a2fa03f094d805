package keys_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/memstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// day is as in the lifetimes of keys.
const day = store.Day

// faultyStore is a store of which one step with keys can fail.
type faultyStore struct {
	*memstore.Store

	mu   sync.Mutex
	step string
}

// fail makes a step fail; none, when it has no name.
func (s *faultyStore) fail(step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.step = step
}

func (s *faultyStore) run(step string, do func() error) error {
	s.mu.Lock()
	fails := s.step == step
	s.mu.Unlock()
	if fails {
		return fmt.Errorf("%s: the disk is full", step)
	}
	return do()
}

func (s *faultyStore) SigningKeys(ctx context.Context) (keys []store.StoredKey, err error) {
	err = s.run("SigningKeys", func() error { keys, err = s.Store.SigningKeys(ctx); return err })
	return keys, err
}

func (s *faultyStore) AddFirstSigningKey(ctx context.Context, key store.StoredKey) error {
	return s.run("AddFirstSigningKey", func() error { return s.Store.AddFirstSigningKey(ctx, key) })
}

func (s *faultyStore) AddSigningKey(ctx context.Context, key store.StoredKey) error {
	return s.run("AddSigningKey", func() error { return s.Store.AddSigningKey(ctx, key) })
}

func (s *faultyStore) ReplaceSigningKeys(ctx context.Context, changes ...store.KeyChange) (done bool, err error) {
	err = s.run("ReplaceSigningKeys", func() error { done, err = s.Store.ReplaceSigningKeys(ctx, changes...); return err })
	return done, err
}

func (s *faultyStore) RevokeSigningKey(ctx context.Context, id string, at time.Time, tokens store.Revocation) error {
	return s.run("RevokeSigningKey", func() error { return s.Store.RevokeSigningKey(ctx, id, at, tokens) })
}

func (s *faultyStore) DropSigningKey(ctx context.Context, id string) error {
	return s.run("DropSigningKey", func() error { return s.Store.DropSigningKey(ctx, id) })
}
