package memstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/patrickmn/go-cache"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// decidedRequestRetention is how much longer than its family a decided request is remembered.
const decidedRequestRetention = time.Hour

// AddFamily stores a family and decides the request that it comes from.
func (s *Store) AddFamily(ctx context.Context, family *store.TokenFamily) error {
	fail := func(err error) error { return fmt.Errorf("adding family: %w", err) }
	if err := s.lock(ctx); err != nil {
		return fail(err)
	}
	defer s.mu.Unlock()
	if !s.userStands(family) || !s.othersStand(family) {
		return fail(store.ErrStale)
	}
	if _, exists := s.families.Get(family.ID); exists {
		return fail(errors.New("there is a family of this id"))
	}
	if id := family.Code.RequestID; id != "" {
		if err := s.decide(id, family.ExpiresAt.Add(decidedRequestRetention)); err != nil {
			return fail(err)
		}
	}
	kept := cloneFamily(*family)
	kept.Preconditions = store.Preconditions{}
	s.putFamily(kept)
	s.expiries.add(expiry{at: family.ExpiresAt, id: family.ID})
	return nil
}

// userStands reports whether the family's user is in the state in which the family was granted.
func (s *Store) userStands(f *store.TokenFamily) bool {
	if f.UserDeclared {
		return true
	}
	found, err := s.account(f.UserID)
	return err == nil && found.user.IsActive() && found.user.Version == f.UserVersion
}

// othersStand reports whether the session and the actor, where there are some, have not ended.
func (s *Store) othersStand(f *store.TokenFamily) bool {
	if id := f.Preconditions.SessionID; id != "" {
		if session, known := s.family(id); !known || !session.RevokedAt.IsZero() {
			return false
		}
	}
	if f.Preconditions.ActorVersion == "" {
		return true
	}
	actor, err := s.account(f.Actor.Subject)
	return err == nil && actor.user.IsActive() && actor.user.Version == f.Preconditions.ActorVersion
}

// Family returns the family of that id. It copies an empty one when there is none.
func (s *Store) Family(ctx context.Context, id string) (*store.TokenFamily, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, fmt.Errorf("reading family: %w", err)
	}
	found, known := s.family(id)
	copied := cloneFamily(found)
	if !known {
		return nil, store.ErrNotFound
	}
	return &copied, nil
}

func (s *Store) family(id string) (store.TokenFamily, bool) {
	found, known := s.families.Get(id)
	family, _ := found.(store.TokenFamily)
	return family, known
}

// FamiliesOf lists the user's families that are not revoked and expire after that time, newest first.
func (s *Store) FamiliesOf(ctx context.Context, userID string, expireAfter time.Time) ([]*store.TokenFamily, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, fmt.Errorf("listing families: %w", err)
	}
	var list []*store.TokenFamily
	for id := range s.live[userID] {
		if f, _ := s.family(id); f.ExpiresAt.After(expireAfter) {
			copied := cloneFamily(f)
			list = append(list, &copied)
		}
	}
	slices.SortFunc(list, func(a, b *store.TokenFamily) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return list, nil
}

// RedeemCode spends the family's code.
func (s *Store) RedeemCode(ctx context.Context, id string, generation int64, at, expires time.Time, maxFailures int) error {
	return s.spend(ctx, "redeeming code", id, func(f *store.TokenFamily) bool {
		if !hasCode(f) || !f.Code.SpentAt.IsZero() || at.After(f.Code.ExpiresAt) || !f.RevokedAt.IsZero() || f.Code.Failures >= maxFailures || !s.userStands(f) {
			return false
		}
		f.Code.SpentAt, f.RotatedAt = at, at
		f.Generation, f.ExpiresAt = generation, expires
		s.expiries.add(expiry{at: expires, id: id})
		return true
	})
}

// hasCode reports whether the family ever had a code. A failure that was counted makes none.
func hasCode(f *store.TokenFamily) bool {
	code := f.Code
	code.Failures = 0
	return code != store.CodeBinding{}
}

// CountCodeFailure counts a wrong verifier.
func (s *Store) CountCodeFailure(ctx context.Context, id string) error {
	_, err := s.changeFamily(ctx, "counting code failure", id, func(f *store.TokenFamily) bool {
		f.Code.Failures++
		return true
	})
	return err
}

// RotateRefreshToken makes the next generation the newest.
func (s *Store) RotateRefreshToken(ctx context.Context, id string, generation int64, r store.Rotation) error {
	return s.spend(ctx, "rotating refresh token", id, func(f *store.TokenFamily) bool {
		if f.Generation != generation || !r.At.Before(f.ExpiresAt) || !f.RevokedAt.IsZero() || !s.userStands(f) {
			return false
		}
		f.Generation, f.RotatedAt, f.RotatedBy = generation+1, r.At, r.By
		s.record(r.Ended...)
		return true
	})
}

// TouchFamily notes when a session was last seen.
func (s *Store) TouchFamily(ctx context.Context, id string, at time.Time) error {
	return s.spend(ctx, "touching family", id, func(f *store.TokenFamily) bool {
		if at.After(f.RotatedAt) {
			f.RotatedAt = at
		}
		return f.RevokedAt.IsZero()
	})
}

// spend is changeFamily for what can be done once: ErrSpent when edit refuses or there is no such family.
func (s *Store) spend(ctx context.Context, step, id string, edit func(*store.TokenFamily) bool) error {
	done, err := s.changeFamily(ctx, step, id, edit)
	if err == nil && !done {
		return fmt.Errorf("%s: %w", step, store.ErrSpent)
	}
	return err
}

// changeFamily replaces a family by a changed copy unless edit refuses, and reports whether it did.
func (s *Store) changeFamily(ctx context.Context, step, id string, edit func(*store.TokenFamily) bool) (bool, error) {
	if err := s.lock(ctx); err != nil {
		return false, fmt.Errorf("%s: %w", step, err)
	}
	defer s.mu.Unlock()
	f, known := s.family(id)
	if !known || !edit(&f) {
		return false, nil
	}
	s.putFamily(f)
	return true, nil
}

// putFamily stores a family, and lists it among its user's for as long as it is not revoked. The caller holds the lock.
func (s *Store) putFamily(f store.TokenFamily) {
	s.families.Set(f.ID, f, cache.NoExpiration)
	if !f.RevokedAt.IsZero() {
		s.unlist(f)
		return
	}
	if s.live[f.UserID] == nil {
		s.live[f.UserID] = make(map[string]struct{})
	}
	s.live[f.UserID][f.ID] = struct{}{}
}

// unlist takes a family off its user's list, and the list away with the last one.
func (s *Store) unlist(f store.TokenFamily) {
	delete(s.live[f.UserID], f.ID)
	if len(s.live[f.UserID]) == 0 {
		delete(s.live, f.UserID)
	}
}

func cloneFamily(f store.TokenFamily) store.TokenFamily {
	f.Scopes = slices.Clone(f.Scopes)
	return f
}

// DecideRequest records that an authorization request was decided.
func (s *Store) DecideRequest(ctx context.Context, requestID string, expires time.Time) error {
	fail := func(err error) error { return fmt.Errorf("deciding request: %w", err) }
	if err := s.lock(ctx); err != nil {
		return fail(err)
	}
	defer s.mu.Unlock()
	if err := s.decide(requestID, expires); err != nil {
		return fail(err)
	}
	return nil
}

func (s *Store) decide(requestID string, expires time.Time) error {
	if err := s.decided.Add(requestID, nil, cache.NoExpiration); err != nil {
		return store.ErrSpent
	}
	s.expiries.add(expiry{at: expires, id: requestID, request: true})
	return nil
}
