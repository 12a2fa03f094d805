package node

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// shutdownTimeout is how long the store of a closing node stays open for the requests that are under way.
const shutdownTimeout = 10 * time.Second

// lifetime ends with the node. What runs in the background is waited for, and requests are counted.
type lifetime struct {
	life     context.Context // ends with the node
	stop     context.CancelFunc
	runs     sync.WaitGroup // what the end waits for
	inFlight atomic.Int64   // requests that may use the store
	closing  atomic.Bool
}

func newLifetime() lifetime {
	life, stop := context.WithCancel(context.Background())
	return lifetime{life: life, stop: stop}
}

// Go runs f. The store stays open until f returns.
func (l *lifetime) Go(f func()) { l.runs.Go(f) }

// Enter counts a request that may use the store, until Leave. It returns false once the node is closing.
func (l *lifetime) Enter() bool {
	l.inFlight.Add(1)
	if l.closing.Load() {
		l.inFlight.Add(-1)
		return false
	}
	return true
}

// Leave ends what Enter has begun.
func (l *lifetime) Leave() { l.inFlight.Add(-1) }

// Done is closed when the node ends, which waits for what runs in the background.
func (l *lifetime) Done() <-chan struct{} { return l.life.Done() }

// IsClosing reports whether the node accepts no more requests.
func (l *lifetime) IsClosing() bool { return l.closing.Load() }

// IsIdle reports whether no request is under way.
func (l *lifetime) IsIdle() bool { return l.inFlight.Load() == 0 }

// end accepts no more requests, and waits for what runs in the background.
func (l *lifetime) end() {
	l.closing.Store(true)
	l.stop()
	l.runs.Wait()
}

// awaitIdle waits until no request is under way, for limit at most.
func (l *lifetime) awaitIdle(limit time.Duration) {
	for deadline := time.Now().Add(limit); !l.IsIdle() && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
}
