package attempts

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var _ store.AttemptCounter = (*Counter)(nil)

// Counter counts failed attempts in memory, in a bounded number of buckets. It holds two generations: when the
// current one is full it becomes the previous one, and the previous one is forgotten, all at once. A bucket that
// fails again moves into the current generation, so one that is being attacked is kept, and a flood of other names
// costs it nothing until half the limit of them have failed since. The zero value is not usable; see NewCounter.
type Counter struct {
	half int // buckets a generation holds

	mu                sync.Mutex
	current, previous map[digest]window
}

// digest stands for a bucket's name, so that a bucket costs the same whatever the length of its name.
type digest = [sha256.Size]byte

// window is the state of one bucket. Nothing expires by the wall clock: the callers' now decides which windows are over.
type window struct {
	failures int
	until    time.Time
}

// NewCounter returns a counter that never holds more than limit buckets, or two when limit is less.
func NewCounter(limit int) *Counter {
	return &Counter{half: max(limit/2, 1), current: make(map[digest]window), previous: make(map[digest]window)}
}

// Failures returns the failures in the bucket's current window and when that window ends; zero values when there is
// none. A window is over in the moment that it names as its end.
func (c *Counter) Failures(_ context.Context, bucket string, now time.Time) (n int, until time.Time) {
	key := sha256.Sum256([]byte(bucket))
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.open(key, now)
	return w.failures, w.until
}

// Fail counts a failure. The first one opens a window of that length, the later ones do not move its end.
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

// Forgive takes back one failure of the bucket's current window, and with the last one the window. The bucket stays in
// its generation: a success is no attack, and evicts nothing.
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

// Learn replaces what is known of the bucket by what another counter, which knows better, has counted.
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

// keep puts the window into the current generation, and begins another one when it is full.
func (c *Counter) keep(key digest, w window) {
	if _, ok := c.current[key]; !ok && len(c.current) >= c.half {
		c.current, c.previous = make(map[digest]window), c.current
	}
	c.current[key] = w
}

// forget takes the window from both generations: a bucket that has moved into the current one has left an older state in
// the previous one.
func (c *Counter) forget(key digest) {
	delete(c.current, key)
	delete(c.previous, key)
}

// open returns the bucket's window unless it is over. The current generation knows better than the previous one.
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
