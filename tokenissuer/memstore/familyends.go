package memstore

import (
	"container/heap"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// maxDropped is how many expiries one DropFamilies looks at, so that nobody waits long for the lock meanwhile.
const maxDropped = 1000

// EndFamilies revokes the families that match.
func (s *Store) EndFamilies(ctx context.Context, which store.FamilyFilter, end store.Ending) ([]store.Revocation, error) {
	if err := s.lock(ctx); err != nil {
		return nil, fmt.Errorf("ending families: %w", err)
	}
	defer s.mu.Unlock()
	return s.endFamilies(which, end), nil
}

// endFamilies revokes the families that match and returns the revocations that it recorded. The caller holds the lock.
func (s *Store) endFamilies(which store.FamilyFilter, end store.Ending) []store.Revocation {
	var ended []store.Revocation
	for _, id := range s.toEnd(which) {
		f, known := s.family(id)
		switch {
		case known && f.RevokedAt.IsZero():
			ended = s.end(f, end, ended)
		case which.ID != "":
			ended = append(ended, store.Revocation{Kind: store.RevokeFamily, ID: id, ExpiresAt: end.Until})
		} // else it has just ended with its sign-in
	}
	s.record(ended...)
	return ended
}

// end revokes a family, and with a sign-in the host sessions that came of it. It appends the revocations to ended.
func (s *Store) end(f store.TokenFamily, end store.Ending, ended []store.Revocation) []store.Revocation {
	f.RevokedAt = end.At
	s.putFamily(f)
	s.logouts.end(f.ID, end.At)
	ended = append(ended, store.Revocation{Kind: store.RevokeFamily, ID: f.ID, ExpiresAt: f.RevokedUntil(end)})
	if f.Origin != store.BrowserSession {
		return ended
	}
	for _, id := range s.matching(store.FamilyFilter{SessionID: f.ID}, s.live[f.UserID], nil) {
		host, _ := s.family(id)
		ended = s.end(host, end, ended)
	}
	return ended
}

// endFamiliesOf revokes the families of a user, and those that the user has created for others.
func (s *Store) endFamiliesOf(userID string, end store.Ending) []store.Revocation {
	own := s.endFamilies(store.FamilyFilter{UserID: userID}, end)
	return append(own, s.endFamilies(store.FamilyFilter{ActorID: userID}, end)...)
}

// toEnd returns the ids of the families to revoke: the one that is named, though it were revoked or dropped, or those
// that match and are not revoked. A named family that is another's than the filter says is not meant, and origins alone mean
// nobody: a filter whose user was forgotten must not end everybody.
func (s *Store) toEnd(which store.FamilyFilter) []string {
	switch {
	case which.ID != "":
		if f, known := s.family(which.ID); known && !matches(f, which) {
			return nil
		}
		return []string{which.ID}
	case which.UserID != "":
		return s.matching(which, s.live[which.UserID], nil)
	case which.ClientID != "", which.ActorID != "", which.SessionID != "":
		var ids []string
		for _, listed := range s.live {
			ids = s.matching(which, listed, ids)
		}
		return ids
	}
	return nil
}

// matching appends to ids those of the listed families that match.
func (s *Store) matching(which store.FamilyFilter, listed map[string]struct{}, ids []string) []string {
	for id := range listed {
		if f, _ := s.family(id); matches(f, which) {
			ids = append(ids, id)
		}
	}
	return ids
}

// matches holds everything but the id, by which families are found, against the filter.
func matches(f store.TokenFamily, which store.FamilyFilter) bool {
	return (which.UserID == "" || which.UserID == f.UserID) &&
		(which.ClientID == "" || which.ClientID == f.ClientID) &&
		(which.ActorID == "" || which.ActorID == f.Actor.Subject) &&
		(which.SessionID == "" || which.SessionID == f.SessionID && f.Origin == store.HostSession) &&
		(which.UserVersion == "" || which.UserVersion == f.UserVersion) &&
		(which.Provider == "" || which.Provider == f.Provider) &&
		(which.ExceptSession == "" || which.ExceptSession != f.ID && (f.Origin != store.HostSession || which.ExceptSession != f.SessionID)) &&
		!slices.ContainsFunc(which.ExceptScopes, f.Scopes.Has) &&
		(len(which.Origins) == 0 || slices.Contains(which.Origins, f.Origin))
}

// DropFamilies deletes what expired before then, the longest expired first.
func (s *Store) DropFamilies(ctx context.Context, expiredBefore time.Time) (more bool, err error) {
	if err := s.lock(ctx); err != nil {
		return false, fmt.Errorf("dropping families: %w", err)
	}
	defer s.mu.Unlock()
	s.dropPersonalTokens(expiredBefore)
	for range maxDropped {
		if !s.expiries.dueBefore(expiredBefore) {
			return false, nil
		}
		s.drop(heap.Pop(&s.expiries).(expiry), expiredBefore)
	}
	return s.expiries.dueBefore(expiredBefore), nil
}

// drop deletes what the expiry names. A family whose code was redeemed has got another expiry since: then this one
// says nothing about it.
func (s *Store) drop(e expiry, expiredBefore time.Time) {
	if e.request {
		s.decided.Delete(e.id)
		return
	}
	if f, known := s.family(e.id); known && f.ExpiresAt.Before(expiredBefore) {
		s.unlist(f)
		s.families.Delete(f.ID)
		s.logouts.forget(f.ID)
	}
}

// expiry is when a family, or a decided request, can be dropped.
type expiry struct {
	at      time.Time
	id      string
	request bool
}

// expiryHeap is a heap.Interface: the soonest expiry is its first element.
type expiryHeap []expiry

func (h *expiryHeap) add(e expiry) { heap.Push(h, e) }

func (h expiryHeap) dueBefore(then time.Time) bool { return len(h) > 0 && h[0].at.Before(then) }

// Len is for package heap.
func (h expiryHeap) Len() int { return len(h) }

// Less is for package heap.
func (h expiryHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }

// Swap is for package heap.
func (h expiryHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push is for package heap.
func (h *expiryHeap) Push(e any) { *h = append(*h, e.(expiry)) }

// Pop is for package heap.
func (h *expiryHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = expiry{} // its id is not kept alive behind the end
	*h = (*h)[:last]
	return e
}
