package node

import (
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

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
	// KeepSchema leaves the schema alone: somebody else migrates.
	KeepSchema bool
	Issuer     string
	// Algorithm is that of the keys that sign access tokens.
	Algorithm oauth.Algorithm
	// OpenID keeps keys of all other algorithms beside them, for ID tokens.
	OpenID bool
	// Rotation is the time between two signing keys; 0: keys are not rotated.
	Rotation time.Duration
	// MaxStaleness is how old the knowledge of revocations may be before tokens are refused.
	MaxStaleness time.Duration
}

// algorithms are those that are signed with, the issuer's own first.
func (s Settings) algorithms() []oauth.Algorithm {
	list := []oauth.Algorithm{s.Algorithm}
	for _, algorithm := range oauth.OwnAlgorithms {
		if s.OpenID && algorithm != s.Algorithm {
			list = append(list, algorithm)
		}
	}
	return list
}

// nodes are those in use, by poolKey: a configuration with the same settings goes on with the same database handle, keys,
// sessions, revocations and verified tokens.
var nodes = pool.New((*Node).Destruct)

// poolKey tells two nodes apart.
type poolKey struct {
	Settings
	sealer string // the ids of the key-encryption keys
}

func keyOf(settings Settings, sealer *keys.Sealer) poolKey {
	if sealer == nil {
		return poolKey{settings, ""}
	}
	return poolKey{settings, strings.Join(sealer.IDs(), " ")}
}

// Acquire returns the node of these settings and this sealer, which is nil when keys are stored in the clear. It makes one
// when no configuration has it. Each use has to be released, and the node closes with the last one. It opens nothing: `caddy validate`
// comes this far.
func Acquire(settings Settings, sealer *keys.Sealer) (*pool.Use[*Node], error) {
	return nodes.Take(keyOf(settings, sealer), func() (*Node, error) { return newNode(settings, sealer), nil })
}

// InUse returns how many nodes there are.
func InUse() int { return len(nodes.All()) }

// Node is the state of an issuer: it outlives a reload. It is safe for concurrent use.
type Node struct {
	// Keys, Revocations and Verifier judge access tokens; Attempts and Passwords bound guessing and hashing. They are there
	// from the beginning. Open fills them.
	Keys        *keys.Set
	Revocations *token.RevocationSet
	Verifier    *token.Verifier
	Attempts    store.AttemptCounter
	Passwords   *passwords.Hasher

	lifetime
	storeHandle
	clock       *sharedClock
	feed        *revocationFeed
	keyring     *keyring
	rollback    *rollbackDetector
	housekeeper *housekeeper
}

// newNode prepares a node.
func newNode(settings Settings, sealer *keys.Sealer) *Node {
	clock := newSharedClock(Clock)
	n := &Node{
		Keys:        new(keys.Set),
		Revocations: token.NewRevocationSet(),
		Passwords:   passwords.NewHasher(),
		lifetime:    newLifetime(),
		storeHandle: storeHandle{settings: settings, done: make(chan struct{})},
		clock:       clock,
		housekeeper: newHousekeeper(clock),
	}
	n.feed = newFeed(n.Revocations, clock.now)
	n.keyring = &keyring{keys: n.Keys, sealer: sealer, settings: settings, clock: clock}
	n.rollback = &rollbackDetector{feed: n.feed, keyring: n.keyring, clock: clock, marker: marker{database: absolute(settings.Path)}}
	n.Attempts = n.newAttempts()
	n.Verifier = token.NewVerifier(settings.Issuer, n.Keys, n.Revocations, settings.MaxStaleness, clock.now)
	return n
}

// log returns the logger of the running configuration. The node outlives the configuration that made it, whose log file is
// closed with it.
func log() *zap.Logger { return caddy.Log().Named("oauth") }

// Clock is the time source of every node. Tests replace it before they load a configuration.
var Clock = time.Now

// Now returns this node's time, by which access tokens are judged.
func (n *Node) Now() time.Time { return n.clock.now() }

// StoreTime returns the store's time, by which codes, sign-ins and refresh tokens are judged.
func (n *Node) StoreTime() time.Time { return n.clock.Now() }

// MasterKey returns the master key of a node that is open.
func (n *Node) MasterKey() *keys.MasterKey { return n.keyring.master }

// JTIMAC returns what makes and checks the MAC in the ids of access tokens, of a node that is open.
func (n *Node) JTIMAC() *token.JTIMAC { return n.keyring.jtiMAC }

// Destruct closes the node when no configuration uses it any more. Requests of the former configuration may still be under way:
// the store stays open until they have ended, for ten seconds at most.
func (n *Node) Destruct() error {
	n.end()
	if !n.IsOpen() {
		return nil
	}
	busy := !n.IsIdle()
	n.rollback.keepMarks()
	if !busy {
		return n.store.Close()
	}
	go func() {
		n.awaitIdle(shutdownTimeout)
		n.rollback.keepMarks() // of what those requests have revoked
		if err := n.store.Close(); err != nil {
			log().Error("closing the store", zap.Error(err))
		}
	}()
	return nil
}
