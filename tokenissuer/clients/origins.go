package clients

import (
	"context"
	"sync"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Origins is the set of origins whose pages may read responses of the token and revocation endpoints (CORS): those of the redirect URIs of
// public clients, and those that a client lists. It is not per client, because a preflight does not name one.
//
// Origins reads the registry at most once in ten seconds and for at most a hundredth of the time. A client added on another node is
// therefore known after ten seconds, or after a hundred times the duration of a read if that is longer.
type Origins struct {
	clients func(context.Context) ([]*store.Client, error)
	now     func() time.Time

	reading sync.Mutex // held while the registry is read

	mu    sync.Mutex
	known map[string]struct{} // nil until the first read
	until time.Time
}

const (
	originsTTL = 10 * time.Second
	// originsTimeout is how long a request waits for the list.
	originsTimeout = 2 * time.Second
	// originsShare bounds the time spent reading to 1/originsShare.
	originsShare = 100
)

// NewOrigins returns the origins of the clients that clients lists.
func NewOrigins(clients func(context.Context) ([]*store.Client, error), now func() time.Time) *Origins {
	return &Origins{clients: clients, now: now}
}

// Allow reports whether pages of an origin may read responses. A nil Origins allows none. While the registry fails, the last list applies.
func (o *Origins) Allow(ctx context.Context, origin string) bool {
	if o == nil || origin == "" {
		return false
	}
	allowed, fresh, read := o.look(origin)
	if fresh {
		return allowed
	}
	if !o.reading.TryLock() {
		if read {
			return allowed
		}
		o.reading.Lock()
	}
	defer o.reading.Unlock()
	if allowed, fresh, _ = o.look(origin); !fresh {
		o.read(ctx)
		allowed, _, _ = o.look(origin)
	}
	return allowed
}

// Forget makes the next Allow read the registry. Callers that change a client must call it.
func (o *Origins) Forget() {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.until = time.Time{}
}

func (o *Origins) look(origin string) (allowed, fresh, read bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, allowed = o.known[origin]
	return allowed, o.now().Before(o.until), o.known != nil
}

func (o *Origins) read(ctx context.Context) {
	// The first caller may disconnect while others wait for the same read.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), originsTimeout)
	defer cancel()
	began := time.Now()
	clients, err := o.clients(ctx)
	took := time.Since(began)
	known := make(map[string]struct{})
	for _, c := range clients {
		for _, origin := range c.Origins() {
			known[origin] = struct{}{}
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		o.until = o.now().Add(time.Second)
		return
	}
	o.known, o.until = known, o.now().Add(max(originsTTL, originsShare*took))
}
