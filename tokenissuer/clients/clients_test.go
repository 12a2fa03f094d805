package clients

import (
	"fmt"
	"strings"
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

func TestAtMostThreeMarksOnALetter(t *testing.T) {
	const mark = "\u0301"
	for marks, want := range map[int]int{0: 0, 3: 3, 4: 3, 50: 3} {
		if got := string(withoutPiles([]rune("a" + strings.Repeat(mark, marks) + "b"))); got != "a"+strings.Repeat(mark, want)+"b" {
			t.Errorf("of %d marks: %+q", marks, got)
		}
	}
}
