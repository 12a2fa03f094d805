package sqlstore

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestF16SilentConnectionsAreForsakenAtOnce: a question that the server does not answer takes no longer than it may because of
// the connections that are given up with its own. To give something back on them would take five seconds for each.
func TestF16SilentConnectionsAreForsakenAtOnce(t *testing.T) {
	const connections = 12 // more than it has, so that their seconds cannot be taken for those of a busy machine
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
	if _, _, err := s.Revocations(ctx, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the feed of a silent server: %v", err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
	proxy.Restore()
}
