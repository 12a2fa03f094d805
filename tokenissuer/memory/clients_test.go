package memory

import (
	"fmt"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestTheMemoryOfClientsIsBounded: whoever registers clients without end, and has each of them authenticate, fills nothing.
func TestTheMemoryOfClientsIsBounded(t *testing.T) {
	now := time.Now()
	c := NewClientCache()
	for i := range 3*maxCachedClients + 1 {
		c.Remember(&store.Client{ID: fmt.Sprint("client-", i)}, now)
		if n := len(c.clients); n > maxCachedClients {
			t.Fatalf("%d clients are remembered", n)
		}
	}
	last := fmt.Sprint("client-", 3*maxCachedClients)
	if c.Recall(last, now) == nil {
		t.Error("the client that came last is not remembered")
	}
	if c.Recall(last, now.Add(ClientCacheTTL)) != nil {
		t.Error("a client is remembered for longer than it may be")
	}
	if c.Forget(last); c.Recall(last, now) != nil {
		t.Error("a client is remembered that was to be forgotten")
	}
}
