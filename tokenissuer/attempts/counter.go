package attempts

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var _ store.AttemptCounter = (*Counter)(nil)

// Counter counts failed attempts in memory, in a bounded number of buckets. It holds two generations. When the current one is full, it
// becomes the previous one, and the former previous one is dropped. A bucket that fails again moves into the current generation. A bucket
// under attack is therefore kept, and a flood of other names evicts it only after half the limit of them have failed since its last
// failure. The zero value is not usable; see NewCounter.
type Counter struct {
	half int // buckets a generation holds

	mu                sync.Mutex
	current, previous map[digest]window
}

// digest stands for a bucket's name. The memory that a bucket uses does not depend on the length of its name.
type digest = [sha256.Size]byte

// window is the state of one bucket. The now argument of the callers decides which windows are over, not the wall clock.
type window struct {
	failures int
	until    time.Time
}

// NewCounter returns a counter that never holds more than limit buckets, or two when limit is less.
func NewCounter(limit int) *Counter {
	return &Counter{half: max(limit/2, 1), current: make(map[digest]window), previous: make(map[digest]window)}
}

// Failures returns the failures in the bucket's current window and when that window ends, or zero values when there is none. At its end
// exactly, a window is over.
func (c *Counter) Failures(_ context.Context, bucket string, now time.Time) (n int, until time.Time) {
	key := sha256.Sum256([]byte(bucket))
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.open(key, now)
	return w.failures, w.until
}

// Fail counts a failure. The first failure opens a window of that length. Later ones do not move its end.
func (c *Counter) Fail(_ context.Context, bucket string, length time.Duration, now time.Time) (n int, until time.Time) {
	key := sha256.Sum256([]byte(bucket))
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.open(key, now)
	if w.failures == 0 {
		w.until = now.Add(length)
	}
	w.failures++
	c.keep(key, w)
	return w.failures, w.until
}

// Forgive takes back one failure of the bucket's current window, and removes the window with the last one. The bucket stays in its
// generation: a success is not an attack and evicts nothing.
func (c *Counter) Forgive(_ context.Context, bucket string, now time.Time) {
	key := sha256.Sum256([]byte(bucket))
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.open(key, now)
	if w.failures <= 1 {
		c.forget(key)
		return
	}
	w.failures--
	holder := c.previous
	if _, ok := c.current[key]; ok {
		holder = c.current
	}
	holder[key] = w
}

// Learn replaces the state of a bucket with the count of another, more authoritative counter.
func (c *Counter) Learn(bucket string, n int, until time.Time) {
	key := sha256.Sum256([]byte(bucket))
	c.mu.Lock()
	defer c.mu.Unlock()
	if n <= 0 {
		c.forget(key)
		return
	}
	c.keep(key, window{n, until})
}

// keep stores the window in the current generation, and begins a new generation when it is full.
func (c *Counter) keep(key digest, w window) {
	if _, ok := c.current[key]; !ok && len(c.current) >= c.half {
		c.current, c.previous = make(map[digest]window), c.current
	}
	c.current[key] = w
}

// forget deletes the window from both generations: a bucket that moved into the current one has left an older state in the previous one.
func (c *Counter) forget(key digest) {
	delete(c.current, key)
	delete(c.previous, key)
}

// open returns the bucket's window unless it is over. The current generation takes precedence over the previous one.
func (c *Counter) open(key digest, now time.Time) window {
	w, ok := c.current[key]
	if !ok {
		w = c.previous[key]
	}
	if now.Before(w.until) {
		return w
	}
	return window{}
}
