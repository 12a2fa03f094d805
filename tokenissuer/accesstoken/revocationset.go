package accesstoken

import (
	"crypto/sha256"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// RevocationSet answers on every request whether a token is revoked. It lives in memory and is fed by the store.
// The zero value is not usable; see NewRevocationSet.
type RevocationSet struct {
	mu      sync.RWMutex
	entries map[revocationKey]revocationEntry
	most    int // entries that there were at once since the map was made

	generation atomic.Uint64
	freshAt    atomic.Int64 // Unix seconds of the last successful look at the store
}

// revocationKey is a digest, so that an entry costs the same whatever the id's length.
type revocationKey [16]byte

// revocationEntry holds Unix seconds. Times before 1970 and after 2106 do not occur.
type revocationEntry struct{ issuedUntil, expiresAt uint32 }

// NewRevocationSet returns an empty set that has never been fresh.
func NewRevocationSet() *RevocationSet {
	s := &RevocationSet{entries: make(map[revocationKey]revocationEntry)}
	s.freshAt.Store(math.MinInt64)
	return s
}

func keyOf(kind store.RevocationKind, id string) revocationKey {
	digest := sha256.Sum256([]byte(string(kind) + "\x00" + id))
	return revocationKey(digest[:16])
}

// addedAtOnce is how many entries go into the set, or out of it, before the gate gets its turn.
const addedAtOnce = 256

// Add puts revocations into the set. Of two for one id the wider wins.
func (s *RevocationSet) Add(revocations ...store.Revocation) {
	if len(revocations) == 0 {
		return
	}
	for some := range slices.Chunk(revocations, addedAtOnce) {
		s.add(some)
	}
	// The generation moves after the entries are in place: who sees the new one sees the entries too.
	s.generation.Add(1)
}

func (s *RevocationSet) add(revocations []store.Revocation) {
	keys := make([]revocationKey, len(revocations))
	for i, r := range revocations {
		keys[i] = keyOf(r.Kind, r.ID)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range revocations {
		entry := revocationEntry{issuedUntil: math.MaxUint32, expiresAt: clampSeconds(r.ExpiresAt)}
		if !r.IssuedUntil.IsZero() {
			entry.issuedUntil = clampSeconds(r.IssuedUntil)
		}
		old := s.entries[keys[i]]
		s.entries[keys[i]] = revocationEntry{max(old.issuedUntil, entry.issuedUntil), max(old.expiresAt, entry.expiresAt)}
	}
	s.most = max(s.most, len(s.entries))
}

func clampSeconds(t time.Time) uint32 {
	return uint32(min(max(t.Unix(), 0), math.MaxUint32))
}

// Revoked reports whether the token is revoked by any of its names.
func (s *RevocationSet) Revoked(t *AccessToken) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.entries) == 0 {
		return false
	}
	user, server := t.Subject, ""
	if t.IsServerToken() {
		user, server = "", t.ClientID
	}
	origin := t.Origin()
	if origin.Issuer != t.Issuer {
		origin.ID = "" // what another issuer calls its tokens
	}
	issued := clampSeconds(origin.IssuedAt)
	return s.hits(store.RevokeToken, t.ID, issued) || s.hits(store.RevokeToken, origin.ID, issued) ||
		s.hits(store.RevokeFamily, t.FamilyID, issued) ||
		origin.ID != "" && s.hits(store.RevokeGenerations, t.FamilyID, clampSeconds(time.Unix(GenerationOf(origin.ID), 0))) ||
		s.hits(store.RevokeUser, user, issued) || s.hits(store.RevokeServerTokens, server, issued) || s.hitsActor(t, issued) ||
		s.hits(store.RevokeClient, t.ClientID, issued) ||
		s.hits(store.RevokeOrganisation, t.Organisation, issued) ||
		s.hits(store.RevokeKey, t.KeyID, issued)
}

// RevokedFamily reports whether a family of tokens is revoked, with its user, its client or the user's organisation.
func (s *RevocationSet) RevokedFamily(f *store.TokenFamily, organisation string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	born := clampSeconds(f.CreatedAt)
	return s.hits(store.RevokeFamily, f.ID, born) || s.hits(store.RevokeUser, f.UserID, born) || s.hits(store.RevokeUser, f.Actor.Subject, born) ||
		s.hits(store.RevokeClient, f.ClientID, born) || s.hits(store.RevokeOrganisation, organisation, born)
}

// hitsActor reports whether somebody who acts with the token was revoked: what an admin has created ends with the admin.
func (s *RevocationSet) hitsActor(t *AccessToken, issued uint32) bool {
	return slices.ContainsFunc(t.ActorChain(), func(a store.Actor) bool { return s.hits(store.RevokeUser, a.Subject, issued) })
}

func (s *RevocationSet) hits(kind store.RevocationKind, id string, issued uint32) bool {
	if id == "" {
		return false
	}
	entry, ok := s.entries[keyOf(kind, id)]
	return ok && issued <= entry.issuedUntil
}

// Len is how many entries the set holds.
func (s *RevocationSet) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.entries)
}

// Generation changes whenever something is added. Whoever found a token not revoked at a generation need not ask
// again while it stands.
func (s *RevocationSet) Generation() uint64 { return s.generation.Load() }

// MarkFresh records that at that time the set held all that the store had.
func (s *RevocationSet) MarkFresh(at time.Time) { s.freshAt.Store(at.Unix()) }

// Age is how long ago the set was last known to be complete. A time in the future, as after a clock was set back, says
// nothing, and counts as never.
func (s *RevocationSet) Age(now time.Time) time.Duration {
	fresh := s.freshAt.Load()
	age := time.Duration(now.Unix()-fresh) * time.Second
	if fresh == math.MinInt64 || age < -store.Leeway {
		return math.MaxInt64
	}
	return age
}

// Expire drops entries whose last token has expired, and returns how many are left. The gate goes on meanwhile.
func (s *RevocationSet) Expire(now time.Time) int {
	limit := clampSeconds(now)
	for doomed := range slices.Chunk(s.expired(limit), addedAtOnce) {
		s.drop(doomed, limit)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.most > leastShrunk && len(s.entries) < s.most/4 {
		// A map keeps the room that it once had.
		s.entries, s.most = maps.Collect(maps.All(s.entries)), len(s.entries)
	}
	return len(s.entries)
}

// leastShrunk is the size from which on a set that has become much smaller gives its memory back.
const leastShrunk = 1 << 16

func (s *RevocationSet) expired(limit uint32) (doomed []revocationKey) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for key, entry := range s.entries {
		if entry.expiresAt < limit {
			doomed = append(doomed, key)
		}
	}
	return doomed
}

// drop looks again: an entry may have been widened since.
func (s *RevocationSet) drop(doomed []revocationKey, limit uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range doomed {
		if s.entries[key].expiresAt < limit {
			delete(s.entries, key)
		}
	}
}
