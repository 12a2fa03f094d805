package sqlstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/machine"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestF16SilentConnectionsAreForsakenAtOnce: closing silent connections does not make a query exceed its time. Closing prepared
// statements on them would take five seconds for each connection.
func TestF16SilentConnectionsAreForsakenAtOnce(t *testing.T) {
	const connections = 12 // more than one query uses
	s, proxy := openThrough(t)
	s.db.feed.db.SetMaxOpenConns(connections)
	s.db.feed.db.SetMaxIdleConns(connections)
	onEach(t, s.db.feed.db, func() error {
		_, err := s.Progress(t.Context(), Marks{})
		return err
	})
	if n := s.db.feed.db.Stats().Idle; n != connections {
		t.Fatalf("%d connections are idle", n)
	}
	proxy.Blackhole()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, _, err := s.Revocations.Revocations(ctx, store.FeedPosition{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the feed of a silent server: %v", err)
	}
	if took := time.Since(began); machine.Fair(took) > 2*time.Second { // and not five seconds for each connection
		t.Errorf("it took %s", took)
	}
	proxy.Restore()
}
