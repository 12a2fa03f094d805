package keys

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/teststore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// FaultyStore is an in-memory store for the package's tests, in which a test can fail or change every step.
type FaultyStore struct {
	store.KeyStore
	// Before runs before each step. If it returns an error, the step fails with it.
	Before func(step string) error
	// Read replaces the result of SigningKeys.
	Read func([]store.StoredKey) ([]store.StoredKey, error)

	mu    sync.Mutex
	asked map[string]int
}

func NewFaultyStore(tb testing.TB) *FaultyStore {
	return &FaultyStore{KeyStore: teststore.New(tb).Keys}
}

// Fail makes the named step fail; "": no step fails.
func (s *FaultyStore) Fail(step string) {
	s.Before = func(name string) error {
		if name == step {
			return store.Unavailable(fmt.Errorf("%s: the disk is full", step))
		}
		return nil
	}
}

// Asked returns how often a step was tried.
func (s *FaultyStore) Asked(step string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[step]
}

func (s *FaultyStore) run(step string, do func() error) error {
	s.mu.Lock()
	if s.asked == nil {
		s.asked = make(map[string]int)
	}
	s.asked[step]++
	s.mu.Unlock()
	if s.Before != nil {
		if err := s.Before(step); err != nil {
			return err
		}
	}
	return do()
}

func (s *FaultyStore) SigningKeys(ctx context.Context) (keys []store.StoredKey, err error) {
	err = s.run("SigningKeys", func() error { keys, err = s.KeyStore.SigningKeys(ctx); return err })
	if err == nil && s.Read != nil {
		return s.Read(keys)
	}
	return keys, err
}

func (s *FaultyStore) ChangeKeys(ctx context.Context, change store.KeyChange) error {
	return s.run(change.Name, func() error { return s.KeyStore.ChangeKeys(ctx, change) })
}
