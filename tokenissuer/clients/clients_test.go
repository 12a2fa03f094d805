package clients

import (
	"fmt"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestClientCache: the cache is bounded, however many clients authenticate. A client leaves it after CacheTTL or by Forget.
func TestClientCache(t *testing.T) {
	now := time.Now()
	c := NewCache()
	for i := range 3*maxCachedClients + 1 {
		c.Remember(&store.Client{ID: fmt.Sprint("client-", i)}, now)
		if n := c.clients.Len(); n > maxCachedClients {
			t.Fatalf("%d clients are remembered", n)
		}
	}
	last := fmt.Sprint("client-", 3*maxCachedClients)
	if c.Recall(last, now) == nil {
		t.Error("the client that came last is not remembered")
	}
	if c.Recall(last, now.Add(CacheTTL)) != nil {
		t.Error("a client is remembered for longer than it may be")
	}
	if c.Forget(last); c.Recall(last, now) != nil {
		t.Error("a client is remembered that was to be forgotten")
	}
}
