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
	s, proxy := openThrough(t)
	one, err := s.feed.db.Conn(t.Context())
	must(t, err)
	_, err = s.Progress(t.Context(), Marks{}) // on another
	must(t, err)
	must(t, one.Close())
	if n := s.feed.db.Stats().Idle; n != 2 {
		t.Fatalf("%d connections are idle", n)
	}
	proxy.Blackhole()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, _, err := s.Revocations(ctx, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the feed of a silent server: %v", err)
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("it took %s", took)
	}
	proxy.Restore()
}
