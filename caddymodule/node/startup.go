package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/auditlog"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore/postgres"
)

const (
	// fileTimeout bounds the opening of a file, which is checked for damage from one end to the other.
	fileTimeout = 2 * time.Minute
	// serverTimeout bounds the first attempt to open a database on a server. After it, attempts go on while Caddy serves everything else.
	serverTimeout = 3 * time.Second
	// retryTimeout bounds each further attempt, and retryPause is the time between two.
	retryTimeout = time.Minute
	retryPause   = 500 * time.Millisecond
	// migrateTimeout bounds Migrate, which may have to rewrite a large table.
	migrateTimeout = time.Hour
)

// ErrAway is returned while the database cannot be reached. The node keeps trying.
var ErrAway = errors.New("the database is away")

// storeHandle is the store of the settings, and the state of opening it.
type storeHandle struct {
	settings Settings

	mu     sync.Mutex
	trying bool          // in the background
	done   chan struct{} // closed once the node is open

	store  *sqlstore.Store // set once the node is open
	health health
	// Audit is the audit log that is kept in the store. It takes events before the node is open.
	Audit *auditlog.Log
}

// IsOpen reports whether the store is open, and the keys and revocations are loaded.
func (h *storeHandle) IsOpen() bool {
	select {
	case <-h.done:
		return true
	default:
		return false
	}
}

// Opened returns a channel that is closed once the node is open.
func (h *storeHandle) Opened() <-chan struct{} { return h.done }

// Store returns the store, or nil if the node is not open.
func (h *storeHandle) Store() *sqlstore.Store {
	if !h.IsOpen() {
		return nil
	}
	return h.store
}

// Open opens the store, loads the keys, and starts the revocation feed and the housekeeping. It does nothing when the node is
// open already. It returns ErrAway if a database server cannot be reached: the node then opens as soon as it can.
func (n *Node) Open() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.IsOpen():
		return nil
	case n.trying:
		return ErrAway
	}
	timeout := fileTimeout
	if n.settings.Store == Postgres {
		timeout = serverTimeout
	}
	err := n.tryOpen(timeout)
	if err != nil && n.settings.Store == Postgres && postgres.IsUnreachable(err) {
		log().Error("the database is away: everything that needs it answers 503 until it comes back", zap.Error(err))
		n.trying = true
		n.Life.Go(n.keepTrying)
		return fmt.Errorf("%w: %w", ErrAway, err)
	}
	return err
}

// keepTrying opens the node as soon as the database can be reached.
func (n *Node) keepTrying() {
	said := ""
	for {
		select {
		case <-n.Life.Done():
			return
		case <-time.After(retryPause): // the store spreads the attempts of many nodes
		}
		err := n.tryOpen(retryTimeout)
		if err == nil {
			log().Info("the database is there")
			return
		}
		if text := err.Error(); text != said && n.Life.ctx.Err() == nil {
			said = text
			log().Error("opening the database: trying again", zap.Error(err))
		}
	}
}

// tryOpen opens everything or nothing.
func (n *Node) tryOpen(timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(n.Life.ctx, timeout)
	defer cancel()
	store, err := openStore(ctx, n.settings)
	if err != nil {
		return err
	}
	if err := n.load(ctx, store); err != nil {
		return errors.Join(err, store.Close())
	}
	n.store = store
	n.Audit.Open(store.Audit)
	close(n.done)
	n.Life.Go(func() { n.follow(n.Life.ctx) })
	n.Life.Go(func() { n.housekeep(n.Life.ctx) })
	return nil
}

func openStore(ctx context.Context, settings Settings) (*sqlstore.Store, error) {
	options := sqlstore.Options{
		Warn: func(message string) { log().Warn(message) }, KeepSchema: settings.KeepSchema,
		Failed: func(error) { storeErrors.Inc() },
	}
	switch settings.Store {
	case Memory:
		log().Warn("the memory store forgets clients, users, keys, sessions and revocations when the process ends: use it for demos and tests only")
		return sqlstore.OpenMemory(ctx, options)
	case Postgres:
		return sqlstore.OpenPostgres(ctx, oauth.NewSecret(settings.DSN), settings.Pool, options)
	}
	if err := checkEmptied(settings.Path); err != nil {
		return nil, err
	}
	return sqlstore.OpenSQLite(ctx, settings.Path, options)
}

// Migrate opens the store, which migrates it, and closes it again.
func Migrate(settings Settings) error {
	settings.KeepSchema = false
	ctx, cancel := context.WithTimeout(context.Background(), migrateTimeout)
	defer cancel()
	store, err := openStore(ctx, settings)
	if err != nil {
		return err
	}
	return store.Close()
}

// load reads the keys and revocations into memory.
func (n *Node) load(ctx context.Context, store *sqlstore.Store) error {
	n.feed.store, n.keyring.store, n.housekeeper.store = store.Revocations, store.Keys, store.Housekeeping
	n.housekeeper.events = store.Audit
	if n.settings.Store != Memory {
		n.rollback.store = store
	}
	n.clock.compare(ctx, store)
	err := n.rollback.recall(ctx)
	if err == nil {
		err = n.keyring.load(ctx)
	}
	if errors.Is(err, keys.ErrOldSet) && n.rollback.store != nil {
		if err = n.rollback.check(ctx); err == nil { // which has replaced the keys
			err = n.keyring.load(ctx)
		}
	}
	if err != nil {
		return err
	}
	n.Verifier.UseJTIMAC(n.keyring.jtiMAC)
	if err := n.feed.catchUp(ctx); err != nil {
		return err
	}
	return n.rollback.check(ctx)
}
