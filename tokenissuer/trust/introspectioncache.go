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
	// leastWeight makes one weight keep both bounds: no more answers than maxAnswers can be this light.
	leastWeight = maxAnswerBytes / maxAnswers
)

// answerCache holds what an issuer has said of tokens. Refusals have a place of their own, so that a flood of bad tokens
// pushes no good one out. Both hold pointers, as the cache of verified tokens does: each other kind of value is a quarter of a
// megabyte of the program.
type answerCache struct {
	answers  *otter.Cache[[sha256.Size]byte, *answer]
	refusals *otter.Cache[[sha256.Size]byte, *refusal]
}

// answer is about an active token.
type answer struct {
	period
	said *accesstoken.Introspected
}

// refusal is about a token that is not good, or of which the issuer could not say anything.
type refusal struct {
	period
	err *oauth.Error
}

// period is when something stands. A clock that was set back is not in it either.
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

// get returns what stands at that time; two nils: nothing does.
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

// put keeps an answer, but never beyond the token's end.
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
