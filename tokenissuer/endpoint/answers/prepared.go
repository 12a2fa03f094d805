package answers

import (
	"maps"
	"sync/atomic"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// prepared caches parts of responses that are sent in floods. Its keys come only from the code, so there are few. Beyond maxPrepared
// entries, it starts over.
type prepared[T any] struct {
	kept atomic.Pointer[map[refusalKey]T]
}

const maxPrepared = 64

// get returns the cached value, or builds and caches it.
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
	p.kept.CompareAndSwap(before, &next) // if another request was faster, the value is built again next time
	return value
}

// refusalKey holds everything that the body and challenge of a common refusal depend on, for one route.
type refusalKey struct {
	code     oauth.ErrorCode
	sentence string
	scope    string // of the challenge; empty: the route's
}

var preparedBodies prepared[[]byte]

// isCommon reports whether an error's response does not depend on the request, as for missing and invalid tokens. Their descriptions are
// constants.
func isCommon(e *oauth.Error) bool {
	return (e.Code == oauth.InvalidToken || e.Code == oauth.Unauthorized) && e.Scope == "" && len(e.ACRValues) == 0 && e.MaxAge == 0
}
