package memory

import (
	"sync"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// ClientCacheTTL is how long a success is remembered: the longest that another node's change to a client goes unseen.
const (
	ClientCacheTTL   = time.Second
	maxCachedClients = 8192
)

// ClientCache remembers clients that have just authenticated. It is bounded, and holds only clients that exist. Nothing in it
// is worth more than a second, so it begins anew when it is full, and needs no order in which clients leave.
type ClientCache struct {
	mu      sync.RWMutex
	clients map[string]rememberedClient
}

type rememberedClient struct {
	client *store.Client
	until  time.Time
}

// NewClientCache returns an empty cache.
func NewClientCache() *ClientCache { return &ClientCache{clients: make(map[string]rememberedClient)} }

// Recall returns a client that has just authenticated; nil when there is none of that id.
func (c *ClientCache) Recall(id string, now time.Time) *store.Client {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if r, ok := c.clients[id]; ok && now.Before(r.until) {
		return r.client
	}
	return nil
}

// Remember keeps a client that has just authenticated for ClientCacheTTL.
func (c *ClientCache) Remember(client *store.Client, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.clients[client.ID]; !known && len(c.clients) >= maxCachedClients {
		clear(c.clients)
	}
	c.clients[client.ID] = rememberedClient{client: client, until: now.Add(ClientCacheTTL)}
}

// Forget makes the next request of the client ask the directory. Whoever changes a client calls it.
func (c *ClientCache) Forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.clients, id)
}
