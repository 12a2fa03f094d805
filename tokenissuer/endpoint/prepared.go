package endpoint

import (
	"maps"
	"sync/atomic"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

// prepared keeps parts of the answers that floods get, so that each is made once. What it is asked for comes from the code
// and the configuration alone, so it is little; should it be more than maxPrepared, after many reloads, it begins anew.
type prepared[K comparable, T any] struct {
	kept atomic.Pointer[map[K]T]
}

const maxPrepared = 256

// get returns what is kept under the key, or makes and keeps it.
func (p *prepared[K, T]) get(key K, build func() T) T {
	before := p.kept.Load()
	if before != nil {
		if value, ok := (*before)[key]; ok {
			return value
		}
	}
	value, next := build(), make(map[K]T)
	if before != nil && len(*before) < maxPrepared {
		next = maps.Clone(*before)
	}
	next[key] = value
	p.kept.CompareAndSwap(before, &next) // else another request has kept something, and this one is made again
	return value
}

// refusalKey is what body and challenge of a common refusal depend on beside the Challenge.
type refusalKey struct {
	code     tokenissuer.ErrorCode
	sentence string
}

// challengeKey is what a challenge depends on.
type challengeKey struct {
	Challenge
	refusalKey
}

var (
	preparedChallenges prepared[challengeKey, string]
	preparedBodies     prepared[refusalKey, []byte]
)

// isCommon tells whether an error says nothing of its request to the client: those of tokens that are bad, and of requests that
// have none. Their sentences are constants.
func isCommon(e *tokenissuer.Error) bool {
	return (e.Code == tokenissuer.InvalidToken || e.Code == tokenissuer.Unauthorized) && e.Scope == "" && len(e.ACRValues) == 0 && e.MaxAge == 0
}
