package node

import (
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/auditlog"
	"github.com/gatehouse-auth/gatehouse/caddymodule/pool"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// The kinds of stores.
const (
	SQLite   = "sqlite"
	Postgres = "postgres"
	Memory   = "memory"
)

// Settings decide whether two configurations can share a node.
type Settings struct {
	// Store is one of SQLite, Postgres and Memory.
	Store string
	// Path is SQLite's file.
	Path string
	// DSN is the connection string of PostgreSQL. It may hold a password.
	DSN string
	// Pool bounds the connections to PostgreSQL.
	Pool int
	// KeepSchema turns migrations off.
	KeepSchema bool
	Issuer     string
	// Algorithm is that of the keys that sign access tokens.
	Algorithm oauth.Algorithm
	// OpenID keeps keys of all other algorithms beside them, for ID tokens.
	OpenID bool
	// Rotation is the time between two signing keys; 0: keys are not rotated.
	Rotation time.Duration
	// MaxStaleness is how old the known revocations may be before tokens are refused.
	MaxStaleness time.Duration
	// Audit says which events of the audit log are kept. Configurations that differ only in it share a node.
	Audit auditlog.Retention
}

// algorithms returns the algorithms of the signing keys, that of access tokens first.
func (s Settings) algorithms() []oauth.Algorithm {
	list := []oauth.Algorithm{s.Algorithm}
	for _, algorithm := range oauth.OwnAlgorithms {
		if s.OpenID && algorithm != s.Algorithm {
			list = append(list, algorithm)
		}
	}
	return list
}

// nodes are the nodes in use, by poolKey.
var nodes = pool.New((*Node).Destruct)

// poolKey is the key of a node in the pool.
type poolKey struct {
	Settings
	sealer string // the ids of the key-encryption keys
}

func keyOf(settings Settings, sealer *keys.Sealer) poolKey {
	settings.Audit = auditlog.Retention{}
	if sealer == nil {
		return poolKey{settings, ""}
	}
	return poolKey{settings, strings.Join(sealer.IDs(), " ")}
}

// Acquire returns the node of these settings and this sealer, which is nil if keys are stored in the clear. It creates the node if no
// configuration uses it, and opens nothing. Each use has to be released. The last release closes the node.
func Acquire(settings Settings, sealer *keys.Sealer) (*pool.Use[*Node], error) {
	return nodes.Take(keyOf(settings, sealer), func() (*Node, error) { return newNode(settings, sealer), nil })
}

// InUse returns how many nodes there are.
func InUse() int { return len(nodes.All()) }

// Node is the state of an issuer: it outlives a reload. It is safe for concurrent use.
type Node struct {
	// Keys, Revocations and Verifier judge access tokens; Attempts and Passwords bound guessing and hashing. They are never nil. Open
	// fills them.
	Keys        *keys.Set
	Revocations *token.RevocationSet
	Verifier    *token.Verifier
	Attempts    store.AttemptCounter
	Passwords   *passwords.Hasher

	// Life has the requests and goroutines that need the store.
	Life *Lifetime

	storeHandle
	clock       *sharedClock
	feed        *revocationFeed
	keyring     *keyring
	rollback    *rollbackDetector
	housekeeper *housekeeper
}

// newNode returns a node that is not open.
func newNode(settings Settings, sealer *keys.Sealer) *Node {
	clock := newSharedClock(Clock)
	n := &Node{
		Keys:        new(keys.Set),
		Revocations: token.NewRevocationSet(),
		Passwords:   passwords.NewHasher(),
		Life:        newLifetime(),
		storeHandle: storeHandle{settings: settings, done: make(chan struct{}), Audit: auditlog.New(settings.Audit, clock.Now, log)},
		clock:       clock,
	}
	n.housekeeper = newHousekeeper(clock, n.Audit)
	n.feed = newFeed(n.Revocations, clock.now)
	n.keyring = &keyring{keys: n.Keys, sealer: sealer, settings: settings, clock: clock, audit: n.Audit}
	n.rollback = &rollbackDetector{feed: n.feed, keyring: n.keyring, clock: clock, marker: marker{database: absolute(settings.Path)}}
	n.Attempts = newAttempts(&n.storeHandle, clock.now)
	n.Verifier = token.NewVerifier(settings.Issuer, n.Keys, n.Revocations, settings.MaxStaleness, clock.now)
	return n
}

// log returns the logger of the running configuration. The node outlives the configuration that made it, whose log file is
// closed with it.
func log() *zap.Logger { return caddy.Log().Named("oauth") }

// Clock is the time source of every node. Tests replace it before they load a configuration.
var Clock = time.Now

// Now returns this node's time, which decides whether an access token has expired.
func (n *Node) Now() time.Time { return n.clock.now() }

// StoreTime returns the store's time, which decides whether codes, sessions and refresh tokens have expired.
func (n *Node) StoreTime() time.Time { return n.clock.Now() }

// MasterKey returns the master key of a node that is open.
func (n *Node) MasterKey() *keys.MasterKey { return n.keyring.master }

// JTIMAC returns the MAC for the ids of access tokens, of a node that is open.
func (n *Node) JTIMAC() *token.JTIMAC { return n.keyring.jtiMAC }

// Destruct closes the node when no configuration uses it any longer. The store stays open until the requests of the last configuration
// have ended, for ten seconds at most.
func (n *Node) Destruct() error {
	n.Life.end()
	if !n.IsOpen() {
		n.Audit.Close()
		return nil
	}
	busy := !n.Life.IsIdle()
	n.rollback.keepMarks()
	if !busy {
		n.Audit.Close()
		return n.store.Close()
	}
	go func() {
		n.Life.awaitIdle(shutdownTimeout)
		n.rollback.keepMarks() // with the revocations of those requests
		n.Audit.Close()
		if err := n.store.Close(); err != nil {
			log().Error("closing the store", zap.Error(err))
		}
	}()
	return nil
}
