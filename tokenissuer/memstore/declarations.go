package memstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

// Declarations lists what the configuration declared when it was loaded last.
func (s *Store) Declarations(ctx context.Context) ([]tokenissuer.Declaration, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, fmt.Errorf("reading declarations: %w", err)
	}
	return slices.Clone(s.declarations), nil
}

// PutDeclarations replaces the list.
func (s *Store) PutDeclarations(ctx context.Context, declared []tokenissuer.Declaration) error {
	if err := s.lock(ctx); err != nil {
		return fmt.Errorf("storing declarations: %w", err)
	}
	defer s.mu.Unlock()
	s.declarations = slices.Clone(declared)
	return nil
}
