package node

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

const (
	feedInterval = time.Second
	// feedTimeout bounds how long a request waits for the feed, and each read of it. pollTimeout bounds the read of one page.
	feedTimeout = 2 * time.Second
	pollTimeout = 3 * time.Second
)

// follow keeps the revocations and keys up to date until ctx ends. It asks the store once a second, and when the store reports changes.
func (n *Node) follow(ctx context.Context) {
	hinted := make(chan struct{}, 1)
	hint := func() {
		select {
		case hinted <- struct{}{}:
		default: // there is one already
		}
	}
	n.Life.Go(func() { n.store.Watch(ctx, hint) })
	poll := time.NewTicker(feedInterval)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
		case <-hinted:
		}
		more, err := n.feed.readPage(ctx)
		if ctx.Err() != nil {
			return // the error says nothing about the store
		}
		if err != nil && !n.feed.failing {
			log().Error("reading revocations: tokens are still checked against what is known", zap.Error(err))
		}
		n.feed.failing = err != nil
		if err == nil {
			n.clock.compare(ctx, n.store)
			_ = n.rollback.syncKeys(ctx) // which has logged what is wrong
		}
		if more {
			hint()
		}
	}
}

// revocationFeed reads the store's revocations into the set of a node.
type revocationFeed struct {
	set   *token.RevocationSet
	now   func() time.Time
	store store.RevocationStore // set before anything is read

	mu       timedLock // guards position
	position store.FeedPosition
	// lost are the marks of revocations that the store no longer has; nil: it lacks none. The rollback detector takes it.
	lost atomic.Pointer[sqlstore.Marks]
	// failing reports whether the last poll failed. Only follow uses it while it runs.
	failing bool
	// refreshes are shared by the requests that ask at the same time; see Node.Refresh.
	refreshes coalescedRefresh
}

func newFeed(set *token.RevocationSet, now func() time.Time) *revocationFeed {
	return &revocationFeed{set: set, now: now, mu: newTimedLock()}
}

// timedLock is a mutex whose LockWithin honours a context.
type timedLock chan struct{}

func newTimedLock() timedLock { return make(timedLock, 1) }

// LockWithin waits for the lock until ctx ends.
func (l timedLock) LockWithin(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return store.Unavailable(ctx.Err())
	}
}

// Unlock releases the lock.
func (l timedLock) Unlock() { <-l }

// Refresh adds the store's new revocations to the set. When it returns nil, the set holds every revocation that was acknowledged before
// the call, on any node. Concurrent calls share one query. Each of them waits until its own context ends.
func (n *Node) Refresh(ctx context.Context) error {
	waiting, stop := sqlstore.Wait(ctx, feedTimeout)
	defer stop()
	return n.feed.refreshes.do(waiting, func() error {
		// The context of the request that asked first may end too early for the others that share this reading.
		ctx, cancel := context.WithTimeout(context.Background(), feedTimeout)
		defer cancel()
		return n.feed.catchUp(ctx)
	})
}

// catchUp reads the feed to its end. Pages that were read before ctx ends stay in the set.
func (f *revocationFeed) catchUp(ctx context.Context) error {
	for {
		if more, err := f.readPage(ctx); err != nil || !more {
			return err
		}
	}
}

// readPage adds one page of the feed to the set, and reports whether there may be more. After the last page the set is as fresh as the
// query for that page: later revocations come after those that were read.
func (f *revocationFeed) readPage(ctx context.Context) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	if err := f.mu.LockWithin(ctx); err != nil {
		return false, err
	}
	defer f.mu.Unlock()
	asked := f.now()
	revocations, next, err := f.store.Revocations(ctx, f.position)
	if err != nil {
		return false, err
	}
	f.set.Add(revocations...)
	if next.Lost {
		f.lost.Store(&sqlstore.Marks{Revocations: f.position.End, Tag: f.position.Tag})
	}
	f.position = next
	if len(revocations) >= store.FeedPage {
		return true, nil
	}
	f.set.MarkFresh(asked)
	return false, nil
}
