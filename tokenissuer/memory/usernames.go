package memory

import (
	"time"

	"github.com/maypok86/otter/v2"
)

const (
	// UsernameCacheTTL is how long it is remembered what a user is called. The node that gives a user another address forgets
	// the old one at once, and the others go by it for so long. No other user gets the id.
	UsernameCacheTTL = time.Minute
	maxUsernames     = 8192
)

// UsernameCache remembers what the users are called whose tokens are asked about, so that the question for an access token
// costs no second one to the store. It says nothing of whether a user or a token lives. It is bounded, and holds only users
// that exist.
type UsernameCache struct {
	names *otter.Cache[string, rememberedName]
}

type rememberedName struct {
	name  string
	until time.Time
}

// NewUsernameCache returns an empty cache.
func NewUsernameCache() *UsernameCache {
	return &UsernameCache{otter.Must(&otter.Options[string, rememberedName]{MaximumSize: maxUsernames})}
}

// Get returns what a user is called; false when it is not known, or no more. A nil cache knows nothing.
func (c *UsernameCache) Get(userID string, now time.Time) (string, bool) {
	if c == nil {
		return "", false
	}
	known, ok := c.names.GetIfPresent(userID)
	return known.name, ok && now.Before(known.until)
}

// Put remembers what a user is called.
func (c *UsernameCache) Put(userID, name string, now time.Time) {
	if c != nil {
		c.names.Set(userID, rememberedName{name, now.Add(UsernameCacheTTL)})
	}
}

// Forget has the directory asked again what a user is called. Whoever changes the user calls it.
func (c *UsernameCache) Forget(userID string) {
	if c != nil {
		c.names.Invalidate(userID)
	}
}
