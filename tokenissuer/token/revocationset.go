package token

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

// RevocationSet reports on every request whether a token is revoked. It is in memory and is fed by the store. It is safe
// for concurrent use. Create one with NewRevocationSet.
type RevocationSet struct {
	mu      sync.RWMutex
	entries map[revocationKey]revocationEntry
	peakLen int // largest len(entries) since the map was made

	generation atomic.Uint64
	freshAt    atomic.Int64 // Unix seconds of the last successful poll of the store
}

// revocationKey is a digest, so that all entries have the same size.
type revocationKey [16]byte

// revocationEntry holds Unix seconds, clamped to the years 1970 to 2106.
type revocationEntry struct{ issuedUntil, expiresAt uint32 }

// NewRevocationSet returns an empty set whose age is infinite.
func NewRevocationSet() *RevocationSet {
	s := &RevocationSet{entries: make(map[revocationKey]revocationEntry)}
	s.freshAt.Store(math.MinInt64)
	return s
}

func keyOf(kind store.RevocationKind, id string) revocationKey {
	digest := sha256.Sum256([]byte(string(kind) + "\x00" + id))
	return revocationKey(digest[:16])
}

// addedAtOnce is how many entries are added or removed while holding the lock.
const addedAtOnce = 256

// Add adds revocations. Of two for the same id, the later times win.
func (s *RevocationSet) Add(revocations ...store.Revocation) {
	if len(revocations) == 0 {
		return
	}
	for some := range slices.Chunk(revocations, addedAtOnce) {
		s.add(some)
	}
	// Last, so that a caller that sees the new generation sees the entries too.
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
	s.peakLen = max(s.peakLen, len(s.entries))
}

func clampSeconds(t time.Time) uint32 {
	return uint32(min(max(t.Unix(), 0), math.MaxUint32))
}

// Revoked reports whether the token, or anything it belongs to, is revoked.
func (s *RevocationSet) Revoked(t *AccessToken) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.entries) == 0 {
		return false
	}
	user, server := t.Subject, ""
	origin := t.Origin()
	if t.IsServerToken() {
		user, server = "", origin.ClientID
	}
	if origin.Issuer != t.Issuer {
		origin.ID = "" // another issuer's jti means nothing here
	}
	issued := clampSeconds(origin.IssuedAt)
	return s.hits(store.RevokeToken, t.ID, issued) || s.hits(store.RevokeToken, origin.ID, issued) ||
		s.hits(store.RevokeFamily, t.FamilyID, issued) ||
		origin.ID != "" && s.hits(store.RevokeGenerations, t.FamilyID, clampSeconds(time.Unix(GenerationOf(origin.ID), 0))) ||
		s.hits(store.RevokeUser, user, issued) || s.hits(store.RevokeServerTokens, server, issued) || s.hitsActor(t, issued) ||
		s.hits(store.RevokeClient, origin.ClientID, issued) || t.IsExchanged() && s.hitsExchange(t) ||
		s.hits(store.RevokeOrganisation, t.Organisation, issued) ||
		s.hits(store.RevokeKey, t.KeyID, issued)
}

// hitsExchange reports whether one of the exchanges that led to a token is revoked: a token between, the key that signed one, or all that
// a client obtained by exchanges until then.
func (s *RevocationSet) hitsExchange(t *AccessToken) bool {
	issued := clampSeconds(t.IssuedAt)
	return slices.ContainsFunc(t.extra.texts(OriginVia), func(id string) bool { return s.hits(store.RevokeToken, id, issued) }) ||
		slices.ContainsFunc(t.extra.texts(OriginKeys), func(kid string) bool { return s.hits(store.RevokeKey, kid, issued) }) ||
		len(t.Actors) > 0 && slices.ContainsFunc(t.Actors[1:], func(a store.Actor) bool { return s.hits(store.RevokeCameOf, a.ClientID, issued) }) ||
		!t.IsSwapped() && s.hits(store.RevokeServerTokens, t.ClientID, issued)
}

// RevokedFamily reports whether the family, its user, its client or the user's organisation is revoked.
func (s *RevocationSet) RevokedFamily(f *store.TokenFamily, organisation string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	born := clampSeconds(f.CreatedAt)
	return s.hits(store.RevokeFamily, f.ID, born) || s.hits(store.RevokeUser, f.User.ID, born) || s.hits(store.RevokeUser, f.Actor.Subject, born) ||
		s.hits(store.RevokeClient, f.ClientID, born) || s.hits(store.RevokeOrganisation, organisation, born)
}

// hitsActor reports whether an actor of the token is revoked: tokens that an admin obtained end with the admin, and those that a client
// exchanged end with the client. A client that was disabled and enabled again cannot exchange tokens from before.
func (s *RevocationSet) hitsActor(t *AccessToken, issued uint32) bool {
	return slices.ContainsFunc(t.Actors, func(a store.Actor) bool {
		return a != ExchangeActor && (s.hits(store.RevokeUser, a.Subject, issued) || s.hits(store.RevokeClient, a.ClientID, issued))
	})
}

func (s *RevocationSet) hits(kind store.RevocationKind, id string, issued uint32) bool {
	if id == "" {
		return false
	}
	entry, ok := s.entries[keyOf(kind, id)]
	return ok && issued <= entry.issuedUntil
}

// Passed returns at, or the beginning of the next second if the tokens of the user or the organisation are revoked up to the second of at.
// A token issued at the returned time is not revoked by it.
func (s *RevocationSet) Passed(at time.Time, user, organisation string) time.Time {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, key := range [...]revocationKey{keyOf(store.RevokeUser, user), keyOf(store.RevokeOrganisation, organisation)} {
		if entry, ok := s.entries[key]; ok && entry.issuedUntil == clampSeconds(at) {
			return at.Truncate(time.Second).Add(time.Second)
		}
	}
	return at
}

// Len returns the number of entries.
func (s *RevocationSet) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.entries)
}

// Generation changes whenever entries are added. A token that was not revoked at a generation is still not revoked while
// the generation is the same.
func (s *RevocationSet) Generation() uint64 { return s.generation.Load() }

// MarkFresh records that the set was complete at that time.
func (s *RevocationSet) MarkFresh(at time.Time) { s.freshAt.Store(at.Unix()) }

// Age returns the time since the set was last known to be complete. A time in the future, as after a clock was set back,
// counts as never.
func (s *RevocationSet) Age(now time.Time) time.Duration {
	fresh := s.freshAt.Load()
	age := time.Duration(now.Unix()-fresh) * time.Second
	if fresh == math.MinInt64 || age < -store.Leeway {
		return math.MaxInt64
	}
	return age
}

// Expire removes entries whose last token has expired, and returns how many are left. It does not block Revoked for long.
func (s *RevocationSet) Expire(now time.Time) int {
	limit := clampSeconds(now)
	for doomed := range slices.Chunk(s.expired(limit), addedAtOnce) {
		s.drop(doomed, limit)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.peakLen > leastShrunk && len(s.entries) < s.peakLen/4 {
		// Maps never shrink.
		s.entries, s.peakLen = maps.Collect(maps.All(s.entries)), len(s.entries)
	}
	return len(s.entries)
}

// leastShrunk is the size above which a set that has become much smaller is reallocated.
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

// drop checks again: an entry may have been extended since.
func (s *RevocationSet) drop(doomed []revocationKey, limit uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range doomed {
		if s.entries[key].expiresAt < limit {
			delete(s.entries, key)
		}
	}
}
