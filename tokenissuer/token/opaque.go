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
	// opaqueOverhead is the memory of an entry besides its token, in bytes.
	opaqueOverhead = 320
	// opaqueFresh is how long a credential is not read again. Revocations take effect at once; changes to the user's name do not.
	opaqueFresh = time.Minute
	// opaqueRetry is the time until the next attempt after the store failed.
	opaqueRetry = 5 * time.Second
	// opaqueStale is how long a credential is used while the store fails. The store keeps its revocations for longer.
	opaqueStale = time.Hour
)

// OpaqueKey is a digest of a credential and what it is bound to.
type OpaqueKey = [sha256.Size]byte

// EnterStore registers a reader of the store. The reader uses the returned context, and calls leave afterwards.
type EnterStore func(context.Context) (ctx context.Context, leave func(), err error)

// LoadOpaque reads the token that a credential stands for, or nil if the credential is not valid.
type LoadOpaque func(context.Context) (*AccessToken, error)

// OpaqueCache caches the tokens that opaque credentials stand for: session cookies and personal access tokens. It reads each from the store at
// first sight, and again after a minute. Create one with NewOpaqueCache.
type OpaqueCache struct {
	verifier *Verifier
	enter    EnterStore
	entries  *cache.Cache[*opaqueEntry]
}

// opaqueEntry is a credential that was read.
type opaqueEntry struct {
	token      *AccessToken
	generation atomic.Uint64
	// loaded is the time of the last read, and tried that of the last attempt, in Unix nanoseconds.
	loaded int64
	tried  atomic.Int64
}

// NewOpaqueCache returns an empty cache of at most maxBytes. The verifier checks the cached tokens against the revocations.
func NewOpaqueCache(verifier *Verifier, enter EnterStore, maxBytes uint64) *OpaqueCache {
	return &OpaqueCache{verifier: verifier, enter: enter, entries: cache.New[*opaqueEntry](maxBytes)}
}

// Len returns the number of credentials in memory.
func (c *OpaqueCache) Len() int { return c.entries.Len() }

// Recall returns the token of a credential that was read lately and is valid. For any other it returns known false and a nil error; use Read.
// It does not allocate.
func (c *OpaqueCache) Recall(key OpaqueKey) (t *AccessToken, known bool, err error) {
	e, found := c.entries.Get(string(key[:]))
	if !found {
		return nil, false, nil
	}
	switch err := c.check(e); {
	case isInvalid(err): // it has ended, or its user has changed
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

// Read reads the token of a credential that Recall did not know, or nil if the credential is not valid. It calls admit, unless it is nil,
// before it reads a credential that is not cached. The error is temporarily_unavailable.
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
		return known.token, c.check(known) // until the revocations are too old, as with access tokens
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

// isDue reports whether the caller must read the credential again. It returns true to one of several concurrent callers.
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

// since returns the time since a moment.
func since(now time.Time, unixNano int64) time.Duration { return now.Sub(time.Unix(0, unixNano)) }
