package trust

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// defaultMaxStale is the default of Settings.MaxStale.
const defaultMaxStale = 24 * time.Hour

// Reasons why no key is found that a fetch may resolve.
const (
	reasonUnknown   = keys.ReasonKeyUnknown
	reasonNotLoaded = "keys_not_loaded"
	reasonStale     = "keys_stale"
)

// remoteKeys caches the keys of one external issuer. It is the accesstoken.KeySource for its tokens.
type remoteKeys struct {
	settings      Settings
	openID        *openIDMetadata // nil: the issuer's access tokens are verified, not its ID tokens
	owner         string          // whose the keys are, for the operator; empty: an issuer's
	client        *client
	now           func() time.Time
	warn          func(message string, err error)
	snapshotCache atomic.Pointer[snapshotCache]

	known      atomic.Pointer[knowledge]
	generation atomic.Uint64
	settled    chan time.Duration // receives the time until the next fetch whenever a fetch ends

	mu       sync.Mutex // guards the fields below, and writes to known
	fetching bool
	fetched  chan struct{} // closed when the latest fetch ends
	demanded time.Time     // time of the last fetch that a token caused
	rest     time.Duration // minimum time until a token may cause another
	failures int           // since the last successful fetch
	ended    bool          // Run has returned

	place place // used only by the running fetch
}

// knowledge is one immutable state of what is known.
type knowledge struct {
	set *keySet // nil: no keys yet
	// current reports whether the last fetch succeeded. If not, an unknown kid may still belong to the issuer.
	current bool
	failed  error // why the last fetch failed
	// failedAt is when the last fetch failed, and since when the first one after the last good one did.
	failedAt, since time.Time
	retryAt         time.Time // when the next fetch is due
}

// keySet is a parsed key set.
type keySet struct {
	published []keys.PublishedKey
	usable    *keys.PublishedSet
	uri       string
	document  []byte
	metadata  []byte // of an OpenID provider; else nil
	fetchedAt time.Time
}

func newRemoteKeys(settings Settings, c *client, options Options) *remoteKeys {
	k := &remoteKeys{settings: settings, client: c, now: options.Now, warn: options.Warn, settled: make(chan time.Duration, 1)}
	if k.settings.MaxStale == 0 {
		k.settings.MaxStale = defaultMaxStale
	}
	k.known.Store(&knowledge{})
	return k
}

// Find returns the key with that kid for that algorithm, without blocking. For a token without kid it returns the only
// key for its algorithm; it never tries several.
func (k *remoteKeys) Find(kid string, algorithm oauth.Algorithm) (*keys.VerificationKey, error) {
	known := k.known.Load()
	if err := k.usable(known); err != nil {
		return nil, err
	}
	key, reason := known.set.usable.Find(kid, algorithm)
	switch {
	case key != nil:
		return key, nil
	case !known.current && reason == reasonUnknown:
		return nil, k.unavailable(known, reasonStale)
	}
	return nil, oauth.NewError(oauth.InvalidToken, reason)
}

// Generation changes whenever the keys do.
func (k *remoteKeys) Generation() uint64 { return k.generation.Load() }

// usable returns an error if the known keys are missing or stale.
func (k *remoteKeys) usable(known *knowledge) error {
	switch {
	case known.set == nil:
		return k.unavailable(known, reasonNotLoaded)
	case k.now().Sub(known.set.fetchedAt) > k.settings.MaxStale:
		return k.unavailable(known, reasonStale)
	}
	return nil
}

// unavailable returns an error whose Retry-After is the next fetch.
func (k *remoteKeys) unavailable(known *knowledge, reason string) error {
	e := oauth.Unavailable(reason, known.failed)
	e.RetryAfter = min(max(known.retryAt.Sub(k.now()), time.Second), maxRetry)
	return e
}

// lacksKey reports whether a fetch may resolve the error.
func lacksKey(err error) bool {
	switch oauth.AsError(err).Reason {
	case reasonUnknown, reasonNotLoaded, reasonStale:
		return true
	}
	return false
}

// settle stores the result of a fetch. A failed one leaves the keys in use until they are stale.
func (k *remoteKeys) settle(set *keySet, life time.Duration, err error) {
	k.mu.Lock()
	before := k.known.Load()
	next := &knowledge{set: set, current: true}
	if err == nil {
		k.failures = 0
		life = min(life, max(k.settings.MaxStale/2, time.Second)) // fetch again before the keys are stale
	} else {
		next = &knowledge{set: before.set, failed: err, failedAt: k.now(), since: before.since}
		if next.since.IsZero() {
			next.since = next.failedAt
		}
		life = retryAfter(k.failures)
		k.failures++
	}
	pause := early(life)
	next.retryAt = k.now().Add(pause)
	changed := k.replace(next)
	if changed && err == nil {
		k.rest = shortCoolDown
	}
	k.fetching = false
	k.plan(pause)
	k.mu.Unlock()

	switch {
	case err == nil:
		k.keep(set, changed)
	case before.failed == nil || before.failed.Error() != err.Error(): // warn once for repeated failures
		k.warn("the keys of "+k.whose()+" cannot be fetched", err)
	}
}

// restore uses the keys of a snapshot unless there are keys already.
func (k *remoteKeys) restore(set *keySet) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if before := k.known.Load(); before.set == nil {
		next := *before
		next.set = set
		k.replace(&next)
	}
}

// replace sets what is known, and reports whether the keys changed. The caller holds mu.
func (k *remoteKeys) replace(next *knowledge) (changed bool) {
	before := k.known.Swap(next)
	if changed = !before.set.equal(next.set); changed {
		k.generation.Add(1)
	}
	return changed
}

// equal reports whether both sets have the same keys and the same metadata.
func (s *keySet) equal(other *keySet) bool {
	if s == nil || other == nil {
		return s == other
	}
	return s.usable.Equal(other.usable) && bytes.Equal(s.metadata, other.metadata)
}

// readKeySet parses a key set and applies the configured list of algorithms.
func (k *remoteKeys) readKeySet(document []byte, uri string, fetchedAt time.Time) (*keySet, error) {
	algorithms := k.settings.Algorithms
	if len(algorithms) == 0 {
		algorithms = oauth.TrustedAlgorithms
	}
	published, err := keys.ParseJWKS(document, algorithms)
	if err != nil {
		return nil, fmt.Errorf("the keys at %s: %w", uri, err)
	}
	return &keySet{
		published: published, uri: uri, document: document, fetchedAt: fetchedAt, usable: keys.NewPublishedSet(published),
	}, nil
}

// guarded runs code that handles foreign data, and turns a panic into an error.
func guarded(run func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
		err = brief(err)
	}()
	return run()
}

// maxErrorText bounds an error's text, which may quote foreign data.
const maxErrorText = 1 << 10

func brief(err error) error {
	if err == nil || len(err.Error()) <= maxErrorText {
		return err
	}
	return errors.New(err.Error()[:maxErrorText] + "…")
}
