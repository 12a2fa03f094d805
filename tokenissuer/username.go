package tokenissuer

import (
	"context"
	"errors"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const (
	// usernameCacheTTL is how long it is remembered what a user is called. The node that gives a user another address forgets
	// the old one at once, and the others go by it for so long. No other user gets the id.
	usernameCacheTTL = time.Minute
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

// Forget has the directory asked again what a user is called. Whoever changes the user calls it.
func (c *UsernameCache) Forget(userID string) {
	if c != nil {
		c.names.Invalidate(userID)
	}
}

// username returns the e-mail address of a user, empty when there is none of that id.
func (k *Records) username(ctx context.Context, userID string) (string, error) {
	now := k.Now()
	if k.Usernames != nil {
		if known, ok := k.Usernames.names.GetIfPresent(userID); ok && now.Before(known.until) {
			return known.name, nil
		}
	}
	user, err := k.Directory.User(ctx, userID)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", oauth.Unavailable("directory_unavailable", err)
	}
	if k.Usernames != nil {
		k.Usernames.names.Set(userID, rememberedName{user.Email, now.Add(usernameCacheTTL)})
	}
	return user.Email, nil
}
