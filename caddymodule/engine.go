package caddymodule

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/memstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
)

// engines holds what outlives a reload, by all of its settings: a configuration with the same settings goes on with the
// same database handle, keys, sessions, revocations and verified tokens.
var engines = caddy.NewUsagePool()

// engineSettings decide whether two configurations can share an engine. It is the pool's key.
type engineSettings struct {
	store     string // "sqlite" or "memory"
	path      string
	issuer    string
	algorithm tokenissuer.Algorithm
	sealer    string // the id of the key-encryption key
	staleness time.Duration
}

const (
	openTimeout     = 5 * time.Second
	feedInterval    = time.Second
	feedTimeout     = 2 * time.Second
	maxAttempts     = 65536 // buckets of failed attempts
	shutdownTimeout = 10 * time.Second
)

// engine is the part of an issuer that is made of state.
type engine struct {
	settings engineSettings
	keySeal  *tokenissuer.KeySealer
	now      func() time.Time

	keys        *tokenissuer.KeySet
	revocations *tokenissuer.RevocationSet
	verifier    *tokenissuer.Verifier
	attempts    *memstore.Attempts
	passwords   *tokenissuer.Passwords

	opening sync.Mutex
	store   tokenissuer.Store      // set once the engine has opened
	master  *tokenissuer.MasterKey // likewise
	feed    revocationFeed         // likewise
	stop    context.CancelFunc     // likewise
	stopped chan struct{}

	inFlight atomic.Int64
	closing  atomic.Bool
}

// newEngine prepares an engine. It opens nothing, because `caddy validate` comes this far.
func newEngine(settings engineSettings, sealer *tokenissuer.KeySealer) *engine {
	e := &engine{
		settings: settings, keySeal: sealer, now: clock,
		keys:        new(tokenissuer.KeySet),
		revocations: tokenissuer.NewRevocationSet(),
		attempts:    memstore.NewAttempts(maxAttempts),
		passwords:   tokenissuer.NewPasswords(),
	}
	e.verifier = tokenissuer.NewVerifier(settings.issuer, e.keys, e.revocations, settings.staleness, e.now)
	return e
}

// log returns the logger of the configuration that runs now: the engine outlives the one that made it, and with that one
// its log file is closed.
func (*engine) log() *zap.Logger { return caddy.Log().Named("oauth") }

// clock is the time source of every engine.
var clock = time.Now

// open opens the store, loads the keys, and starts the revocation feed and the housekeeping. An engine that is open already stays as it is.
func (e *engine) open() (tokenissuer.Store, error) {
	e.opening.Lock()
	defer e.opening.Unlock()
	if e.stop != nil {
		return e.store, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	store, err := e.openStore(ctx)
	if err != nil {
		return nil, err
	}
	loaded, err := tokenissuer.LoadSigningKeys(ctx, store, e.keySeal, e.settings.algorithm, e.now())
	if err == nil {
		err = e.keys.Replace(loaded, e.settings.algorithm)
	}
	if err == nil {
		e.master, err = tokenissuer.LoadMasterKey(ctx, store, e.keySeal, e.now())
	}
	if err == nil {
		e.feed.store = store
		err = e.refresh(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	e.store = store
	following, stop := context.WithCancel(context.Background())
	e.stop, e.stopped = stop, make(chan struct{})
	go e.work(following)
	return store, nil
}

// opened returns the store of an engine that is open, and nil for any other.
func (e *engine) opened() tokenissuer.Store {
	e.opening.Lock()
	defer e.opening.Unlock()
	return e.store
}

func (e *engine) openStore(ctx context.Context) (tokenissuer.Store, error) {
	if e.settings.store == storeMemory {
		e.log().Warn("the memory store forgets clients, users, keys, sessions and revocations when the process ends: use it for demos and tests only")
		return memstore.New(), nil
	}
	return sqlstore.OpenSQLite(ctx, e.settings.path, sqlstore.Options{Warn: func(message string) { e.log().Warn(message) }})
}

// work does what an open engine does by itself, until it is closed. Following has a goroutine of its own: revocations
// come in while the housekeeping waits for the store.
func (e *engine) work(ctx context.Context) {
	defer close(e.stopped)
	var following sync.WaitGroup
	following.Go(func() { e.follow(ctx) })
	e.housekeep(ctx)
	following.Wait()
}

// follow keeps the revocations up to date until the engine is closed.
func (e *engine) follow(ctx context.Context) {
	poll := time.NewTicker(feedInterval)
	defer poll.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
			err := e.refresh(ctx)
			if err != nil && !failing && ctx.Err() == nil {
				e.log().Error("reading revocations: tokens are still checked against what is known", zap.Error(err))
			}
			failing = err != nil
		}
	}
}

// revocationFeed is where the engine stands in the store's feed.
type revocationFeed struct {
	mu       sync.Mutex
	store    tokenissuer.RevocationStore
	position int64
}

// refresh takes what the store has recorded since the last time into the set. When it returns nil, the set holds every
// revocation that was acknowledged before the call, on whatever node.
func (e *engine) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, feedTimeout)
	defer cancel()
	e.feed.mu.Lock()
	defer e.feed.mu.Unlock()
	asked := e.now()
	revocations, next, err := e.feed.store.Revocations(ctx, e.feed.position)
	if err != nil {
		return err
	}
	e.revocations.Add(revocations...)
	e.revocations.MarkFresh(asked)
	e.feed.position = next
	return nil
}

// enter counts a request that may use the store. It is false once the engine is closing.
func (e *engine) enter() bool {
	e.inFlight.Add(1)
	if e.closing.Load() {
		e.inFlight.Add(-1)
		return false
	}
	return true
}

func (e *engine) leave() { e.inFlight.Add(-1) }

// Destruct closes the engine when no configuration uses it any more. Requests of the old configuration may still be
// under way: the store stays open until they are through, or for ten seconds.
func (e *engine) Destruct() error {
	e.closing.Store(true)
	e.opening.Lock()
	defer e.opening.Unlock()
	if e.stop == nil {
		return nil
	}
	e.stop()
	<-e.stopped
	if e.inFlight.Load() == 0 {
		return e.store.Close()
	}
	go func() {
		for deadline := time.Now().Add(shutdownTimeout); e.inFlight.Load() > 0 && time.Now().Before(deadline); {
			time.Sleep(10 * time.Millisecond)
		}
		if err := e.store.Close(); err != nil {
			e.log().Error("closing the store", zap.Error(err))
		}
	}()
	return nil
}
