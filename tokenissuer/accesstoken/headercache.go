package accesstoken

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

// maxSeenHeaders bounds the cache. An issuer uses about one header for each key.
const maxSeenHeaders = 64

// headerCache caches parsed headers of tokens with a valid signature, by their spelling. Every token's header is still
// checked; the cache only saves the parsing.
type headerCache struct {
	mu    sync.Mutex
	known atomic.Pointer[map[string]*joseHeader] // the map is immutable
}

// seenHeaders serves all issuers, because parsing does not depend on the issuer.
var seenHeaders headerCache

func (c *headerCache) find(part string) *joseHeader {
	if known := c.known.Load(); known != nil {
		return (*known)[part]
	}
	return nil
}

// add caches the header of a token with a valid signature. A full cache is emptied: some issuer varies its headers.
func (c *headerCache) add(part string, header *joseHeader) {
	if c.find(part) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	next := make(map[string]*joseHeader)
	if known := c.known.Load(); known != nil && len(*known) < maxSeenHeaders {
		maps.Copy(next, *known)
	}
	next[strings.Clone(part)] = header // a substring would retain the whole token
	c.known.Store(&next)
}
