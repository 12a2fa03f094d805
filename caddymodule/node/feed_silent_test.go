package node

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// silentFeed is a feed that does not answer until the test releases it.
type silentFeed struct {
	store.RevocationStore
	answers      atomic.Bool
	inside, most atomic.Int64
}

func (f *silentFeed) Revocations(ctx context.Context, after store.FeedPosition) ([]store.Revocation, store.FeedPosition, error) {
	inside := f.inside.Add(1)
	defer f.inside.Add(-1)
	for most := f.most.Load(); inside > most && !f.most.CompareAndSwap(most, inside); {
		most = f.most.Load()
	}
	if f.answers.Load() {
		return nil, after, nil
	}
	<-ctx.Done()
	return nil, after, ctx.Err()
}

// TestF16NobodyWaitsForTheFeedTwice: the database is silent and many ask for the state of the moment → each is
// answered within one request's patience. Only one of them reads the feed.
func TestF16NobodyWaitsForTheFeedTwice(t *testing.T) {
	n := prepared(t, inMemory)
	synctest.Test(t, func(t *testing.T) {
		feed := new(silentFeed)
		n.feed.store, n.feed.mu = feed, newTimedLock()
		const promised = 2500 * time.Millisecond // the timeout of one request
		var asking sync.WaitGroup
		for i := range 100 {
			asking.Go(func() {
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				ctx, began := sqlstore.WithTimeout(t.Context()), time.Now()
				if i%2 > 0 {
					before, stop := sqlstore.Wait(ctx, time.Second)
					<-before.Done()
					stop()
				}
				if err := n.Refresh(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("request %d: %v", i, err)
				}
				if took := time.Since(began); took > promised {
					t.Errorf("request %d waited for %s", i, took)
				}
				left, stop := sqlstore.Wait(ctx, time.Minute)
				defer stop()
				if end, _ := left.Deadline(); end.Sub(began) > promised {
					t.Errorf("request %d may wait until %s after it came", i, end.Sub(began))
				}
			})
		}
		asking.Wait()
		if n := feed.most.Load(); n != 1 {
			t.Errorf("%d read at a time", n)
		}
		feed.answers.Store(true)
		time.Sleep(feedTimeout) // the read in progress ends
		if err := n.Refresh(sqlstore.WithTimeout(t.Context())); err != nil {
			t.Errorf("when it answers again: %v", err)
		}
		synctest.Wait()
	})
}
