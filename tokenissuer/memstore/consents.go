package memstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/patrickmn/go-cache"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// consents are what one user has allowed, by client.
type consents map[string]oauth.Scopes

// Consent returns what the user has allowed the client.
func (s *Store) Consent(ctx context.Context, userID, clientID string) (oauth.Scopes, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, fmt.Errorf("reading consent: %w", err)
	}
	if scopes, ok := s.consentsOf(userID)[clientID]; ok {
		return slices.Clone(scopes), nil
	}
	return nil, store.ErrNotFound
}

// PutConsent replaces what the user has allowed the client. When that was is for those who read a database.
func (s *Store) PutConsent(ctx context.Context, userID, clientID string, scopes oauth.Scopes, _ time.Time) error {
	return s.changeConsents(ctx, "storing consent", userID, func(c consents) { c[clientID] = slices.Clone(scopes) })
}

// DropConsent forgets what the user has allowed the client.
func (s *Store) DropConsent(ctx context.Context, userID, clientID string) error {
	return s.changeConsents(ctx, "dropping consent", userID, func(c consents) { delete(c, clientID) })
}

// changeConsents replaces what a user has allowed by a changed copy.
func (s *Store) changeConsents(ctx context.Context, step, userID string, edit func(consents)) error {
	if err := s.lock(ctx); err != nil {
		return fmt.Errorf("%s: %w", step, err)
	}
	defer s.mu.Unlock()
	changed := make(consents)
	maps.Copy(changed, s.consentsOf(userID))
	edit(changed)
	if len(changed) == 0 {
		s.consents.Delete(userID)
		return nil
	}
	s.consents.Set(userID, changed, cache.NoExpiration)
	return nil
}

// forgetConsents drops what everybody has allowed a client. The caller holds the lock.
func (s *Store) forgetConsents(clientID string) {
	for userID := range s.consents.Items() {
		changed := maps.Clone(s.consentsOf(userID))
		delete(changed, clientID)
		s.consents.Set(userID, changed, cache.NoExpiration)
	}
}

func (s *Store) consentsOf(userID string) consents {
	found, _ := s.consents.Get(userID)
	all, _ := found.(consents)
	return all
}
