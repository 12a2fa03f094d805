package memstore

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/patrickmn/go-cache"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var _ store.AttemptCounter = (*Attempts)(nil)

// Attempts counts failed attempts in memory, in a bounded number of buckets. It holds two generations: when the
// current one is full it becomes the previous one, and the previous one is forgotten, all at once. A bucket that
// fails again moves into the current generation, so one that is being attacked is kept, and a flood of other names
// costs it nothing until half the limit of them have failed since. The zero value is not usable; see NewAttempts.
type Attempts struct {
	half int // buckets a generation holds

	mu                sync.Mutex
	current, previous *cache.Cache
}

// window is the state of one bucket. Nothing expires by the wall clock: the callers' now decides which windows are over.
type window struct {
	failures int
	until    time.Time
}

// NewAttempts returns a counter that never holds more than limit buckets, or two when limit is less.
func NewAttempts(limit int) *Attempts {
	return &Attempts{half: max(limit/2, 1), current: newCache(), previous: newCache()}
}

// Failures returns the failures in the bucket's current window and when that window ends; zero values when there is
// none. A window is over in the moment that it names as its end.
func (a *Attempts) Failures(_ context.Context, bucket string, now time.Time) (n int, until time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.open(keyOf(bucket), now)
	return w.failures, w.until
}

// Fail counts a failure. The first one opens a window of that length, the later ones do not move its end.
func (a *Attempts) Fail(_ context.Context, bucket string, length time.Duration, now time.Time) (n int, until time.Time) {
	key := keyOf(bucket)
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.open(key, now)
	if w.failures == 0 {
		w.until = now.Add(length)
	}
	w.failures++
	a.keep(key, w)
	return w.failures, w.until
}

// Forgive takes back one failure of the bucket's current window, and with the last one the window. The bucket stays in
// its generation: who gets in is not under attack, and pushes nobody out.
func (a *Attempts) Forgive(_ context.Context, bucket string, now time.Time) {
	key := keyOf(bucket)
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.open(key, now)
	if w.failures <= 1 {
		a.forget(key)
		return
	}
	w.failures--
	holder := a.previous
	if _, ok := a.current.Get(key); ok {
		holder = a.current
	}
	holder.Set(key, w, cache.NoExpiration)
}

// Learn replaces what is known of the bucket: somebody counts it who knows better.
func (a *Attempts) Learn(bucket string, n int, until time.Time) {
	key := keyOf(bucket)
	a.mu.Lock()
	defer a.mu.Unlock()
	if n <= 0 {
		a.forget(key)
		return
	}
	a.keep(key, window{n, until})
}

// keep puts the window into the current generation, and begins another one when it is full.
func (a *Attempts) keep(key string, w window) {
	if _, ok := a.current.Get(key); !ok && a.current.ItemCount() >= a.half {
		a.current, a.previous = newCache(), a.current
	}
	a.current.Set(key, w, cache.NoExpiration)
}

// forget takes the window from both generations: a bucket that has moved into the current one has left an older state in
// the previous one.
func (a *Attempts) forget(key string) {
	a.current.Delete(key)
	a.previous.Delete(key)
}

// open returns the bucket's window unless it is over. The current generation knows better than the previous one.
func (a *Attempts) open(key string, now time.Time) window {
	found, ok := a.current.Get(key)
	if !ok {
		found, ok = a.previous.Get(key)
	}
	if w, _ := found.(window); ok && now.Before(w.until) {
		return w
	}
	return window{}
}

// keyOf is a digest, so that a bucket costs the same whatever its name's length.
func keyOf(bucket string) string {
	digest := sha256.Sum256([]byte(bucket))
	return string(digest[:])
}
