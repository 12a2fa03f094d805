package caddymodule

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

const (
	feedInterval = time.Second
	// feedTimeout is how long a request waits for the feed, pollTimeout how long the poll does, for which nobody waits.
	feedTimeout = 2 * time.Second
	pollTimeout = 3 * time.Second
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
		err := e.poll(ctx)
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
	mu       patientLock
	store    tokenissuer.RevocationStore
	position int64
}

// patientLock is a lock for which nobody has to wait longer than they want.
type patientLock chan struct{}

func newPatientLock() patientLock { return make(patientLock, 1) }

// Lock waits for as long as it takes.
func (l patientLock) Lock() { l <- struct{}{} }

// LockWithin waits until ctx ends.
func (l patientLock) LockWithin(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Unlock lets the next one in.
func (l patientLock) Unlock() { <-l }

// poll is refresh for nobody in particular.
func (e *engine) poll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	return e.catchUp(ctx)
}

// refresh takes what the store has recorded since the last time into the set. When it returns nil, the set holds every
// revocation that was acknowledged before the call, on whatever node.
func (e *engine) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, feedTimeout)
	defer cancel()
	return e.catchUp(ctx)
}

func (e *engine) catchUp(ctx context.Context) error {
	if err := e.feed.mu.LockWithin(ctx); err != nil {
		return err
	}
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
