package memstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Declarations lists what the configuration declared when it was loaded last, and what had been taken out by then.
func (s *Store) Declarations(ctx context.Context) ([]store.Declaration, []store.EndedDeclaration, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, nil, fmt.Errorf("reading declarations: %w", err)
	}
	return slices.Clone(s.declarations), slices.Clone(s.ended), nil
}

// PutDeclarations replaces both lists.
func (s *Store) PutDeclarations(ctx context.Context, declared []store.Declaration, ended []store.EndedDeclaration) error {
	if err := s.lock(ctx); err != nil {
		return fmt.Errorf("storing declarations: %w", err)
	}
	defer s.mu.Unlock()
	s.declarations, s.ended = slices.Clone(declared), slices.Clone(ended)
	return nil
}
