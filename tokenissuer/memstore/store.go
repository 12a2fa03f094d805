// Package memstore keeps everything in memory, for demos and tests: what it holds ends with the process. The same
// package holds Attempts, the bounded counter of failed attempts that every deployment uses.
//
// It stands on go-cache, which is safe for concurrent use but has no step of more than one operation: Get and then
// Delete hands one value to two callers. Every step here that reads and then writes therefore holds the Store's own
// lock, and values in the caches are never changed, only replaced.
package memstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patrickmn/go-cache"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var _ store.Store = (*Store)(nil)

var errClosed = errors.New("the store is closed")

// Store is a tokenissuer.Store in memory. The zero value is not usable; see New.
type Store struct {
	closed atomic.Bool

	mu sync.RWMutex
	// subjects holds every id that was ever given to a client or a user, so that none is given twice.
	subjects      *cache.Cache
	clients       *cache.Cache // id -> *tokenissuer.Client, never changed
	users         *cache.Cache // id -> account, its user never changed
	emails        *cache.Cache // address -> the same *tokenissuer.User
	identities    map[identityName]store.Identity
	organisations *cache.Cache // id -> *tokenissuer.Organisation, never changed
	families      *cache.Cache // id -> tokenissuer.TokenFamily, its scopes never changed
	decided       *cache.Cache // ids of authorization requests -> nothing
	consents      *cache.Cache // user id -> consents, never changed
	keys          *cache.Cache // id -> tokenissuer.StoredKey, its bytes never changed
	revocations   *cache.Cache // kind and id -> recorded
	keysVersion   int64
	bindKeys      func(store.KeyStep) (store.StoredKey, error) // nil: keys are not bound
	position      int64                                        // of the last recorded revocation
	purgeAt       time.Time                                    // when expired revocations are dropped next

	// live finds families by user without a look at all others: user id -> ids of those that are not revoked.
	live map[string]map[string]struct{}
	// expiries finds what DropFamilies drops in the same way.
	expiries expiryHeap

	declarations []store.Declaration
	ended        []store.EndedDeclaration
	logouts      logouts
	leases       map[string]lease
	attempts     *Attempts

	personalTokens personalTokens
}

// New returns an empty Store. It starts no goroutine.
func New() *Store {
	return &Store{
		subjects:      newCache(),
		clients:       newCache(),
		users:         newCache(),
		emails:        newCache(),
		identities:    make(map[identityName]store.Identity),
		organisations: newCache(),
		families:      newCache(),
		decided:       newCache(),
		consents:      newCache(),
		keys:          newCache(),
		revocations:   newCache(),
		live:          make(map[string]map[string]struct{}),
		leases:        make(map[string]lease),
		logouts:       newLogouts(),
		attempts:      NewAttempts(maxBuckets),

		personalTokens: make(personalTokens),
	}
}

// newCache has no interval: go-cache's janitor would be a goroutine that only the garbage collector ends. What expires
// on its own says so with its entry.
func newCache() *cache.Cache { return cache.New(cache.NoExpiration, 0) }

// Ping fails when the store is closed.
func (s *Store) Ping(ctx context.Context) error { return s.usable(ctx) }

// Close ends the store. Closing it again does nothing.
func (s *Store) Close() error {
	s.closed.Store(true)
	return nil
}

func (s *Store) usable(ctx context.Context) error {
	if s.closed.Load() {
		return errClosed
	}
	return ctx.Err()
}

// lock begins a step that writes. Who gets no error must unlock s.mu. A caller that has given up while it waited
// changes nothing.
func (s *Store) lock(ctx context.Context) error {
	s.mu.Lock()
	err := s.usable(ctx)
	if err != nil {
		s.mu.Unlock()
	}
	return err
}
