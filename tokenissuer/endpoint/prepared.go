package endpoint

import (
	"maps"
	"sync/atomic"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// prepared keeps parts of the answers that floods get, so that each is made once. What it is asked for comes from the code
// alone, so it is little; should it ever be more than maxPrepared, it begins anew.
type prepared[T any] struct {
	kept atomic.Pointer[map[refusalKey]T]
}

const maxPrepared = 64

// get returns what is kept under the key, or makes and keeps it.
func (p *prepared[T]) get(key refusalKey, build func() T) T {
	before := p.kept.Load()
	if before != nil {
		if value, ok := (*before)[key]; ok {
			return value
		}
	}
	value, next := build(), make(map[refusalKey]T)
	if before != nil && len(*before) < maxPrepared {
		next = maps.Clone(*before)
	}
	next[key] = value
	p.kept.CompareAndSwap(before, &next) // else another request has kept something, and this one is made again
	return value
}

// refusalKey is what the body of a common refusal depends on, and its challenge on one route.
type refusalKey struct {
	code     oauth.ErrorCode
	sentence string
	scope    string // of the challenge; empty: that of the route
}

var preparedBodies prepared[[]byte]

// isCommon reports whether an error says nothing of its request to the client: those of tokens that are bad, and of requests that
// have none. Their sentences are constants.
func isCommon(e *oauth.Error) bool {
	return (e.Code == oauth.InvalidToken || e.Code == oauth.Unauthorized) && e.Scope == "" && len(e.ACRValues) == 0 && e.MaxAge == 0
}
