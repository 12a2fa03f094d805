package trust

import (
	"context"
	"crypto/rand"
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// coolDown is how long tokens with unknown kids make us fetch no second time, whatever their number.
	coolDown = 30 * time.Second
	// shortCoolDown takes its place when a fetch has brought other keys: an issuer that rotates its keys may do so again.
	shortCoolDown = 250 * time.Millisecond
	// An issuer says how long its keys may be kept (RFC 9111 §5.2.2.1), within these bounds.
	minLife, defaultLife, maxLife = time.Minute, 5 * time.Minute, 15 * time.Minute
	// After a failure we try again soon, and then less often.
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

// end lets go of connections, those of a fetch that is under way too.
func (k *remoteKeys) end() {
	k.mu.Lock()
	k.ended = true
	k.mu.Unlock()
	k.client.transport.CloseIdleConnections()
}

// refresh fetches the keys, unless that is being done.
func (k *remoteKeys) refresh() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.begin()
}

// demand is for a token whose key is missed: it returns what is closed when the key may have come. That is what was kept of
// an earlier process, nil when nothing is to be had there, and a fetch. Tokens have us fetch once in a coolDown; the others
// get the last fetch, which may have ended.
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

// quiet reports whether demand would bring nothing that was not known already.
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

// coolsDown reports whether a token made us fetch not long ago. A clock that was set back has forgotten it.
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

// fetch asks for the keys. It has a life of its own: a client that hangs up takes nobody else's answer away.
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

// plan tells run when the next fetch is due. The caller holds mu.
func (k *remoteKeys) plan(pause time.Duration) {
	select {
	case <-k.settled:
	default:
	}
	k.settled <- pause
}

// ask finds out where the keys are and reads them.
func (k *remoteKeys) ask(ctx context.Context) (*keySet, time.Duration, error) {
	before := k.place
	uri, err := k.locate(ctx)
	if err != nil {
		return nil, 0, err
	}
	at := k.now()
	header, document, err := k.client.get(ctx, uri, "application/jwk-set+json, application/json")
	if err == nil {
		var set *keySet
		if set, err = k.readKeySet(document, uri, at); err == nil {
			return set, lifeOf(header), nil
		}
	}
	if k.place == before { // they may have moved; what was found just now is for the next fetch, which has more time
		k.place = place{}
	}
	return nil, 0, err
}

// lifeOf is how long an answer may be kept.
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
				return minLife // whatever it means, it is not for long
			}
			life = min(max(time.Duration(seconds)*time.Second, minLife), maxLife)
		}
	}
	return life
}

// retryAfter is how long to wait after that many failures and one.
func retryAfter(failures int) time.Duration {
	return min(minRetry<<min(failures, 10), maxRetry)
}

// early takes up to a fifth off, by chance: many nodes that began together do not ask together, and keys are fetched again
// before they are old.
func early(d time.Duration) time.Duration {
	off, err := rand.Int(rand.Reader, big.NewInt(int64(d)/5))
	if err != nil {
		return d
	}
	return d - time.Duration(off.Int64())
}
