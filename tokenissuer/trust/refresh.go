package trust

import (
	"context"
	"crypto/rand"
	"errors"
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

const (
	// coolDown is the minimum time between two fetches that tokens with unknown kids cause.
	coolDown = 30 * time.Second
	// shortCoolDown replaces coolDown after a fetch has brought other keys: an issuer that is rotating its keys may do so
	// again.
	shortCoolDown = 250 * time.Millisecond
	// Bounds for the lifetime that the issuer's Cache-Control gives its keys (RFC 9111 §5.2.2.1).
	minLife, defaultLife, maxLife = time.Minute, 5 * time.Minute, 15 * time.Minute
	// Bounds for the delay after failures, which doubles each time.
	minRetry, maxRetry = 5 * time.Second, time.Minute
)

// run keeps the keys fresh until ctx ends.
func (k *remoteKeys) run(ctx context.Context) {
	defer k.end()
	k.recall()
	due := time.NewTimer(0)
	defer due.Stop()
	for {
		select {
		case <-due.C:
			k.refresh()
		case pause := <-k.settled:
			due.Reset(pause)
		case <-ctx.Done():
			return
		}
	}
}

// end closes idle connections, and has a running fetch close its own.
func (k *remoteKeys) end() {
	k.mu.Lock()
	k.ended = true
	k.mu.Unlock()
	k.client.transport.CloseIdleConnections()
}

// refresh starts a fetch unless one is running.
func (k *remoteKeys) refresh() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.begin()
}

// demand handles a token whose key is missing. It returns two channels that are closed when the key may have arrived:
// from the snapshot of an earlier process (nil if there is none to wait for), and from a fetch. Tokens cause at most one
// fetch in coolDown; other callers get the last fetch, which may have ended.
func (k *remoteKeys) demand() (recalled, fetched <-chan struct{}) {
	recalled = k.recall()
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := k.now(); !k.fetching && !k.coolsDown(now) {
		k.demanded, k.rest = now, coolDown
		k.begin()
	}
	return recalled, k.fetched
}

// whenFetched demands the keys, and tries again whenever a snapshot or a fetch may have brought what an error of lacksKey
// misses, until ctx ends.
func whenFetched[T any](ctx context.Context, k *remoteKeys, try func() (T, error)) (T, error) {
	var none T
	recalled, fetched := k.demand()
	// The key may have arrived before demand was called, which then brings nothing.
	if got, err := try(); err == nil || !lacksKey(err) {
		return got, err
	}
	for {
		select {
		case <-recalled:
			recalled = nil
		case <-fetched:
			fetched = nil
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) { // the client disconnected; the issuer is not to blame
				return none, oauth.Unavailable("keys_awaited", ctx.Err())
			}
			return none, k.unavailable(k.known.Load(), "keys_awaited")
		}
		got, err := try()
		if err == nil || !lacksKey(err) || recalled == nil && fetched == nil {
			return got, err
		}
	}
}

// quiet reports whether demand could bring nothing new.
func (k *remoteKeys) quiet(known *knowledge) bool {
	if recalled := k.recall(); recalled != nil {
		select {
		case <-recalled:
		default:
			return false
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return known == k.known.Load() && !k.fetching && k.coolsDown(k.now())
}

// coolsDown reports whether a token caused a fetch recently. It ignores one from before the clock was set back.
func (k *remoteKeys) coolsDown(now time.Time) bool {
	since := now.Sub(k.demanded)
	return since >= 0 && since < k.rest
}

// begin starts a fetch, unless one is under way. The caller holds mu.
func (k *remoteKeys) begin() {
	if k.fetching {
		return
	}
	k.fetching, k.fetched = true, make(chan struct{})
	go k.fetch(k.fetched)
}

// fetch fetches the keys. It does not depend on the request that caused it: other requests may wait for it too.
func (k *remoteKeys) fetch(done chan<- struct{}) {
	defer close(done)
	ctx, cancel := context.WithTimeout(context.Background(), k.client.timeout)
	defer cancel()
	var set *keySet
	var life time.Duration
	err := guarded(func() (err error) {
		set, life, err = k.ask(ctx)
		return err
	})
	k.settle(set, life, err)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended {
		k.client.transport.CloseIdleConnections()
	}
}

// plan schedules the next fetch. The caller holds mu.
func (k *remoteKeys) plan(pause time.Duration) {
	select {
	case <-k.settled:
	default:
	}
	k.settled <- pause
}

// ask locates and downloads the keys.
func (k *remoteKeys) ask(ctx context.Context) (*keySet, time.Duration, error) {
	before := k.place
	found, err := k.locate(ctx)
	if err != nil {
		return nil, 0, err
	}
	at := k.now()
	header, document, err := k.client.get(ctx, found.uri, "application/jwk-set+json, application/json")
	if err == nil {
		var set *keySet
		if set, err = k.readKeySet(document, found.uri, at); err == nil {
			if k.openID != nil {
				set.metadata = found.metadata
			}
			return set, lifeOf(header), nil
		}
	}
	if k.place.foundAt.Equal(before.foundAt) { // the keys may have moved: discover again at the next fetch, unless this one just did
		k.place = place{}
	}
	return nil, 0, err
}

// lifeOf returns how long a response may be cached.
func lifeOf(header http.Header) time.Duration {
	life := defaultLife
	for directive := range strings.SplitSeq(strings.Join(header.Values("Cache-Control"), ","), ",") {
		name, value, _ := strings.Cut(strings.ToLower(strings.TrimSpace(directive)), "=")
		switch name {
		case "no-store", "no-cache":
			return minLife
		case "max-age":
			seconds, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31)
			if err != nil {
				return minLife // malformed: assume the minimum
			}
			life = min(max(time.Duration(seconds)*time.Second, minLife), maxLife)
		}
	}
	return life
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
