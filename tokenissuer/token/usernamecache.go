package token

import (
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/cache"
)

const (
	// UsernameCacheTTL is how long it is remembered what a user is called. The node that gives a user another address forgets
	// the old one at once, and the others go by it for so long. No other user gets the id.
	UsernameCacheTTL = time.Minute
	maxUsernames     = 8192
)

// UsernameCache remembers what the users are called whose tokens are asked about, so that the question for an access token
// costs no second one to the store. It does not say whether a user or a token lives. It is bounded, and holds only users
// that exist.
type UsernameCache struct{ names *cache.Cache[string] }

// NewUsernameCache returns an empty cache.
func NewUsernameCache() *UsernameCache { return &UsernameCache{cache.New[string](maxUsernames)} }

// Get returns what a user is called; false when it is not known. A nil cache knows nothing.
func (c *UsernameCache) Get(userID string, now time.Time) (string, bool) {
	if c == nil {
		return "", false
	}
	return c.names.GetAt(userID, now)
}

// Put remembers what a user is called.
func (c *UsernameCache) Put(userID, name string, now time.Time) {
	if c != nil {
		c.names.PutFor(userID, name, 1, now, now.Add(UsernameCacheTTL))
	}
}

// Forget has the directory asked again what a user is called. Callers that change a user call it.
func (c *UsernameCache) Forget(userID string) {
	if c != nil {
		c.names.Forget(userID)
	}
}
