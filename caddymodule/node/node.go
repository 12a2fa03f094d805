package node

import (
	"context"
	"strings"
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
	// Algorithm is that of the signing keys.
	Algorithm oauth.Algorithm
	// Rotation is the time between two signing keys; 0: keys are not rotated.
	Rotation time.Duration
	// MaxStaleness is how old the knowledge of revocations may be before tokens are refused.
	MaxStaleness time.Duration
}

// nodes are those in use, by poolKey: a configuration with the same settings goes on with the same database handle, keys,
// sessions, revocations and verified tokens.
var nodes = caddy.NewUsagePool()

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
// when no configuration has it. Each Acquire needs a Release. It opens nothing: `caddy validate` comes this far.
func Acquire(settings Settings, sealer *keys.Sealer) *Node {
	pooled, _, _ := nodes.LoadOrNew(keyOf(settings, sealer), func() (caddy.Destructor, error) { // which does not fail
		return newNode(settings, sealer), nil
	})
	return pooled.(*Node)
}

// Release closes the node if nobody else has acquired it.
func (n *Node) Release() error {
	_, err := nodes.Delete(keyOf(n.settings, n.keySeal))
	return err
}

// InUse returns how many nodes there are.
func InUse() (n int) {
	nodes.Range(func(any, any) bool { n++; return true })
	return n
}

const shutdownTimeout = 10 * time.Second

// Node is the state of an issuer: it outlives a reload. It is safe for concurrent use.
type Node struct {
	// Keys, Revocations and Verifier judge access tokens; Attempts and Passwords bound guessing and hashing. They are there
	// from the beginning. Open fills them.
	Keys        *keys.Set
	Revocations *accesstoken.RevocationSet
	Verifier    *accesstoken.Verifier
	Attempts    store.AttemptCounter
	Passwords   *passwords.Hasher

	settings Settings
	keySeal  *keys.Sealer
	now      func() time.Time

	lease  lease
	health health

	// time is the store's, by which codes, sign-ins and refresh tokens are judged.
	time *sharedClock

	startup          startup
	store            store.Store         // set once the node has opened
	master           *keys.MasterKey     // likewise
	jtiMAC           *accesstoken.JTIMAC // of master
	feed             revocationFeed      // likewise
	keyring          keyring
	rollbackDetector rollbackDetector

	// life ends with the node, and what runs in it is waited for.
	life context.Context
	stop context.CancelFunc
	runs sync.WaitGroup

	inFlight atomic.Int64
	closing  atomic.Bool
}

// newNode prepares a node.
func newNode(settings Settings, sealer *keys.Sealer) *Node {
	e := &Node{
		settings: settings, keySeal: sealer, now: Clock,
		Keys:        new(keys.Set),
		Revocations: accesstoken.NewRevocationSet(),
		Passwords:   passwords.NewHasher(),
	}
	e.Attempts, e.lease = e.newAttempts(), newLease()
	e.time = newSharedClock(e.now)
	e.startup.done, e.feed.mu = make(chan struct{}), newTimedLock()
	e.life, e.stop = context.WithCancel(context.Background())
	e.Verifier = accesstoken.NewVerifier(settings.Issuer, e.Keys, e.Revocations, settings.MaxStaleness, e.now)
	return e
}

// log returns the logger of the configuration that runs now: the node outlives the one that made it, and with that one
// its log file is closed.
func (*Node) log() *zap.Logger { return caddy.Log().Named("oauth") }

// Clock is the time source of every node. Tests replace it before they load a configuration.
var Clock = time.Now

// Now returns this node's time, by which access tokens are judged.
func (n *Node) Now() time.Time { return n.now() }

// StoreTime returns the store's time, by which codes, sign-ins and refresh tokens are judged.
func (n *Node) StoreTime() time.Time { return n.time.Now() }

// MasterKey returns the master key of a node that is open.
func (n *Node) MasterKey() *keys.MasterKey { return n.master }

// JTIMAC returns what makes and checks the MAC in the ids of access tokens, of a node that is open.
func (n *Node) JTIMAC() *accesstoken.JTIMAC { return n.jtiMAC }

// IsClosing reports whether the node lets nobody in any more.
func (n *Node) IsClosing() bool { return n.closing.Load() }

// IsIdle reports whether no request is under way.
func (n *Node) IsIdle() bool { return n.inFlight.Load() == 0 }

// Go runs f. The store stays open until f returns.
func (n *Node) Go(f func()) { n.runs.Go(f) }

// Enter counts a request that may use the store, until Leave. It is false once the node is closing.
func (n *Node) Enter() bool {
	n.inFlight.Add(1)
	if n.closing.Load() {
		n.inFlight.Add(-1)
		return false
	}
	return true
}

// Leave ends what Enter has begun.
func (n *Node) Leave() { n.inFlight.Add(-1) }

// Destruct closes the node when no configuration uses it any more. Requests of the old configuration may still be
// under way: the store stays open until they are through, or for ten seconds.
func (n *Node) Destruct() error {
	n.closing.Store(true)
	n.stop()
	n.runs.Wait()
	if !n.IsOpen() {
		return nil
	}
	busy := !n.IsIdle()
	n.keepMarks()
	if !busy {
		return n.store.Close()
	}
	go func() {
		for deadline := time.Now().Add(shutdownTimeout); !n.IsIdle() && time.Now().Before(deadline); {
			time.Sleep(10 * time.Millisecond)
		}
		n.keepMarks() // of what they have revoked
		if err := n.store.Close(); err != nil {
			n.log().Error("closing the store", zap.Error(err))
		}
	}()
	return nil
}
