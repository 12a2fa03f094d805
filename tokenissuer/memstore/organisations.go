package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/patrickmn/go-cache"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

// Organisation returns the organisation of that id.
func (s *Store) Organisation(ctx context.Context, id string) (*tokenissuer.Organisation, error) {
	if err := s.usable(ctx); err != nil {
		return nil, fmt.Errorf("reading organisation: %w", err)
	}
	if found, ok := s.organisations.Get(id); ok {
		return found.(*tokenissuer.Organisation), nil
	}
	return nil, tokenissuer.ErrNotFound
}

// Organisations lists every organisation, by the bytes of its id.
func (s *Store) Organisations(ctx context.Context) ([]*tokenissuer.Organisation, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, fmt.Errorf("listing organisations: %w", err)
	}
	items := s.organisations.Items()
	list := make([]*tokenissuer.Organisation, 0, len(items))
	for _, item := range items {
		list = append(list, item.Object.(*tokenissuer.Organisation))
	}
	slices.SortFunc(list, func(a, b *tokenissuer.Organisation) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}

// AddOrganisation registers an organisation.
func (s *Store) AddOrganisation(ctx context.Context, organisation *tokenissuer.Organisation) error {
	fail := func(err error) error { return fmt.Errorf("adding organisation: %w", err) }
	if err := s.lock(ctx); err != nil {
		return fail(err)
	}
	defer s.mu.Unlock()
	added := *organisation
	added.Declared = false // only the configuration declares
	if err := s.organisations.Add(added.ID, &added, cache.NoExpiration); err != nil {
		return fail(tokenissuer.ErrTaken)
	}
	return nil
}

// RemoveOrganisation deletes an organisation that has no users.
func (s *Store) RemoveOrganisation(ctx context.Context, id string) error {
	fail := func(err error) error { return fmt.Errorf("removing organisation: %w", err) }
	if err := s.lock(ctx); err != nil {
		return fail(err)
	}
	defer s.mu.Unlock()
	if _, stored := s.organisations.Get(id); !stored {
		return fail(tokenissuer.ErrNotFound)
	}
	for _, item := range s.users.Items() {
		if item.Object.(account).user.Organisation == id {
			return fail(tokenissuer.ErrInUse)
		}
	}
	s.organisations.Delete(id)
	return nil
}
