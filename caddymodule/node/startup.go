package node

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
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore/postgres"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const (
	// fileTimeout bounds the opening of a file, which is checked for damage from one end to the other.
	fileTimeout = 2 * time.Minute
	// serverTimeout bounds the first attempt to open a database of a server. What that takes longer, or what fails because the
	// server is away, goes on while Caddy serves everything else.
	serverTimeout = 3 * time.Second
	// retryTimeout bounds each further attempt, and retryPause is the time between two.
	retryTimeout = time.Minute
	retryPause   = 500 * time.Millisecond
	// migrateTimeout bounds Migrate, which may have to rewrite a large table.
	migrateTimeout = time.Hour
)

// ErrAway is returned while the database cannot be asked; the node goes on trying.
var ErrAway = errors.New("the database is away")

// startup is how far a node has come with opening its store.
type startup struct {
	mu     sync.Mutex
	trying bool          // in the background
	done   chan struct{} // closed once the node is open
}

// IsOpen reports whether the store, the keys and the revocations are there.
func (n *Node) IsOpen() bool {
	select {
	case <-n.startup.done:
		return true
	default:
		return false
	}
}

// Opened is closed once the node is open.
func (n *Node) Opened() <-chan struct{} { return n.startup.done }

// Store returns the store of a node that is open, and nil for any other.
func (n *Node) Store() store.Store {
	if !n.IsOpen() {
		return nil
	}
	return n.store
}

// Open opens the store, loads the keys, and starts the revocation feed and the housekeeping. A node that is open
// already stays as it is. The error is ErrAway when the database of a server cannot be asked now: then the node opens by
// itself as soon as it can.
func (n *Node) Open() error {
	n.startup.mu.Lock()
	defer n.startup.mu.Unlock()
	switch {
	case n.IsOpen():
		return nil
	case n.startup.trying:
		return ErrAway
	}
	timeout := fileTimeout
	if n.settings.Store == Postgres {
		timeout = serverTimeout
	}
	err := n.tryOpen(timeout)
	if err != nil && n.settings.Store == Postgres && postgres.IsUnreachable(err) {
		n.log().Error("the database is away: everything that needs it answers 503 until it comes back", zap.Error(err))
		n.startup.trying = true
		n.runs.Go(n.keepTrying)
		return fmt.Errorf("%w: %w", ErrAway, err)
	}
	return err
}

// keepTrying opens the node as soon as that is possible.
func (n *Node) keepTrying() {
	said := ""
	for {
		select {
		case <-n.life.Done():
			return
		case <-time.After(retryPause): // the store spreads the attempts of many nodes
		}
		err := n.tryOpen(retryTimeout)
		if err == nil {
			n.log().Info("the database is there")
			return
		}
		if text := err.Error(); text != said && n.life.Err() == nil {
			said = text
			n.log().Error("opening the database: trying again", zap.Error(err))
		}
	}
}

// tryOpen opens everything or nothing.
func (n *Node) tryOpen(timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(n.life, timeout)
	defer cancel()
	store, err := n.openStore(ctx)
	if err != nil {
		return err
	}
	if err := n.load(ctx, store); err != nil {
		return errors.Join(err, store.Close())
	}
	n.store = store
	close(n.startup.done)
	n.runs.Go(func() { n.follow(n.life) })
	n.runs.Go(func() { n.housekeep(n.life) })
	return nil
}

func (n *Node) openStore(ctx context.Context) (store.Store, error) {
	options := sqlstore.Options{
		Warn: func(message string) { n.log().Warn(message) }, KeepSchema: n.settings.KeepSchema,
		Failed: func(error) { storeErrors.Inc() },
	}
	switch n.settings.Store {
	case Memory:
		n.log().Warn("the memory store forgets clients, users, keys, sessions and revocations when the process ends: use it for demos and tests only")
		return memstore.New(), nil
	case Postgres:
		return sqlstore.OpenPostgres(ctx, oauth.NewSecret(n.settings.DSN), n.settings.Pool, options)
	}
	if err := checkEmptied(n.settings.Path); err != nil {
		return nil, err
	}
	return sqlstore.OpenSQLite(ctx, n.settings.Path, options)
}

// Migrate opens the store, which is what migrates it, and closes it again.
func Migrate(settings Settings) error {
	settings.KeepSchema = false
	e := newNode(settings, nil)
	defer e.stop()
	ctx, cancel := context.WithTimeout(e.life, migrateTimeout)
	defer cancel()
	store, err := e.openStore(ctx)
	if err != nil {
		return err
	}
	return store.Close()
}

// load reads what a node keeps in memory.
func (n *Node) load(ctx context.Context, store store.Store) error {
	n.measureTime(ctx, store)
	if err := n.loadKeys(ctx, store); err != nil {
		return n.refusedKeys(err)
	}
	n.noteSealed()
	n.jtiMAC = accesstoken.NewJTIMAC(n.master)
	n.Verifier.UseJTIMAC(n.jtiMAC)
	n.feed.store = store
	if err := n.catchUp(ctx); err != nil {
		return err
	}
	return n.checkRestored(ctx)
}

// loadKeys reads the signing keys and the master key, and makes the first ones.
func (n *Node) loadKeys(ctx context.Context, store store.KeyStore) error {
	if err := n.sealKeys(ctx, store); err != nil {
		return err
	}
	loaded, err := keys.LoadSigningKeys(ctx, store, n.keySeal, n.settings.Algorithm, n.time.Now())
	if err != nil {
		return err
	}
	if err := n.Keys.Replace(loaded, n.settings.Algorithm); err != nil {
		return err
	}
	n.master, err = keys.LoadMasterKey(ctx, store, n.keySeal, n.time.Now())
	return err
}
