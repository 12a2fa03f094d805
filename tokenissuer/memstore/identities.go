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
	list := s.identitiesOf(userID)
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
	if kept, known := s.identities[nameOf(identity)]; known {
		if kept.UserID != identity.UserID {
			return fail(store.ErrTaken)
		}
		identity.LinkedAt, identity.Created = kept.LinkedAt, kept.Created
	}
	if identity.DeclaredEmail == "" {
		user, err := s.account(identity.UserID)
		if err != nil {
			return fail(err)
		}
		changed := *user.user
		changed.External = true
		s.putUser(changed, user.version)
	}
	s.identities[nameOf(identity)] = identity
	return nil
}

// TouchIdentity notes when an identity was last used, and at which provider.
func (s *Store) TouchIdentity(ctx context.Context, identity store.Identity) error {
	fail := func(err error) error { return fmt.Errorf("touching identity: %w", err) }
	if err := s.lock(ctx); err != nil {
		return fail(err)
	}
	defer s.mu.Unlock()
	kept, known := s.identities[nameOf(identity)]
	if !known || kept.UserID != identity.UserID {
		return fail(store.ErrNotFound)
	}
	kept.LastUsedAt, kept.Source, kept.Vouches = identity.LastUsedAt, identity.Source, identity.Vouches
	s.identities[nameOf(kept)] = kept
	return nil
}

// IdentitySources lists the sources of the identities of a provider.
func (s *Store) IdentitySources(ctx context.Context, provider string) ([]string, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, fmt.Errorf("listing sources of identities: %w", err)
	}
	var list []string
	for name, i := range s.identities {
		if name.provider == provider && !slices.Contains(list, i.Source) {
			list = append(list, i.Source)
		}
	}
	return list, nil
}

// ClaimIdentities gives a source to the identities of a provider that have none.
func (s *Store) ClaimIdentities(ctx context.Context, provider, source string) error {
	if err := s.lock(ctx); err != nil {
		return fmt.Errorf("claiming identities: %w", err)
	}
	defer s.mu.Unlock()
	for name, i := range s.identities {
		if name.provider == provider && i.Source == "" {
			i.Source = source
			s.identities[name] = i
		}
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
	identity.UserID, identity.DeclaredEmail = user.ID, ""
	s.identities[nameOf(identity)] = identity
	return nil
}

// UnlinkIdentity deletes an identity and ends what came of its provider.
func (s *Store) UnlinkIdentity(ctx context.Context, u store.Unlinking, end store.Ending) ([]store.Revocation, error) {
	fail := func(err error) ([]store.Revocation, error) { return nil, fmt.Errorf("unlinking identity: %w", err) }
	if err := s.lock(ctx); err != nil {
		return fail(err)
	}
	defer s.mu.Unlock()
	if err := u.Check(s.identitiesOf(u.UserID)); err != nil {
		return fail(err)
	}
	delete(s.identities, identityName{u.Provider, u.Subject})
	if user, err := s.account(u.UserID); err == nil { // else declared, or gone
		changed := *user.user
		changed.External = slices.ContainsFunc(s.identitiesOf(u.UserID), func(i store.Identity) bool { return i.DeclaredEmail == "" })
		if changed.Unlink(u.Provider) {
			s.putUser(changed, user.version+1)
			return append(s.ownerChanged(&changed, end), s.endFamiliesOf(u.UserID, end)...), nil
		}
		s.putUser(changed, user.version)
	}
	return s.endFamilies(u.Ends(), end), nil
}

// identitiesOf returns the identities of a user, in no order. The caller holds the lock.
func (s *Store) identitiesOf(userID string) (list []store.Identity) {
	for _, i := range s.identities {
		if i.UserID == userID {
			list = append(list, i)
		}
	}
	return list
}
