package trust

import (
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/cache"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

const (
	maxAnswers     = 65536
	maxAnswerBytes = 64 << 20
	maxRefusals    = 16384
	// leastWeight makes one weight enforce both limits: at most maxAnswers responses fit.
	leastWeight = maxAnswerBytes / maxAnswers
)

// answerCache caches introspection responses. Refusals have their own cache, so that a flood of bad tokens does not evict
// good ones.
type answerCache struct {
	answers  *cache.Cache[*token.Introspected]
	refusals *cache.Cache[*oauth.Error]
}

func newAnswerCache() answerCache {
	return answerCache{cache.New[*token.Introspected](maxAnswerBytes), cache.New[*oauth.Error](maxRefusals)}
}

// get returns the cached response or error for a token that is valid at that time, or two nils.
func (c *answerCache) get(key string, now time.Time) (*token.Introspected, error) {
	if said, ok := c.answers.GetAt(key, now); ok {
		return said, nil
	}
	if refusal, ok := c.refusals.GetAt(key, now); ok {
		return nil, refusal
	}
	return nil, nil
}

// put caches a response, at most until the token expires.
func (c *answerCache) put(key string, said *token.Introspected, from time.Time, life time.Duration) {
	until := from.Add(life)
	if end := said.ExpiresAt(); end.Before(until) {
		until = end
	}
	c.answers.PutFor(key, said, uint64(max(leastWeight, said.Size())), from, until)
}

// putRefusal caches the error for a token that is inactive, or whose introspection failed.
func (c *answerCache) putRefusal(key string, err *oauth.Error, from time.Time, life time.Duration) {
	c.refusals.PutFor(key, err, 1, from, from.Add(life))
}
