package node

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const (
	feedInterval = time.Second
	// feedTimeout is how long a request waits for the feed, and how long what it waits for may take; pollTimeout is how long
	// anybody waits for one page of it.
	feedTimeout = 2 * time.Second
	pollTimeout = 3 * time.Second
)

// watcher is a store that tells when another node has changed something; see sqlstore.Store.
type watcher interface {
	Watch(ctx context.Context, changed func())
}

// follow keeps the revocations up to date until ctx ends: whenever the store hints that something is new, and once a second
// whatever it hints.
func (n *Node) follow(ctx context.Context) {
	hinted := make(chan struct{}, 1)
	hint := func() {
		select {
		case hinted <- struct{}{}:
		default: // one is waiting already
		}
	}
	if w, ok := n.store.(watcher); ok {
		n.runs.Go(func() { w.Watch(ctx, hint) })
	}
	poll := time.NewTicker(feedInterval)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
		case <-hinted:
		}
		more, err := n.readPage(ctx)
		if ctx.Err() != nil {
			return // and the error says nothing about the store
		}
		if err != nil && !n.feed.failing {
			n.log().Error("reading revocations: tokens are still checked against what is known", zap.Error(err))
		}
		n.feed.failing = err != nil
		if err == nil {
			n.measureTime(ctx, n.store)
			_ = n.syncKeys(ctx) // it has told what is wrong
		}
		if more {
			hint()
		}
	}
}

// revocationFeed is where the node stands in the store's feed.
type revocationFeed struct {
	mu       timedLock
	store    store.RevocationStore
	position store.FeedPosition
	// lost is what the store had, and has not any more; nil: nothing, or it has been answered for.
	lost atomic.Pointer[sqlstore.Marks]
	// failing tells how the last poll ended, and is follow's for as long as that runs.
	failing bool
	// refreshes are those of requests; see Node.Refresh.
	refreshes coalescedRefresh
}

// timedLock is a lock for which nobody has to wait longer than they want.
type timedLock chan struct{}

func newTimedLock() timedLock { return make(timedLock, 1) }

// Lock waits for as long as it takes.
func (l timedLock) Lock() { l <- struct{}{} }

// LockWithin waits until ctx ends.
func (l timedLock) LockWithin(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Unlock lets the next one in.
func (l timedLock) Unlock() { <-l }

// Refresh takes what the store has recorded since the last time into the set. When it returns nil, the set holds every
// revocation that was acknowledged before the call, on whatever node. Requests that ask at the same time ask the store once,
// and each waits for as long as it has patience, whoever else does.
func (n *Node) Refresh(ctx context.Context) error {
	waiting, stop := sqlstore.Wait(ctx, feedTimeout)
	defer stop()
	return n.feed.refreshes.do(waiting, func() error {
		// Nothing of the request that asked first, which may use up its patience: others wait for this too.
		ctx, cancel := context.WithTimeout(context.Background(), feedTimeout)
		defer cancel()
		return n.catchUp(ctx)
	})
}

// catchUp reads the feed to its end. What it has read stays read when ctx ends before.
func (n *Node) catchUp(ctx context.Context) error {
	for {
		if more, err := n.readPage(ctx); err != nil || !more {
			return err
		}
	}
}

// readPage takes one page of the feed into the set, and reports whether there may be more. The set is as fresh as the question
// for the last page: what was recorded again meanwhile, or for the first time, comes after what was read.
func (n *Node) readPage(ctx context.Context) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	if err := n.feed.mu.LockWithin(ctx); err != nil {
		return false, err
	}
	defer n.feed.mu.Unlock()
	asked := n.now()
	revocations, next, err := n.feed.store.Revocations(ctx, n.feed.position)
	if err != nil {
		return false, err
	}
	n.Revocations.Add(revocations...)
	if next.Lost {
		n.feed.lost.Store(&sqlstore.Marks{Revocations: n.feed.position.End, Tag: n.feed.position.Tag})
	}
	n.feed.position = next
	if len(revocations) >= store.FeedPage {
		return true, nil
	}
	n.Revocations.MarkFresh(asked)
	return false, nil
}
