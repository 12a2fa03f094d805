package memstore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// personalTokens are the personal access tokens by their digests. None is ever changed, only replaced.
type personalTokens map[[sha256.Size]byte]*store.PersonalToken

// AddPersonalToken stores a token.
func (s *Store) AddPersonalToken(ctx context.Context, token *store.PersonalToken, userVersion string) error {
	fail := func(err error) error { return fmt.Errorf("adding personal access token: %w", err) }
	if err := s.lock(ctx); err != nil {
		return fail(err)
	}
	defer s.mu.Unlock()
	owner, err := s.account(token.UserID)
	if !token.UserDeclared && (err != nil || owner.user.Version != userVersion || !owner.user.IsActive()) {
		return fail(store.ErrNotFound)
	}
	_, taken := s.personalTokens[token.Digest]
	for _, t := range s.personalTokens {
		taken = taken || t.ID == token.ID
	}
	if taken {
		return fail(store.ErrTaken)
	}
	added := *token
	added.Scopes, added.Audience = slices.Clone(token.Scopes), slices.Clone(token.Audience)
	s.personalTokens[added.Digest] = &added
	return nil
}

// PersonalToken returns the token of a digest.
func (s *Store) PersonalToken(ctx context.Context, digest [sha256.Size]byte) (*store.PersonalToken, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, fmt.Errorf("reading personal access token: %w", err)
	}
	if t := s.personalTokens[digest]; t != nil {
		return t, nil
	}
	return nil, store.ErrNotFound
}

// PersonalTokens lists the tokens of a user, or of everybody.
func (s *Store) PersonalTokens(ctx context.Context, userID string) ([]*store.PersonalToken, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, fmt.Errorf("listing personal access tokens: %w", err)
	}
	var list []*store.PersonalToken
	for _, t := range s.personalTokens {
		if userID == "" || t.UserID == userID {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b *store.PersonalToken) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return list, nil
}

// TouchPersonalToken notes the day of the last use.
func (s *Store) TouchPersonalToken(ctx context.Context, id string, day time.Time) error {
	if err := s.lock(ctx); err != nil {
		return fmt.Errorf("touching personal access token: %w", err)
	}
	defer s.mu.Unlock()
	s.changePersonalTokens(store.PersonalTokenFilter{ID: id}, func(t *store.PersonalToken) {
		if day.After(t.LastUsedAt) {
			t.LastUsedAt = day
		}
	})
	return nil
}

// EndPersonalTokens deletes the tokens that match.
func (s *Store) EndPersonalTokens(ctx context.Context, which store.PersonalTokenFilter, end store.Ending) ([]store.Revocation, error) {
	if err := s.lock(ctx); err != nil {
		return nil, fmt.Errorf("ending personal access tokens: %w", err)
	}
	defer s.mu.Unlock()
	return s.endPersonalTokens(which, end), nil
}

// endPersonalTokens deletes the tokens that match and returns the revocations that it recorded. The caller holds the lock.
func (s *Store) endPersonalTokens(which store.PersonalTokenFilter, end store.Ending) (ended []store.Revocation) {
	for digest, t := range s.personalTokens {
		if isMeant(t, which) {
			delete(s.personalTokens, digest)
			ended = append(ended, store.RevocationOfPersonalToken(t.ID, time.Time{}, end))
		}
	}
	s.record(ended...)
	return ended
}

// ownerChanged ends the tokens of a user who is not active any more, or notes the change of those that go on. It returns the revocations
// that it recorded. The caller holds the lock.
func (s *Store) ownerChanged(owner *store.User, end store.Ending) (ended []store.Revocation) {
	all := store.PersonalTokenFilter{UserID: owner.ID}
	if !owner.IsActive() {
		return s.endPersonalTokens(all, end)
	}
	s.changePersonalTokens(all, func(t *store.PersonalToken) {
		t.ChangedAt = t.NextChange(end.At)
		ended = append(ended, store.RevocationOfPersonalToken(t.ID, t.ChangedAt, end))
	})
	s.record(ended...)
	return ended
}

// changePersonalTokens replaces the tokens that match by changed copies. The caller holds the lock.
func (s *Store) changePersonalTokens(which store.PersonalTokenFilter, change func(*store.PersonalToken)) {
	for digest, t := range s.personalTokens {
		if isMeant(t, which) {
			changed := *t
			change(&changed)
			s.personalTokens[digest] = &changed
		}
	}
}

func isMeant(t *store.PersonalToken, which store.PersonalTokenFilter) bool {
	return which != (store.PersonalTokenFilter{}) && (which.ID == "" || which.ID == t.ID) && (which.UserID == "" || which.UserID == t.UserID)
}

// dropPersonalTokens deletes those that expired before then. The caller holds the lock.
func (s *Store) dropPersonalTokens(expiredBefore time.Time) {
	for digest, t := range s.personalTokens {
		if t.ExpiresAt.Before(expiredBefore) {
			delete(s.personalTokens, digest)
		}
	}
}
