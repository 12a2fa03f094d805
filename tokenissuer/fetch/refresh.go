package fetch

import (
	"context"
	"crypto/rand"
	"errors"
	"math/big"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

const (
	// coolDown is the minimum time between two fetches that tokens with unknown kids cause.
	coolDown = 30 * time.Second
	// shortCoolDown replaces coolDown after a fetch has brought other keys: a server that is rotating its keys may do so
	// again.
	shortCoolDown = 250 * time.Millisecond
	// Bounds for the delay after failures, which doubles each time.
	minRetry, maxRetry = 5 * time.Second, time.Minute
)

// Run keeps the keys fresh until ctx ends.
func (k *Keys) Run(ctx context.Context) {
	defer k.end()
	k.recall()
	due := time.NewTimer(0)
	defer due.Stop()
	for {
		select {
		case <-due.C:
			k.Refresh()
		case pause := <-k.fetching.settled:
			due.Reset(pause)
		case <-ctx.Done():
			return
		}
	}
}

// end closes idle connections, and has a running fetch close its own.
func (k *Keys) end() {
	k.fetching.mu.Lock()
	k.fetching.ended = true
	k.fetching.mu.Unlock()
	k.server.client.CloseIdleConnections()
}

// Refresh starts a fetch unless one is running, and returns a channel that is closed when it ends.
func (k *Keys) Refresh() (fetched <-chan struct{}) {
	k.fetching.mu.Lock()
	defer k.fetching.mu.Unlock()
	k.begin()
	return k.fetching.done
}

// demand handles a token whose key is missing. It returns two channels that are closed when the key may have arrived:
// from the snapshot of an earlier process (nil if there is none to wait for), and from a fetch. Tokens cause at most one
// fetch in coolDown, but for those that are due; other callers get the last fetch, which may have ended.
func (k *Keys) demand(due bool) (recalled, fetched <-chan struct{}) {
	recalled = k.recall()
	f := &k.fetching
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := k.options.Now(); !f.running && (due || !f.coolsDown(now)) {
		f.demanded, f.rest = now, coolDown
		k.begin()
	}
	return recalled, f.done
}

// Awaited tries to get something of the keys. If it is missing, Awaited demands the keys, and tries again whenever a snapshot or a fetch may have
// brought it, for at most the client's timeout.
func Awaited[T any](ctx context.Context, k *Keys, try func() (T, error)) (T, error) {
	got, err := try()
	if err == nil || !Missing(err) {
		return got, err
	}
	var none T
	ctx, cancel := context.WithTimeout(ctx, k.server.client.limits.Timeout)
	defer cancel()
	recalled, fetched := k.demand(false)
	// The key may have arrived before demand was called, which then brings nothing.
	if got, err := try(); err == nil || !Missing(err) {
		return got, err
	}
	for {
		select {
		case <-recalled:
			recalled = nil
		case <-fetched:
			fetched = nil
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) { // the client disconnected; the server is not to blame
				return none, oauth.Unavailable("keys_awaited", ctx.Err())
			}
			return none, k.unavailable(k.known.Load(), "keys_awaited")
		}
		got, err := try()
		if err == nil || !Missing(err) || recalled == nil && fetched == nil {
			return got, err
		}
	}
}

// Quiet reports whether a demand could bring nothing that was not known then.
func (k *Keys) Quiet(known *Known) bool {
	if recalled := k.recall(); recalled != nil {
		select {
		case <-recalled:
		default:
			return false
		}
	}
	f := &k.fetching
	f.mu.Lock()
	defer f.mu.Unlock()
	return known == k.known.Load() && !f.running && f.coolsDown(k.options.Now())
}

// coolsDown reports whether a token caused a fetch recently. It ignores one from before the clock was set back.
func (f *fetching) coolsDown(now time.Time) bool {
	since := now.Sub(f.demanded)
	return since >= 0 && since < f.rest
}

// begin starts a fetch, unless one is under way. The caller holds fetching.mu.
func (k *Keys) begin() {
	if k.fetching.running {
		return
	}
	k.fetching.running, k.fetching.done = true, make(chan struct{})
	go k.fetch(k.fetching.done)
}

// fetch fetches the keys. It does not depend on the request that caused it: other requests may wait for it too.
func (k *Keys) fetch(done chan<- struct{}) {
	defer close(done)
	ctx, cancel := context.WithTimeout(context.Background(), k.server.client.limits.Timeout)
	defer cancel()
	var set *keySet
	var life time.Duration
	err := Guard(func() (err error) {
		set, life, err = k.server.ask(ctx, k.options.Now)
		return err
	})
	k.settle(set, life, err)
	k.fetching.mu.Lock()
	defer k.fetching.mu.Unlock()
	if k.fetching.ended {
		k.server.client.CloseIdleConnections()
	}
}

// plan schedules the next fetch. The caller holds mu.
func (f *fetching) plan(pause time.Duration) {
	select {
	case <-f.settled:
	default:
	}
	f.settled <- pause
}

// retryAfter returns the delay before the next attempt, given the number of earlier failures.
func retryAfter(failures int) time.Duration {
	return min(minRetry<<min(failures, 10), maxRetry)
}

// early subtracts up to a fifth at random, so that nodes that started together do not fetch together.
func early(d time.Duration) time.Duration {
	off, err := rand.Int(rand.Reader, big.NewInt(int64(d)/5))
	if err != nil {
		return d
	}
	return d - time.Duration(off.Int64())
}
