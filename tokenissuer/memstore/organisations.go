package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/patrickmn/go-cache"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Organisation returns the organisation of that id.
func (s *Store) Organisation(ctx context.Context, id string) (*store.Organisation, error) {
	if err := s.usable(ctx); err != nil {
		return nil, fmt.Errorf("reading organisation: %w", err)
	}
	if found, ok := s.organisations.Get(id); ok {
		return found.(*store.Organisation), nil
	}
	return nil, store.ErrNotFound
}

// Organisations lists every organisation, by the bytes of its id.
func (s *Store) Organisations(ctx context.Context) ([]*store.Organisation, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, fmt.Errorf("listing organisations: %w", err)
	}
	items := s.organisations.Items()
	list := make([]*store.Organisation, 0, len(items))
	for _, item := range items {
		list = append(list, item.Object.(*store.Organisation))
	}
	slices.SortFunc(list, func(a, b *store.Organisation) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}

// AddOrganisation registers an organisation.
func (s *Store) AddOrganisation(ctx context.Context, organisation *store.Organisation) error {
	fail := func(err error) error { return fmt.Errorf("adding organisation: %w", err) }
	if err := s.lock(ctx); err != nil {
		return fail(err)
	}
	defer s.mu.Unlock()
	added := *organisation
	added.Declared = false // only the configuration declares
	if err := s.organisations.Add(added.ID, &added, cache.NoExpiration); err != nil {
		return fail(store.ErrTaken)
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
		return fail(store.ErrNotFound)
	}
	for _, item := range s.users.Items() {
		if item.Object.(account).user.Organisation == id {
			return fail(store.ErrInUse)
		}
	}
	s.organisations.Delete(id)
	return nil
}
