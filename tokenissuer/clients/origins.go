package clients

import (
	"context"
	"sync"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Origins are the origins whose pages may read responses of the token and revocation endpoints (CORS): those of the redirect URIs of public
// clients, and those that a client lists. They are not per client, because a preflight does not name one.
//
// The list is read from the registry at most once in ten seconds and for at most a hundredth of the time. So a client that another node added
// is known after ten seconds, or after a hundred times the duration of a read if that is longer.
type Origins struct {
	clients func(context.Context) ([]*store.Client, error)
	now     func() time.Time

	reading sync.Mutex // held while the registry is read

	mu    sync.Mutex
	known map[string]struct{} // nil: never read
	until time.Time
}

const (
	originsTTL = 10 * time.Second
	// originsTimeout is how long a request waits for the list.
	originsTimeout = 2 * time.Second
	// originsShare bounds the time spent reading to one part in originsShare.
	originsShare = 100
)

// NewOrigins returns the origins of the clients that clients lists.
func NewOrigins(clients func(context.Context) ([]*store.Client, error), now func() time.Time) *Origins {
	return &Origins{clients: clients, now: now}
}

// Allow reports whether pages of an origin may read responses. Nil Origins allow none. While the registry fails, the last list is used.
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

// Forget makes the next Allow read the registry. Callers that change a client call it.
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
