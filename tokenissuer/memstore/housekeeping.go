package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// lease is who has a task, until when.
type lease struct {
	holder string
	until  time.Time
}

// Lease gives a task to its holder.
func (s *Store) Lease(ctx context.Context, name, holder string, until, now time.Time) (bool, error) {
	if err := s.lock(ctx); err != nil {
		return false, fmt.Errorf("leasing %s: %w", name, err)
	}
	defer s.mu.Unlock()
	if held, ok := s.leases[name]; ok && held.holder != holder && held.until.After(now) {
		return false, nil
	}
	s.leases[name] = lease{holder, until}
	return true, nil
}

// DropRevocations deletes what can hit no token any more.
func (s *Store) DropRevocations(ctx context.Context, expiredBefore time.Time) (more bool, err error) {
	if err := s.lock(ctx); err != nil {
		return false, fmt.Errorf("dropping revocations: %w", err)
	}
	defer s.mu.Unlock()
	dropped := 0
	for key, item := range s.revocations.Items() {
		if !item.Object.(recorded).ExpiresAt.Before(expiredBefore) {
			continue
		}
		if dropped == maxDropped {
			return true, nil
		}
		s.revocations.Delete(key)
		dropped++
	}
	return false, nil
}

// maxBuckets is how many buckets of attempts a store keeps.
const maxBuckets = 65536

// CountAttempt adds to the failures of a bucket, or takes some back.
func (s *Store) CountAttempt(ctx context.Context, bucket string, window time.Duration, now time.Time, by int) (n int, until time.Time, err error) {
	if err := s.lock(ctx); err != nil {
		return 0, time.Time{}, fmt.Errorf("counting attempt: %w", err)
	}
	defer s.mu.Unlock()
	n, until = s.attempts.Failures(ctx, bucket, now)
	if n == 0 {
		until = now.Add(window)
	}
	if n = max(n+by, 0); n == 0 {
		until = time.Time{}
	}
	s.attempts.Learn(bucket, n, until)
	return n, until, nil
}

// DropAttempts does nothing: what attempts need is bounded.
func (s *Store) DropAttempts(ctx context.Context, _ time.Time) (more bool, err error) {
	if err := s.usable(ctx); err != nil {
		return false, fmt.Errorf("dropping attempts: %w", err)
	}
	return false, nil
}

// Sizes tells how many records there are.
func (s *Store) Sizes(ctx context.Context) (store.Sizes, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return store.Sizes{}, fmt.Errorf("counting records: %w", err)
	}
	return store.Sizes{
		Families: int64(s.families.ItemCount()), Revocations: int64(s.revocations.ItemCount()), Requests: int64(s.decided.ItemCount()),
		Clients: int64(s.clients.ItemCount()), Users: int64(s.users.ItemCount()),
	}, nil
}
