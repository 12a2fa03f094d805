package memory

import (
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/cache"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const (
	// ClientCacheTTL is how long a client is cached, and so the longest that another node's change to it goes unseen.
	ClientCacheTTL   = time.Second
	maxCachedClients = 8192
)

// ClientCache holds clients that have just authenticated, for ClientCacheTTL.
type ClientCache struct{ clients *cache.Cache[*store.Client] }

// NewClientCache returns an empty cache.
func NewClientCache() *ClientCache { return &ClientCache{cache.New[*store.Client](maxCachedClients)} }

// Recall returns a client that has just authenticated, or nil.
func (c *ClientCache) Recall(id string, now time.Time) *store.Client {
	client, _ := c.clients.GetAt(id, now)
	return client
}

// Remember caches a client that has just authenticated.
func (c *ClientCache) Remember(client *store.Client, now time.Time) {
	c.clients.PutFor(client.ID, client, 1, now, now.Add(ClientCacheTTL))
}

// Forget removes a client, so that its next request reads the store. Callers that change a client call it.
func (c *ClientCache) Forget(id string) { c.clients.Forget(id) }
