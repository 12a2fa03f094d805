package node

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// shutdownTimeout is how long a closing node waits for registered requests before it closes the store.
const shutdownTimeout = 10 * time.Second

// Lifetime is the lifetime of a node: its goroutines and the requests that may use its store.
type Lifetime struct {
	ctx      context.Context // ends with the node
	stop     context.CancelFunc
	runs     sync.WaitGroup // the goroutines that end waits for
	inFlight atomic.Int64   // requests that may use the store
	closing  atomic.Bool
}

func newLifetime() *Lifetime {
	ctx, stop := context.WithCancel(context.Background())
	return &Lifetime{ctx: ctx, stop: stop}
}

// Go runs f. The store stays open until f returns.
func (l *Lifetime) Go(f func()) { l.runs.Go(f) }

// Enter registers a request that may use the store. It returns false once the node is closing; after true, call Leave.
func (l *Lifetime) Enter() bool {
	l.inFlight.Add(1)
	if l.closing.Load() {
		l.inFlight.Add(-1)
		return false
	}
	return true
}

// Leave ends a request for which Enter has returned true.
func (l *Lifetime) Leave() { l.inFlight.Add(-1) }

// Done returns a channel that is closed when the node ends. The end waits for the functions of Go.
func (l *Lifetime) Done() <-chan struct{} { return l.ctx.Done() }

// IsClosing reports whether Enter returns false.
func (l *Lifetime) IsClosing() bool { return l.closing.Load() }

// IsIdle reports whether no request is registered.
func (l *Lifetime) IsIdle() bool { return l.inFlight.Load() == 0 }

// end makes Enter return false, and waits for the functions of Go.
func (l *Lifetime) end() {
	l.closing.Store(true)
	l.stop()
	l.runs.Wait()
}

// awaitIdle waits until no request is registered, for limit at most.
func (l *Lifetime) awaitIdle(limit time.Duration) {
	for deadline := time.Now().Add(limit); !l.IsIdle() && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
}
