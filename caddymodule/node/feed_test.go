package node

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// longFeed is a feed of several pages. It can fail once.
type longFeed struct {
	store.RevocationStore
	pages, failing int64
	deadlines      []time.Time
}

var errNoPage = errors.New("the page cannot be read")

func (f *longFeed) Revocations(ctx context.Context, after store.FeedPosition) (list []store.Revocation, next store.FeedPosition, err error) {
	deadline, _ := ctx.Deadline()
	f.deadlines = append(f.deadlines, deadline)
	if after.At == f.failing {
		f.failing = -1
		return nil, after, errNoPage
	}
	size := store.FeedPage
	if after.At == f.pages-1 {
		size = 1
	}
	for i := range size {
		list = append(list, store.Revocation{Kind: store.RevokeToken, ID: fmt.Sprint(after.At, i), ExpiresAt: Clock().Add(time.Hour)})
	}
	return list, store.FeedPosition{At: after.At + 1}, nil
}

// TestLongFeedInPages: each page has its own time. What was read stays read when a page fails. The set is fresh only
// after the last page.
func TestLongFeedInPages(t *testing.T) {
	n := prepared(t, inMemory)
	feed := &longFeed{pages: 3, failing: 2}
	n.feed.store = feed
	isFresh := func() bool { return n.Revocations.Age(Clock()) < time.Minute }
	if more, err := n.feed.readPage(t.Context()); !more || err != nil || isFresh() {
		t.Errorf("after the first page: more is %v, %v, fresh is %v", more, err, isFresh())
	}
	if err := n.feed.catchUp(t.Context()); !errors.Is(err, errNoPage) || isFresh() {
		t.Errorf("after the page that failed: %v, fresh is %v", err, isFresh())
	}
	if err := n.feed.catchUp(t.Context()); err != nil || !isFresh() {
		t.Errorf("at the end: %v, fresh is %v", err, isFresh())
	}
	if n := n.Revocations.Len(); n != 2*store.FeedPage+1 || len(feed.deadlines) != 4 {
		t.Errorf("%d questions brought %d revocations", len(feed.deadlines), n)
	}
	for i := 1; i < len(feed.deadlines); i++ {
		if !feed.deadlines[i].After(feed.deadlines[i-1]) {
			t.Errorf("question %d has no time of its own: %v", i, feed.deadlines)
		}
	}
}

// strangersFeed records the request's value in the context of a read. A read serves other requests too, so its
// context must carry none.
type strangersFeed struct {
	store.RevocationStore
	carried any
}

type requestKey struct{}

func (f *strangersFeed) Revocations(ctx context.Context, after store.FeedPosition) ([]store.Revocation, store.FeedPosition, error) {
	f.carried = ctx.Value(requestKey{})
	return nil, after, ctx.Err()
}

// TestARefreshIsOnNobodysPatience: requests share a read. The request that starts it may have used up its time to
// wait for the store, or may be cancelled; that must not fail all of them.
func TestARefreshIsOnNobodysPatience(t *testing.T) {
	n := prepared(t, inMemory)
	feed := new(strangersFeed)
	n.feed.store = feed
	if err := n.Refresh(context.WithValue(t.Context(), requestKey{}, "patience")); err != nil || feed.carried != nil {
		t.Errorf("%v: the feed is asked with %v of the request", err, feed.carried)
	}
}

// TestF15IntervalsAreThosePromised: revocations, remembered clients and clocks → read at the promised intervals.
func TestF15IntervalsAreThosePromised(t *testing.T) {
	if feedInterval > time.Second || serverTimeout > 5*time.Second {
		t.Errorf("revocations are asked for every %v, and a server has %v to answer", feedInterval, serverTimeout)
	}
}
