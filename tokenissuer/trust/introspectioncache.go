package trust

import (
	"crypto/sha256"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

const (
	maxAnswers     = 65536
	maxAnswerBytes = 64 << 20
	maxRefusals    = 16384
	// leastWeight makes one weight enforce both limits: at most maxAnswers responses fit.
	leastWeight = maxAnswerBytes / maxAnswers
)

// answerCache caches introspection responses. Refusals have their own cache, so that a flood of bad tokens does not evict
// good ones. Both caches hold pointers like the cache of verified tokens, because each further instantiation of otter
// adds a quarter of a megabyte to the binary.
type answerCache struct {
	answers  *otter.Cache[[sha256.Size]byte, *answer]
	refusals *otter.Cache[[sha256.Size]byte, *refusal]
}

// answer is the response for an active token.
type answer struct {
	period
	said *accesstoken.Introspected
}

// refusal is the error for a token that is inactive, or whose introspection failed.
type refusal struct {
	period
	err *oauth.Error
}

// period is when a cached value is valid. It excludes times before the value was stored, as after a clock was set back.
type period struct{ from, until time.Time }

func (p period) holds(now time.Time) bool { return !now.Before(p.from) && now.Before(p.until) }

func newAnswerCache() *answerCache {
	return &answerCache{
		answers: otter.Must(&otter.Options[[sha256.Size]byte, *answer]{
			MaximumWeight: maxAnswerBytes,
			Weigher:       func(_ [sha256.Size]byte, a *answer) uint32 { return max(leastWeight, a.said.Size()) },
		}),
		refusals: otter.Must(&otter.Options[[sha256.Size]byte, *refusal]{MaximumSize: maxRefusals}),
	}
}

// get returns the cached value valid at that time, or two nils.
func (c *answerCache) get(key [sha256.Size]byte, now time.Time) (*accesstoken.Introspected, error) {
	if a, ok := c.answers.GetIfPresent(key); ok {
		if a.holds(now) {
			return a.said, nil
		}
		c.answers.Invalidate(key)
	}
	if r, ok := c.refusals.GetIfPresent(key); ok {
		if r.holds(now) {
			return nil, r.err
		}
		c.refusals.Invalidate(key)
	}
	return nil, nil
}

// put caches a response, at most until the token expires.
func (c *answerCache) put(key [sha256.Size]byte, said *accesstoken.Introspected, from time.Time, life time.Duration) {
	until := from.Add(life)
	if end := said.ExpiresAt(); end.Before(until) {
		until = end
	}
	c.answers.Set(key, &answer{period{from, until}, said})
}

func (c *answerCache) putRefusal(key [sha256.Size]byte, err *oauth.Error, from time.Time, life time.Duration) {
	c.refusals.Set(key, &refusal{period{from, from.Add(life)}, err})
}
