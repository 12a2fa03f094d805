// Package cache is a cache bounded by weight. Its entries may expire, and keys that are used once do not evict those in use.
package cache

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	gocache "github.com/patrickmn/go-cache"
)

// Cache maps keys to values. It has two generations. A new entry enters the young one, and so does an entry of the old one when it is
// used. When the young generation weighs half of the maximum, it becomes the old one, and the entries of the former old one are dropped.
// An entry therefore stays if it is used at least once while half of the cache is filled, however many others are put.
//
// Create one with New. It is safe for concurrent use. Get does not allocate for keys of at most 32 bytes.
type Cache[V any] struct {
	most uint64 // the greatest weight of a generation

	generations atomic.Pointer[generations]
	mu          sync.Mutex // held by all writes
	weight      uint64     // of the young generation
}

type generations struct{ young, old *gocache.Cache }

// entry is a value and the time during which it is valid.
type entry[V any] struct {
	value       V
	weight      uint64
	from, until int64 // Unix nanoseconds; until 0: it does not expire
}

// isValid reports whether the entry is valid at now. It is not valid before it was put, as after the clock was set back.
func (e *entry[V]) isValid(now time.Time) bool {
	return e.until == 0 || e.from <= now.UnixNano() && now.UnixNano() < e.until
}

// New returns a cache of at most maxWeight.
func New[V any](maxWeight uint64) *Cache[V] {
	c := &Cache[V]{most: maxWeight / 2}
	c.generations.Store(&generations{newGeneration(), newGeneration()})
	return c
}

// newGeneration returns a map without an expiry of its own, which would need a goroutine and use another clock.
func newGeneration() *gocache.Cache { return gocache.New(gocache.NoExpiration, 0) }

// Get returns the value of a key without expiry.
func (c *Cache[V]) Get(key string) (value V, found bool) { return c.GetAt(key, time.Time{}) }

// GetAt returns the value of a key if it is valid at now.
func (c *Cache[V]) GetAt(key string, now time.Time) (value V, found bool) {
	g := c.generations.Load()
	kept, isYoung := g.young.Get(key)
	if !isYoung {
		if kept, found = g.old.Get(key); !found {
			return value, false
		}
	}
	e := kept.(*entry[V])
	if !e.isValid(now) {
		return value, false
	}
	if !isYoung {
		c.renew(key, e)
	}
	return e.value, true
}

// renew moves an entry of the old generation to the young one, unless it was forgotten or replaced in the meantime.
func (c *Cache[V]) renew(key string, e *entry[V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.generations.Load().old
	if kept, found := old.Get(key); found && kept == any(e) {
		own := strings.Clone(key)
		old.Delete(own)
		c.put(own, e)
	}
}

// Put stores a value without expiry. It does not store one that weighs more than half of the maximum.
func (c *Cache[V]) Put(key string, value V, weight uint64) {
	c.store(key, &entry[V]{value: value, weight: weight})
}

// PutFor stores a value that is valid from one time until another.
func (c *Cache[V]) PutFor(key string, value V, weight uint64, from, until time.Time) {
	c.store(key, &entry[V]{value, weight, from.UnixNano(), until.UnixNano()})
}

// store replaces the entry of a key. It copies the key, which may be a part of a request and would keep it in memory.
func (c *Cache[V]) store(key string, e *entry[V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(key)
	c.put(strings.Clone(key), e)
}

// PutIfAbsent returns the value of a key. It stores value if there is none.
func (c *Cache[V]) PutIfAbsent(key string, value V, weight uint64) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.generations.Load()
	for _, generation := range []*gocache.Cache{g.young, g.old} {
		if kept, found := generation.Get(key); found {
			return kept.(*entry[V]).value
		}
	}
	c.put(strings.Clone(key), &entry[V]{value: value, weight: weight})
	return value
}

// put stores an entry that is in neither generation. The caller holds mu.
func (c *Cache[V]) put(key string, e *entry[V]) {
	if e.weight > c.most {
		return
	}
	g := c.generations.Load()
	if c.weight+e.weight > c.most {
		g = &generations{newGeneration(), g.young}
		c.generations.Store(g)
		c.weight = 0
	}
	g.young.Set(key, e, gocache.NoExpiration)
	c.weight += e.weight
}

// Forget removes a key.
func (c *Cache[V]) Forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(key)
}

// forget removes a key. The caller holds mu.
func (c *Cache[V]) forget(key string) {
	g := c.generations.Load()
	if kept, found := g.young.Get(key); found {
		c.weight -= kept.(*entry[V]).weight
		g.young.Delete(key)
	}
	g.old.Delete(key)
}

// Len returns the number of entries.
func (c *Cache[V]) Len() int {
	g := c.generations.Load()
	return g.young.ItemCount() + g.old.ItemCount()
}
