package caddymodule

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

const (
	feedInterval = time.Second
	feedTimeout  = 2 * time.Second
)

// watcher is a store that tells when another node has changed something; see sqlstore.Store.
type watcher interface {
	Watch(ctx context.Context, changed func())
}

// follow keeps the revocations up to date until ctx ends: whenever the store hints that something is new, and once a second
// whatever it hints.
func (e *engine) follow(ctx context.Context) {
	hinted := make(chan struct{}, 1)
	if w, ok := e.store.(watcher); ok {
		e.runs.Go(func() {
			w.Watch(ctx, func() {
				select {
				case hinted <- struct{}{}:
				default: // one is waiting already
				}
			})
		})
	}
	poll := time.NewTicker(feedInterval)
	defer poll.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
		case <-hinted:
		}
		err := e.refresh(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			e.log().Error("reading revocations: tokens are still checked against what is known", zap.Error(err))
		}
		failing = err != nil
		if err == nil {
			e.measureTime(ctx, e.store)
			_ = e.syncKeys(ctx) // it has told what is wrong
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
	return e.catchUp(ctx)
}

func (e *engine) catchUp(ctx context.Context) error {
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
