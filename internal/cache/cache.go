// Package cache remembers what is cheaper to keep than to find out again. It is the one cache of the program: bounded in bytes or in number, with a
// time for each entry, and safe against floods of keys that come once.
package cache

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	gocache "github.com/patrickmn/go-cache"
)

// Cache maps keys to values. It has two generations: new entries enter the young one, and an entry of the old one that is used enters it again. When
// the young one holds half of what the cache may, it becomes the old one, and the entries of the old one are forgotten. So an entry stays that is used
// at least once while half of the cache is filled, however many others come by.
//
// Make one with New. It is safe for concurrent use, and Get does not allocate for keys of at most 32 bytes.
type Cache[V any] struct {
	most uint64 // what a generation may hold

	generations atomic.Pointer[generations]
	mu          sync.Mutex // held by all writes
	weight      uint64     // of the young generation
}

type generations struct{ young, old *gocache.Cache }

// entry is a value with the time in which it is good.
type entry[V any] struct {
	value       V
	weight      uint64
	from, until time.Time // zero: at any time
}

// New returns a cache whose entries weigh at most so much together.
func New[V any](maxWeight uint64) *Cache[V] {
	c := &Cache[V]{most: maxWeight / 2}
	c.generations.Store(&generations{newGeneration(), newGeneration()})
	return c
}

// newGeneration has no expiry of its own, which would go by another clock, and so no goroutine.
func newGeneration() *gocache.Cache { return gocache.New(gocache.NoExpiration, 0) }

// Get returns the value of a key that was put for ever.
func (c *Cache[V]) Get(key string) (value V, found bool) { return c.GetAt(key, time.Time{}) }

// GetAt returns the value of a key that is good at a time.
func (c *Cache[V]) GetAt(key string, now time.Time) (value V, found bool) {
	g := c.generations.Load()
	kept, isYoung := g.young.Get(key)
	if !isYoung {
		if kept, found = g.old.Get(key); !found {
			return value, false
		}
	}
	e := kept.(*entry[V])
	if !e.until.IsZero() && (now.Before(e.from) || !now.Before(e.until)) { // also when the clock was set back
		return value, false
	}
	if !isYoung {
		c.renew(key, e)
	}
	return e.value, true
}

// renew puts an entry of the old generation into the young one, unless it was dropped or replaced meanwhile.
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

// Put remembers a value for ever, or until there is no room. What weighs more than half of the cache is not remembered.
func (c *Cache[V]) Put(key string, value V, weight uint64) {
	c.PutFor(key, value, weight, time.Time{}, time.Time{})
}

// PutFor remembers a value that is good from a time until another.
func (c *Cache[V]) PutFor(key string, value V, weight uint64, from, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(key)
	c.put(strings.Clone(key), &entry[V]{value, weight, from, until}) // a key of a request would keep all of the request
}

// PutIfAbsent returns the value of a key, which becomes this one if there is none.
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

// Drop forgets a key.
func (c *Cache[V]) Drop(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(key)
}

// drop forgets a key. The caller holds mu.
func (c *Cache[V]) drop(key string) {
	g := c.generations.Load()
	if kept, found := g.young.Get(key); found {
		c.weight -= kept.(*entry[V]).weight
		g.young.Delete(key)
	}
	g.old.Delete(key)
}

// Clear forgets everything.
func (c *Cache[V]) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.generations.Store(&generations{newGeneration(), newGeneration()})
	c.weight = 0
}

// Len returns the number of entries.
func (c *Cache[V]) Len() int {
	g := c.generations.Load()
	return g.young.ItemCount() + g.old.ItemCount()
}
