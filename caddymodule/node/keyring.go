package node

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// keepTimeout bounds a round of what is done for the keys.
const keepTimeout = 10 * time.Second

// keyring is how far a node knows the keys of its store.
type keyring struct {
	mu      sync.Mutex
	version int64 // of the keys in memory; 0: not known
	failing bool
	refused atomic.Int64 // how many stored signing keys are not used
}

// KeyRing is for a node that has opened.
func (n *Node) KeyRing() *keys.Ring { return n.keyRingOf(n.store) }

func (n *Node) keyRingOf(store store.KeyStore) *keys.Ring {
	return &keys.Ring{
		Store: store, Sealer: n.keySeal, Algorithm: n.settings.Algorithm, Keys: n.Keys, Rotation: n.settings.Rotation,
		Now: n.time.Now, Earliest: n.earliest, Warn: n.warnOfKey,
	}
}

// syncKeys takes over the keys of the store when they have changed. While it cannot, the keys that this node has stay.
func (n *Node) syncKeys(ctx context.Context) error {
	n.keyring.mu.Lock()
	defer n.keyring.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, feedTimeout)
	defer cancel()
	err := n.readNewKeys(ctx)
	if err != nil && !n.keyring.failing && n.life.Err() == nil {
		n.log().Error("reading signing keys: going on with those that are known", zap.Error(err))
	}
	n.keyring.failing = err != nil
	return err
}

func (n *Node) readNewKeys(ctx context.Context) error {
	// The version comes first: what changes in between is read twice, and never missed.
	version, err := n.store.KeysVersion(ctx)
	if err != nil {
		return err
	}
	if err := n.checkMarks(ctx); err != nil || version == n.keyring.version {
		return err
	}
	ring, refused := n.KeyRing(), int64(0)
	ring.Warn = func(err error) {
		refused++
		n.warnOfKey(err)
	}
	err = ring.Refresh(ctx)
	n.keyring.refused.Store(refused)
	if err != nil {
		return err
	}
	n.keyring.version = version
	return nil
}

// KeysChanged is called after a change that is durable. A failure is no longer the caller's: the keys are read again
// within a second.
func (n *Node) KeysChanged(ctx context.Context) { _ = n.syncKeys(ctx) }

// keepKeys publishes the next key when it is time, and drops those that nobody needs any more.
func (n *Node) keepKeys(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	done, err := n.KeyRing().Maintain(ctx)
	if next := done.Published; next != nil {
		n.log().Info("the next signing key is published", zap.String("kid", next.ID), zap.Time("signs_from", next.ActiveFrom))
	}
	for _, id := range done.Dropped {
		n.log().Info("a signing key was dropped: no living token was signed with it", zap.String("kid", id))
	}
	if done.Published != nil || len(done.Dropped) > 0 {
		n.KeysChanged(ctx)
	}
	return err
}
