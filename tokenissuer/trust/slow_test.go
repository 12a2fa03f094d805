package trust

import (
	"net/http"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/fairqueue"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// TestG90NobodyWaitsForLong: time spent in the queue is deducted from the time to wait for the response.
func TestG90NobodyWaitsForLong(t *testing.T) {
	a := newAsker(t)
	come := make(chan struct{})
	defer close(come)
	a.replies(func(http.ResponseWriter, *http.Request) { <-come })
	if wait := newIntrospector(new(Introspection), token.TrustedTokens{}, nil, fetch.Options{}).wait; wait != 5*time.Second {
		t.Errorf("one waits for %v", wait)
	}
	a.introspector.wait = 50 * time.Millisecond
	a.refuses(t, "opaque", oauth.TemporarilyUnavailable, "introspection_awaited")
}

// TestG90TheQueueIsBounded: when too many requests wait already, further ones are refused.
func TestG90TheQueueIsBounded(t *testing.T) {
	a := newAsker(t)
	a.introspector.slotTimeout, a.introspector.queue = time.Minute, fairqueue.New(1, 1)
	leave, err := a.introspector.queue.Enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan struct{})
	go func() {
		defer close(waiting)
		a.accepts(t, "first")
	}()
	tokentest.Eventually(t, "one waits", func() bool { return a.introspector.queue.Waiting() == 1 })
	a.refuses(t, "second", oauth.TemporarilyUnavailable, "introspection_busy")
	leave()
	<-waiting
	a.accepts(t, "second")
}
