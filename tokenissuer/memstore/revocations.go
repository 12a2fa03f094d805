package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const (
	// minRetention keeps a revocation that has expired already, by this machine's clock, for long enough that every
	// reader of the feed gets it: whether it has expired is decided by the core, on the core's clock.
	minRetention = time.Minute
	// maxRetention stands for "for ever": go-cache counts nanoseconds, which end in the year 2262.
	maxRetention = 50 * 365 * 24 * time.Hour

	purgeInterval = time.Minute
)

// recorded is a revocation with its place in the feed.
type recorded struct {
	store.Revocation
	position int64
}

// Revoke records the revocations.
func (s *Store) Revoke(ctx context.Context, revocations ...store.Revocation) error {
	if err := s.lock(ctx); err != nil {
		return fmt.Errorf("revoking: %w", err)
	}
	defer s.mu.Unlock()
	s.record(revocations...)
	return nil
}

// record puts revocations into the feed, all at one position. The caller holds the lock.
func (s *Store) record(revocations ...store.Revocation) {
	if len(revocations) == 0 {
		return
	}
	s.position++
	for _, r := range revocations {
		key := string(r.Kind) + "\x00" + r.ID
		if old, ok := s.revocations.Get(key); ok {
			r = widest(old.(recorded).Revocation, r)
		}
		retention := min(max(time.Until(r.ExpiresAt), minRetention), maxRetention)
		s.revocations.Set(key, recorded{r, s.position}, retention)
	}
	if now := time.Now(); now.After(s.purgeAt) {
		s.revocations.DeleteExpired()
		s.purgeAt = now.Add(purgeInterval)
	}
}

// widest returns what revokes every token that a or b revokes, for as long as the longer of them. A zero IssuedUntil
// is the widest there is.
func widest(a, b store.Revocation) store.Revocation {
	switch {
	case a.IssuedUntil.IsZero() || b.IssuedUntil.IsZero():
		a.IssuedUntil = time.Time{}
	case b.IssuedUntil.After(a.IssuedUntil):
		a.IssuedUntil = b.IssuedUntil
	}
	if b.ExpiresAt.After(a.ExpiresAt) {
		a.ExpiresAt = b.ExpiresAt
	}
	return a
}

// Revocations lists what was recorded after position. A position that this store has not reached comes from a store
// before a restart, and gets everything.
func (s *Store) Revocations(ctx context.Context, after store.FeedPosition) ([]store.Revocation, store.FeedPosition, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, store.FeedPosition{}, fmt.Errorf("reading revocations: %w", err)
	}
	next := store.FeedPosition{At: s.position}
	if after.At == s.position {
		return nil, next, nil
	}
	if after.At > s.position {
		after.At = 0
	}
	var found []recorded
	for _, item := range s.revocations.Items() {
		if r := item.Object.(recorded); r.position > after.At {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b recorded) int {
		return cmp.Or(cmp.Compare(a.position, b.position), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
	})
	list := make([]store.Revocation, len(found))
	for i, r := range found {
		list[i] = r.Revocation
	}
	return list, next, nil
}
