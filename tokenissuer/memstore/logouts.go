package memstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// logouts are the clients of sessions: session id -> client id -> what is to be told. Those of a session move from one
// map to the other when it ends.
type logouts struct {
	living, due map[string]map[string]store.Logout
}

func newLogouts() logouts {
	return logouts{living: make(map[string]map[string]store.Logout), due: make(map[string]map[string]store.Logout)}
}

// add notes a client of a session that lives. One that was noted before stays.
func (l logouts) add(told store.Logout) {
	if l.living[told.SessionID] == nil {
		l.living[told.SessionID] = make(map[string]store.Logout)
	}
	l.living[told.SessionID][told.ClientID] = told
}

// end makes the logouts of a session due.
func (l logouts) end(sessionID string, at time.Time) {
	clients, some := l.living[sessionID]
	if !some {
		return
	}
	for id, logout := range clients {
		logout.DueAt, logout.EndedAt = at, at
		clients[id] = logout
	}
	l.due[sessionID] = clients
	delete(l.living, sessionID)
}

// forget drops what is noted of a session.
func (l logouts) forget(sessionID string) {
	delete(l.living, sessionID)
	delete(l.due, sessionID)
}

// DueLogouts lists what is due, the longest due first.
func (s *Store) DueLogouts(ctx context.Context, at time.Time, limit int) ([]store.Logout, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, fmt.Errorf("listing due logouts: %w", err)
	}
	var list []store.Logout
	for _, clients := range s.logouts.due {
		for _, logout := range clients {
			if !logout.DueAt.After(at) {
				list = append(list, logout)
			}
		}
	}
	slices.SortFunc(list, func(a, b store.Logout) int {
		return cmp.Or(a.DueAt.Compare(b.DueAt), cmp.Compare(a.SessionID, b.SessionID), cmp.Compare(a.ClientID, b.ClientID))
	})
	return list[:min(limit, len(list))], nil
}

// PostponeLogout makes a logout due later, unless another caller has done so since it was listed.
func (s *Store) PostponeLogout(ctx context.Context, logout store.Logout, next time.Time) error {
	if err := s.lock(ctx); err != nil {
		return fmt.Errorf("postponing logout: %w", err)
	}
	defer s.mu.Unlock()
	kept, known := s.logouts.due[logout.SessionID][logout.ClientID]
	if !known || !kept.DueAt.Equal(logout.DueAt) {
		return fmt.Errorf("postponing logout: %w", store.ErrNotFound)
	}
	kept.DueAt, kept.Attempts = next, logout.Attempts
	s.logouts.due[logout.SessionID][logout.ClientID] = kept
	return nil
}

// DropLogout deletes a logout that is due.
func (s *Store) DropLogout(ctx context.Context, logout store.Logout) error {
	if err := s.lock(ctx); err != nil {
		return fmt.Errorf("dropping logout: %w", err)
	}
	defer s.mu.Unlock()
	clients := s.logouts.due[logout.SessionID]
	delete(clients, logout.ClientID)
	if len(clients) == 0 {
		delete(s.logouts.due, logout.SessionID)
	}
	return nil
}

// SessionClients lists the clients that are to be told when the sessions end.
func (s *Store) SessionClients(ctx context.Context, sessionIDs ...string) (map[string][]string, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, fmt.Errorf("listing the clients of sessions: %w", err)
	}
	found := make(map[string][]string)
	for _, id := range sessionIDs {
		if clients := s.logouts.living[id]; len(clients) > 0 {
			found[id] = slices.Sorted(maps.Keys(clients))
		}
	}
	return found, nil
}
