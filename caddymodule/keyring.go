package caddymodule

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

// keyring is how far an engine knows the keys of its store.
type keyring struct {
	mu      sync.Mutex
	version int64 // of the keys in memory; 0: not known
	failing bool
	refused atomic.Int64 // how many stored signing keys are not used
}

// keyRing is for an engine that has opened.
func (e *engine) keyRing() *keys.Ring { return e.keyRingOf(e.store) }

func (e *engine) keyRingOf(store store.KeyStore) *keys.Ring {
	return &keys.Ring{
		Store: store, Sealer: e.keySeal, Algorithm: e.settings.algorithm, Keys: e.keys, Rotation: e.settings.rotation,
		Now: e.time.Now, Earliest: e.earliest, Warn: e.warnOfKey,
	}
}

// syncKeys takes over the keys of the store when they have changed. While it cannot, the keys that this node has stay.
func (e *engine) syncKeys(ctx context.Context) error {
	e.keyring.mu.Lock()
	defer e.keyring.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, feedTimeout)
	defer cancel()
	err := e.readNewKeys(ctx)
	if err != nil && !e.keyring.failing && e.life.Err() == nil {
		e.log().Error("reading signing keys: going on with those that are known", zap.Error(err))
	}
	e.keyring.failing = err != nil
	return err
}

func (e *engine) readNewKeys(ctx context.Context) error {
	// The version comes first: what changes in between is read twice, and never missed.
	version, err := e.store.KeysVersion(ctx)
	if err != nil {
		return err
	}
	if err := e.checkMarks(ctx); err != nil || version == e.keyring.version {
		return err
	}
	ring, refused := e.keyRing(), int64(0)
	ring.Warn = func(err error) {
		refused++
		e.warnOfKey(err)
	}
	err = ring.Refresh(ctx)
	e.keyring.refused.Store(refused)
	if err != nil {
		return err
	}
	e.keyring.version = version
	return nil
}

// keysChanged is called after a change that is durable. A failure is no longer the caller's: the keys are read again
// within a second.
func (e *engine) keysChanged(ctx context.Context) { _ = e.syncKeys(ctx) }

// keepKeys publishes the next key when it is time, and drops those that nobody needs any more.
func (e *engine) keepKeys(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	done, err := e.keyRing().Maintain(ctx)
	if next := done.Published; next != nil {
		e.log().Info("the next signing key is published", zap.String("kid", next.ID), zap.Time("signs_from", next.ActiveFrom))
	}
	for _, id := range done.Dropped {
		e.log().Info("a signing key was dropped: no living token was signed with it", zap.String("kid", id))
	}
	if done.Published != nil || len(done.Dropped) > 0 {
		e.keysChanged(ctx)
	}
	return err
}
