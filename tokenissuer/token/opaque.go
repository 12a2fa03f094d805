// Package opaque remembers what credentials stand for that say nothing themselves: session cookies and personal access tokens. Each is read
// from the store at first sight, and again when it has not been for a minute; in between it costs no more than a token that is signed.
package token

import (
	"context"
	"crypto/sha256"
	"sync/atomic"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/cache"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

const (
	// opaqueOverhead is what an entry takes in the cache, beside what it holds.
	opaqueOverhead = 320
	// opaqueFresh is how long a credential is not read again: what ends it comes by the revocations, but not what its user is called.
	opaqueFresh = time.Minute
	// opaqueRetry is how soon it is read again when the store did not answer.
	opaqueRetry = 5 * time.Second
	// opaqueStale is how long it goes on while the store does not answer. Its revocations are kept for longer.
	opaqueStale = time.Hour
)

// OpaqueKey is a digest of a credential and of what it is bound to.
type OpaqueKey = [sha256.Size]byte

// EnterStore registers somebody who asks the store. The context that it returns bounds how long that may take.
type EnterStore func(context.Context) (ctx context.Context, leave func(), err error)

// LoadOpaque reads what a credential stands for; nil: nothing, or nothing any more.
type LoadOpaque func(context.Context) (*AccessToken, error)

// OpaqueCache remembers what credentials stand for. Make one with New.
type OpaqueCache struct {
	verifier *Verifier
	enter    EnterStore
	entries  *cache.Cache[*opaqueEntry]
}

// opaqueEntry is a credential that was read.
type opaqueEntry struct {
	token      *AccessToken
	generation atomic.Uint64
	// loaded is when it was read from the store, and tried when that was last attempted, in Unix nanoseconds.
	loaded int64
	tried  atomic.Int64
}

// NewOpaqueCache returns a cache that is empty and holds at most so many bytes. The verifier checks what is remembered against the revocations.
func NewOpaqueCache(verifier *Verifier, enter EnterStore, maxBytes uint64) *OpaqueCache {
	return &OpaqueCache{verifier: verifier, enter: enter, entries: cache.New[*opaqueEntry](maxBytes)}
}

// Len returns the number of credentials in memory.
func (c *OpaqueCache) Len() int { return c.entries.Len() }

// Recall returns what a credential stands for that was read lately, and is good. It does not allocate. It returns known false and a nil error
// for any other, which Read decides about.
func (c *OpaqueCache) Recall(key OpaqueKey) (t *AccessToken, known bool, err error) {
	e, found := c.entries.Get(string(key[:]))
	if !found {
		return nil, false, nil
	}
	switch err := c.check(e); {
	case isInvalid(err): // it has ended, or its user has changed and it goes on
		c.entries.Forget(string(key[:]))
		return nil, false, nil
	case err != nil:
		return nil, true, err
	}
	if e.isDue(c.verifier.Now()) {
		return nil, false, nil
	}
	return e.token, true, nil
}

// Read reads what a credential stands for, after Recall did not know it; nil: nothing, or nothing any more. Admit, unless it is nil, is called
// before the store is asked about a credential that is not in memory. The error is temporarily_unavailable.
func (c *OpaqueCache) Read(ctx context.Context, key OpaqueKey, admit Admission, load LoadOpaque) (*AccessToken, error) {
	known, found := c.entries.Get(string(key[:]))
	if admit == nil || found {
		admit = admitted
	}
	done, err := admit()
	if err != nil {
		return nil, err
	}
	now := c.verifier.Now()
	loaded, err := c.load(ctx, now, load)
	done()
	switch {
	case err != nil && found && since(now, known.loaded) < opaqueStale:
		return known.token, c.check(known) // as with access tokens, until the revocations are too old
	case err != nil:
		return nil, err
	case loaded == nil:
		c.entries.Forget(string(key[:]))
		return nil, nil
	}
	if err := c.check(loaded); err != nil {
		if isInvalid(err) {
			return nil, nil
		}
		return nil, err
	}
	c.entries.Put(string(key[:]), loaded, uint64(opaqueOverhead+loaded.token.Size()))
	return loaded.token, nil
}

// admitted admits all callers.
func admitted() (func(), error) { return func() {}, nil }

func isInvalid(err error) bool { return err != nil && oauth.AsError(err).Code == oauth.InvalidToken }

func (c *OpaqueCache) load(ctx context.Context, now time.Time, load LoadOpaque) (*opaqueEntry, error) {
	ctx, leave, err := c.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	token, err := load(ctx)
	if token == nil || err != nil {
		return nil, err
	}
	e := &opaqueEntry{token: token, loaded: now.UnixNano()}
	e.tried.Store(e.loaded)
	return e, nil
}

func (c *OpaqueCache) check(e *opaqueEntry) error {
	return c.verifier.CheckUnsigned(e.token, &e.generation)
}

// isDue reports whether the caller is to read the credential again. Of concurrent callers one is.
func (e *opaqueEntry) isDue(now time.Time) bool {
	tried := e.tried.Load()
	if age := since(now, e.loaded); age >= 0 && age < opaqueFresh {
		return false
	}
	if age := since(now, tried); age >= 0 && age < opaqueRetry && since(now, e.loaded) < opaqueStale {
		return false
	}
	return e.tried.CompareAndSwap(tried, now.UnixNano()) || since(now, e.loaded) >= opaqueStale
}

// since is how long ago a moment was.
func since(now time.Time, unixNano int64) time.Duration { return now.Sub(time.Unix(0, unixNano)) }
