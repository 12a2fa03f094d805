package caddymodule

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// engines holds what outlives a reload, by all of its settings: a configuration with the same settings goes on with the
// same database handle, keys, sessions, revocations and verified tokens.
var engines = caddy.NewUsagePool()

// engineSettings decide whether two configurations can share an engine. It is the pool's key.
type engineSettings struct {
	store string // "sqlite", "postgres" or "memory"
	path  string // of SQLite
	dsn   string // of PostgreSQL; it may hold a password
	pool  int
	// keepSchema: somebody else migrates.
	keepSchema bool
	issuer     string
	algorithm  oauth.Algorithm
	sealer     string // the ids of the key-encryption keys
	rotation   time.Duration
	staleness  time.Duration
}

const shutdownTimeout = 10 * time.Second

// engine is the part of an issuer that is made of state.
type engine struct {
	settings engineSettings
	keySeal  *keys.Sealer
	now      func() time.Time

	keys        *keys.Set
	revocations *accesstoken.RevocationSet
	verifier    *accesstoken.Verifier
	attempts    store.AttemptCounter
	passwords   *passwords.Hasher

	lease  lease
	health health

	// time is the store's, by which codes, sign-ins and refresh tokens are judged.
	time *sharedClock

	startup          startup
	store            store.Store         // set once the engine has opened
	master           *keys.MasterKey     // likewise
	jtiMAC           *accesstoken.JTIMAC // of master
	feed             revocationFeed      // likewise
	keyring          keyring
	rollbackDetector rollbackDetector

	// life ends with the engine, and what runs in it is waited for.
	life context.Context
	stop context.CancelFunc
	runs sync.WaitGroup

	inFlight atomic.Int64
	closing  atomic.Bool
}

// newEngine prepares an engine. It opens nothing, because `caddy validate` comes this far.
func newEngine(settings engineSettings, sealer *keys.Sealer) *engine {
	e := &engine{
		settings: settings, keySeal: sealer, now: clock,
		keys:        new(keys.Set),
		revocations: accesstoken.NewRevocationSet(),
		passwords:   passwords.NewHasher(),
	}
	e.attempts, e.lease = e.newAttempts(), newLease()
	e.time = newSharedClock(e.now)
	e.startup.done, e.feed.mu = make(chan struct{}), newTimedLock()
	e.life, e.stop = context.WithCancel(context.Background())
	e.verifier = accesstoken.NewVerifier(settings.issuer, e.keys, e.revocations, settings.staleness, e.now)
	return e
}

// log returns the logger of the configuration that runs now: the engine outlives the one that made it, and with that one
// its log file is closed.
func (*engine) log() *zap.Logger { return caddy.Log().Named("oauth") }

// clock is the time source of every engine.
var clock = time.Now

// Enter counts a request that may use the store. It is false once the engine is closing; else Leave follows.
func (e *engine) Enter() bool {
	e.inFlight.Add(1)
	if e.closing.Load() {
		e.inFlight.Add(-1)
		return false
	}
	return true
}

// Leave ends what Enter has begun.
func (e *engine) Leave() { e.inFlight.Add(-1) }

// IsClosing reports whether no configuration uses the engine any more.
func (e *engine) IsClosing() bool { return e.closing.Load() }

// Now is the time by this node's own clock.
func (e *engine) Now() time.Time { return e.now() }

// Destruct closes the engine when no configuration uses it any more. Requests of the old configuration may still be
// under way: the store stays open until they are through, or for ten seconds.
func (e *engine) Destruct() error {
	e.closing.Store(true)
	e.stop()
	e.runs.Wait()
	if !e.isOpen() {
		return nil
	}
	busy := e.inFlight.Load() > 0
	e.keepMarks()
	if !busy {
		return e.store.Close()
	}
	go func() {
		for deadline := time.Now().Add(shutdownTimeout); e.inFlight.Load() > 0 && time.Now().Before(deadline); {
			time.Sleep(10 * time.Millisecond)
		}
		e.keepMarks() // of what they have revoked
		if err := e.store.Close(); err != nil {
			e.log().Error("closing the store", zap.Error(err))
		}
	}()
	return nil
}
