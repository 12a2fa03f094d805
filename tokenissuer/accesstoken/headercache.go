package accesstoken

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

// maxSeenHeaders is how many headers are remembered. An issuer has about one a key.
const maxSeenHeaders = 64

// headerCache remembers the headers of good tokens as they are spelled, so that they are not read each time. A header that is
// well formed says nothing yet: everything in it is judged for every token.
type headerCache struct {
	mu    sync.Mutex
	known atomic.Pointer[map[string]*joseHeader] // never changed
}

// seenHeaders are of all issuers: how a header is to be read does not depend on whose it is.
var seenHeaders headerCache

func (c *headerCache) find(part string) *joseHeader {
	if known := c.known.Load(); known != nil {
		return (*known)[part]
	}
	return nil
}

// add remembers a header of a token whose signature is good. When there are too many it begins anew: somebody writes each
// of his headers differently.
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
	next[strings.Clone(part)] = header // the part would keep the whole token
	c.known.Store(&next)
}
