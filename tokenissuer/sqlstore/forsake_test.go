package sqlstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/machine"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestF16SilentConnectionsAreForsakenAtOnce: a query that the server does not answer takes no longer than it may because of
// the connections that are given up with its own. To give something back on them would take five seconds for each.
func TestF16SilentConnectionsAreForsakenAtOnce(t *testing.T) {
	const connections = 12 // more than it has
	s, proxy := openThrough(t)
	s.feed.db.SetMaxOpenConns(connections)
	s.feed.db.SetMaxIdleConns(connections)
	onEach(t, s.feed.db, func() error {
		_, err := s.Progress(t.Context(), Marks{})
		return err
	})
	if n := s.feed.db.Stats().Idle; n != connections {
		t.Fatalf("%d connections are idle", n)
	}
	proxy.Blackhole()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, _, err := s.Revocations(ctx, store.FeedPosition{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the feed of a silent server: %v", err)
	}
	if took := time.Since(began); machine.Fair(took) > 2*time.Second { // and not five for each connection
		t.Errorf("it took %s", took)
	}
	proxy.Restore()
}
