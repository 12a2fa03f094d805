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
func (s *Store) AddFamily(ctx context.Context, family *store.TokenFamily) (store.Outcome, error) {
	if err := s.lock(ctx); err != nil {
		return 0, fmt.Errorf("adding family: %w", err)
	}
	defer s.mu.Unlock()
	switch {
	case !s.sessionStands(family):
		return store.Revoked, nil
	case !s.userStands(family) || !s.actorStands(family) || !s.identityStands(family):
		return store.UserChanged, nil
	}
	if _, exists := s.families.Get(family.ID); exists {
		return 0, errors.New("adding family: there is a family of this id")
	}
	if id := family.Code.RequestID; id != "" && !s.decide(id, family.ExpiresAt.Add(decidedRequestRetention)) {
		return store.Replayed, nil
	}
	kept := cloneFamily(*family)
	kept.Preconditions, kept.TellsLogout = store.Preconditions{}, false
	if session, known := s.family(family.SessionID); family.TellsLogout && known {
		s.logouts.add(store.Logout{SessionID: session.ID, ClientID: family.ClientID, UserID: session.UserID})
	}
	s.putFamily(kept)
	s.expiries.add(expiry{at: family.ExpiresAt, id: family.ID})
	return store.Done, nil
}

// userStands reports whether the family's user is in the state in which the family was granted.
func (s *Store) userStands(f *store.TokenFamily) bool {
	if f.UserDeclared {
		return true
	}
	found, err := s.account(f.UserID)
	return err == nil && found.user.IsActive() && found.user.Version == f.UserVersion
}

// sessionStands reports whether the session in which the family was approved, if there is one, has not ended.
func (s *Store) sessionStands(f *store.TokenFamily) bool {
	if f.Preconditions.SessionID == "" {
		return true
	}
	session, known := s.family(f.Preconditions.SessionID)
	return known && session.RevokedAt.IsZero()
}

// actorStands reports whether the stored actor, if there is one, is in the state in which it was read.
func (s *Store) actorStands(f *store.TokenFamily) bool {
	if f.Preconditions.ActorVersion == "" {
		return true
	}
	actor, err := s.account(f.Actor.Subject)
	return err == nil && actor.user.IsActive() && actor.user.Version == f.Preconditions.ActorVersion
}

// identityStands reports whether the identity with which the user has signed in, if there is one, is the user's.
func (s *Store) identityStands(f *store.TokenFamily) bool {
	identity, known := s.identities[identityName{f.Provider, f.Preconditions.Subject}]
	return f.Preconditions.Subject == "" || known && identity.UserID == f.UserID
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
func (s *Store) RedeemCode(ctx context.Context, id string, r store.Redemption) (store.Outcome, *store.TokenFamily, error) {
	return s.spend(ctx, "redeeming code", id,
		func(f *store.TokenFamily) store.Outcome { return f.Redeemable(r.At, r.MaxFailures) },
		func(f *store.TokenFamily) {
			f.Code.SpentAt, f.RotatedAt = r.At, r.At
			f.Generation, f.ExpiresAt = r.Generation, r.ExpiresAt
			s.expiries.add(expiry{at: r.ExpiresAt, id: id})
		})
}

// CountCodeFailure counts a wrong verifier.
func (s *Store) CountCodeFailure(ctx context.Context, id string) error {
	if err := s.lock(ctx); err != nil {
		return fmt.Errorf("counting code failure: %w", err)
	}
	defer s.mu.Unlock()
	if f, known := s.family(id); known {
		f.Code.Failures++
		s.putFamily(f)
	}
	return nil
}

// RotateRefreshToken makes the next generation the newest.
func (s *Store) RotateRefreshToken(ctx context.Context, id string, generation int64, r store.Rotation) (store.Outcome, *store.TokenFamily, error) {
	return s.spend(ctx, "rotating refresh token", id,
		func(f *store.TokenFamily) store.Outcome { return f.Rotatable(generation, r.At) },
		func(f *store.TokenFamily) {
			f.Generation, f.RotatedAt, f.RotatedBy = generation+1, r.At, r.By
			s.record(r.Ended...)
		})
}

// spend takes a single-use step of a family, unless the family or its user speaks against it.
func (s *Store) spend(ctx context.Context, step, id string, judge func(*store.TokenFamily) store.Outcome,
	take func(*store.TokenFamily),
) (store.Outcome, *store.TokenFamily, error) {
	if err := s.lock(ctx); err != nil {
		return 0, nil, fmt.Errorf("%s: %w", step, err)
	}
	defer s.mu.Unlock()
	f, known := s.family(id)
	if !known {
		return store.Missing, nil, nil
	}
	outcome := judge(&f)
	if outcome == store.Done && !s.userStands(&f) {
		outcome = store.UserChanged
	}
	if outcome != store.Done {
		copied := cloneFamily(f)
		return outcome, &copied, nil
	}
	take(&f)
	s.putFamily(f)
	return store.Done, nil, nil
}

// TouchFamily notes when a session was last seen.
func (s *Store) TouchFamily(ctx context.Context, id string, at time.Time) (store.Outcome, error) {
	if err := s.lock(ctx); err != nil {
		return 0, fmt.Errorf("touching family: %w", err)
	}
	defer s.mu.Unlock()
	f, known := s.family(id)
	if !known || !f.RevokedAt.IsZero() {
		return store.Revoked, nil
	}
	if at.After(f.RotatedAt) {
		f.RotatedAt = at
		s.putFamily(f)
	}
	return store.Done, nil
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
	f.Scopes, f.Audience = slices.Clone(f.Scopes), slices.Clone(f.Audience)
	return f
}

// DecideRequest records that an authorization request was decided.
func (s *Store) DecideRequest(ctx context.Context, requestID string, expires time.Time) (store.Outcome, error) {
	if err := s.lock(ctx); err != nil {
		return 0, fmt.Errorf("deciding request: %w", err)
	}
	defer s.mu.Unlock()
	if !s.decide(requestID, expires) {
		return store.Replayed, nil
	}
	return store.Done, nil
}

// decide reports whether the request is decided now, and was not before. The caller holds the lock.
func (s *Store) decide(requestID string, expires time.Time) bool {
	if s.decided.Add(requestID, nil, cache.NoExpiration) != nil {
		return false
	}
	s.expiries.add(expiry{at: expires, id: requestID, request: true})
	return true
}
