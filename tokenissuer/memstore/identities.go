package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// identityName is how an identity is found.
type identityName struct{ provider, subject string }

func nameOf(i store.Identity) identityName { return identityName{i.Provider, i.Subject} }

// UserByIdentity returns the identity of that name.
func (s *Store) UserByIdentity(ctx context.Context, provider, subject string) (store.Identity, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return store.Identity{}, fmt.Errorf("reading identity: %w", err)
	}
	found, known := s.identities[identityName{provider, subject}]
	if !known {
		return store.Identity{}, store.ErrNotFound
	}
	return found, nil
}

// Identities lists the identities of a user, by provider and subject.
func (s *Store) Identities(ctx context.Context, userID string) ([]store.Identity, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, fmt.Errorf("listing identities: %w", err)
	}
	var list []store.Identity
	for _, i := range s.identities {
		if i.UserID == userID {
			list = append(list, i)
		}
	}
	slices.SortFunc(list, func(a, b store.Identity) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Subject, b.Subject))
	})
	return list, nil
}

// LinkIdentity gives an identity to a user.
func (s *Store) LinkIdentity(ctx context.Context, identity store.Identity) error {
	fail := func(err error) error { return fmt.Errorf("linking identity: %w", err) }
	if err := s.lock(ctx); err != nil {
		return fail(err)
	}
	defer s.mu.Unlock()
	user, err := s.account(identity.UserID)
	if err != nil && !identity.UserDeclared {
		return fail(err)
	}
	kept, known := s.identities[nameOf(identity)]
	switch {
	case !known:
		kept = identity
		kept.UserDeclared = false
	case kept.UserID != identity.UserID:
		return fail(store.ErrTaken)
	}
	kept.LastUsedAt = identity.LastUsedAt
	s.identities[nameOf(identity)] = kept
	if err == nil {
		s.setExternal(user, true)
	}
	return nil
}

// AddExternalUser registers a user with its first identity.
func (s *Store) AddExternalUser(ctx context.Context, user *store.User, identity store.Identity, organisationDeclared bool) error {
	fail := func(err error) error { return fmt.Errorf("adding external user: %w", err) }
	if err := s.lock(ctx); err != nil {
		return fail(err)
	}
	defer s.mu.Unlock()
	if _, taken := s.identities[nameOf(identity)]; taken {
		return fail(store.ErrTaken)
	}
	added := *user
	added.External = true
	if err := s.addUser(added, organisationDeclared); err != nil {
		return err
	}
	identity.UserID, identity.UserDeclared = user.ID, false
	s.identities[nameOf(identity)] = identity
	return nil
}

// UnlinkIdentity deletes an identity.
func (s *Store) UnlinkIdentity(ctx context.Context, provider, subject string) error {
	fail := func(err error) error { return fmt.Errorf("unlinking identity: %w", err) }
	if err := s.lock(ctx); err != nil {
		return fail(err)
	}
	defer s.mu.Unlock()
	name := identityName{provider, subject}
	unlinked, known := s.identities[name]
	if !known {
		return fail(store.ErrNotFound)
	}
	delete(s.identities, name)
	user, err := s.account(unlinked.UserID)
	if err != nil {
		return nil // declared, or gone
	}
	for _, other := range s.identities {
		if other.UserID == unlinked.UserID {
			return nil
		}
	}
	s.setExternal(user, false)
	return nil
}

// setExternal stores whether a provider vouches for the user. The caller holds the lock.
func (s *Store) setExternal(a account, external bool) {
	changed := *a.user
	changed.External = external
	s.putUser(changed, a.version)
}
