package clients

import (
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/cache"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const (
	// CacheTTL is how long a client is cached. A change on another node can go unnoticed for that long.
	CacheTTL         = time.Second
	maxCachedClients = 8192
)

// Cache holds recently authenticated clients for CacheTTL.
type Cache struct{ clients *cache.Cache[*store.Client] }

// NewCache returns an empty cache.
func NewCache() *Cache { return &Cache{cache.New[*store.Client](maxCachedClients)} }

// Recall returns a recently authenticated client, or nil.
func (c *Cache) Recall(id string, now time.Time) *store.Client {
	client, _ := c.clients.GetAt(id, now)
	return client
}

// Remember caches a client that has just authenticated.
func (c *Cache) Remember(client *store.Client, now time.Time) {
	c.clients.PutFor(client.ID, client, 1, now, now.Add(CacheTTL))
}

// Forget removes a client, so that its next request reads the store. Callers that change a client must call it.
func (c *Cache) Forget(id string) { c.clients.Forget(id) }
