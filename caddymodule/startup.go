package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/memstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const (
	// fileTimeout bounds the opening of a file, which is checked for damage from one end to the other.
	fileTimeout = 2 * time.Minute
	// serverTimeout bounds the first attempt to open a database of a server. What that takes longer, or what fails because the
	// server is away, goes on while Caddy serves everything else.
	serverTimeout = 3 * time.Second
	// glanceTimeout bounds what Start asks again.
	glanceTimeout = time.Second
	// retryTimeout bounds each further attempt, and retryPause is the time between two.
	retryTimeout = time.Minute
	retryPause   = 500 * time.Millisecond
	// migrateTimeout bounds the command, which may have to rewrite a large table.
	migrateTimeout = time.Hour
)

// errAway: the database cannot be asked now, and the engine goes on trying.
var errAway = errors.New("the database is away")

// startup is how far an engine has come with startup its store.
type startup struct {
	mu     sync.Mutex
	trying bool          // in the background
	done   chan struct{} // closed once the engine is open
}

// isOpen reports whether the store, the keys and the revocations are there.
func (e *engine) isOpen() bool {
	select {
	case <-e.startup.done:
		return true
	default:
		return false
	}
}

// opened returns the store of an engine that is open, and nil for any other.
func (e *engine) opened() store.Store {
	if !e.isOpen() {
		return nil
	}
	return e.store
}

// open opens the store, loads the keys, and starts the revocation feed and the housekeeping. An engine that is open
// already stays as it is. The error is errAway when the database of a server cannot be asked now: then the engine opens by
// itself as soon as it can.
func (e *engine) open() error {
	e.startup.mu.Lock()
	defer e.startup.mu.Unlock()
	switch {
	case e.isOpen():
		return nil
	case e.startup.trying:
		return errAway
	}
	timeout := fileTimeout
	if e.settings.store == storePostgres {
		timeout = serverTimeout
	}
	err := e.tryOpen(timeout)
	if err != nil && e.settings.store == storePostgres && sqlstore.IsUnreachable(err) {
		e.log().Error("the database is away: everything that needs it answers 503 until it comes back", zap.Error(err))
		e.startup.trying = true
		e.runs.Go(e.keepTrying)
		return fmt.Errorf("%w: %w", errAway, err)
	}
	return err
}

// keepTrying opens the engine as soon as that is possible.
func (e *engine) keepTrying() {
	said := ""
	for {
		select {
		case <-e.life.Done():
			return
		case <-time.After(retryPause): // the store spreads the attempts of many nodes
		}
		err := e.tryOpen(retryTimeout)
		if err == nil {
			e.log().Info("the database is there")
			return
		}
		if text := err.Error(); text != said && e.life.Err() == nil {
			said = text
			e.log().Error("opening the database: trying again", zap.Error(err))
		}
	}
}

// tryOpen opens everything or nothing.
func (e *engine) tryOpen(timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(e.life, timeout)
	defer cancel()
	store, err := e.openStore(ctx)
	if err != nil {
		return err
	}
	if err := e.load(ctx, store); err != nil {
		return errors.Join(err, store.Close())
	}
	e.store = store
	close(e.startup.done)
	e.runs.Go(func() { e.follow(e.life) })
	e.runs.Go(func() { e.housekeep(e.life) })
	return nil
}

func (e *engine) openStore(ctx context.Context) (store.Store, error) {
	options := sqlstore.Options{
		Warn: func(message string) { e.log().Warn(message) }, KeepSchema: e.settings.keepSchema,
		Failed: func(error) { storeErrors.Inc() },
	}
	switch e.settings.store {
	case storeMemory:
		e.log().Warn("the memory store forgets clients, users, keys, sessions and revocations when the process ends: use it for demos and tests only")
		return memstore.New(), nil
	case storePostgres:
		return sqlstore.OpenPostgres(ctx, oauth.NewSecret(e.settings.dsn), e.settings.pool, options)
	}
	if err := checkEmptied(e.settings.path); err != nil {
		return nil, err
	}
	return sqlstore.OpenSQLite(ctx, e.settings.path, options)
}

// load reads what an engine keeps in memory.
func (e *engine) load(ctx context.Context, store store.Store) error {
	e.measureTime(ctx, store)
	if err := e.loadKeys(ctx, store); err != nil {
		return e.refusedKeys(err)
	}
	e.noteSealed()
	e.jtiMAC = accesstoken.NewJTIMAC(e.master)
	e.verifier.UseJTIMAC(e.jtiMAC)
	e.feed.store = store
	if err := e.catchUp(ctx); err != nil {
		return err
	}
	return e.checkRestored(ctx)
}

// loadKeys reads the signing keys and the master key, and makes the first ones.
func (e *engine) loadKeys(ctx context.Context, store store.KeyStore) error {
	if err := e.sealKeys(ctx, store); err != nil {
		return err
	}
	loaded, err := keys.LoadSigningKeys(ctx, store, e.keySeal, e.settings.algorithm, e.time.Now())
	if err != nil {
		return err
	}
	if err := e.keys.Replace(loaded, e.settings.algorithm); err != nil {
		return err
	}
	e.master, err = keys.LoadMasterKey(ctx, store, e.keySeal, e.time.Now())
	return err
}
