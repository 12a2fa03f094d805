package token

import (
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/cache"
)

const (
	// UsernameCacheTTL is how long a name is cached. The node that changes a user's address forgets the old one at once; others may use
	// it for this long.
	UsernameCacheTTL = time.Minute
	maxUsernames     = 8192
)

// UsernameCache caches the names of users whose tokens are introspected, which then needs no read from the store. It does not say whether a
// user is active. It is bounded, and holds only users that exist.
type UsernameCache struct{ names *cache.Cache[string] }

// NewUsernameCache returns an empty cache.
func NewUsernameCache() *UsernameCache { return &UsernameCache{cache.New[string](maxUsernames)} }

// Get returns a user's name. A nil cache has none.
func (c *UsernameCache) Get(userID string, now time.Time) (string, bool) {
	if c == nil {
		return "", false
	}
	return c.names.GetAt(userID, now)
}

// Put caches a user's name.
func (c *UsernameCache) Put(userID, name string, now time.Time) {
	if c != nil {
		c.names.PutFor(userID, name, 1, now, now.Add(UsernameCacheTTL))
	}
}

// Forget removes a user's name. Callers that change a user call it.
func (c *UsernameCache) Forget(userID string) {
	if c != nil {
		c.names.Forget(userID)
	}
}
