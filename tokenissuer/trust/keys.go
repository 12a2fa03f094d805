package trust

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// defaultMaxStale is how old keys may get that cannot be fetched again.
const defaultMaxStale = 24 * time.Hour

// Reasons why a token cannot be judged with the keys that there are. A fetch may mend each of them.
const (
	reasonUnknown   = "key_unknown"
	reasonNotLoaded = "keys_not_loaded"
	reasonStale     = "keys_stale"
)

// remoteKeys are the keys of one external issuer, as far as they are known: the tokenissuer.KeySource of its tokens.
type remoteKeys struct {
	settings Settings
	client   *client
	now      func() time.Time
	warn     func(message string, err error)
	shelf    atomic.Pointer[shelf]

	known      atomic.Pointer[knowledge]
	generation atomic.Uint64
	settled    chan time.Duration // when a fetch has ended: how long it is until the next

	mu       sync.Mutex // guards what follows, and the writing of known
	fetching bool
	fetched  chan struct{} // closed when the fetch that was begun last has ended
	demanded time.Time     // when a token made us fetch last
	rest     time.Duration // for how long no token does so again
	failures int           // since the last good fetch
	ended    bool          // Run has

	place place // where the keys are; only the fetch that is under way touches it
}

// knowledge is one state of what is known, never changed.
type knowledge struct {
	set *keySet // nil: none yet
	// current reports whether the last fetch succeeded. If it did not, a kid that is missing here may still be a key of the issuer.
	current bool
	failed  error     // why the last fetch was not
	retryAt time.Time // when the next one is planned
}

// keySet is what an issuer published, read.
type keySet struct {
	published []keys.PublishedKey
	byID      map[string][]*keys.VerificationKey // each once for every algorithm; "" has those without a kid
	// only has the key for an algorithm of which there is one alone; nil: there are several.
	only      map[oauth.Algorithm]*keys.VerificationKey
	uri       string
	document  []byte
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

// Find returns the key of that kid for that algorithm, at once. A token without a kid means the one key that its algorithm can
// be used with; there is no search by trial.
func (k *remoteKeys) Find(kid string, algorithm oauth.Algorithm) (*keys.VerificationKey, error) {
	known := k.known.Load()
	if err := k.usable(known); err != nil {
		return nil, err
	}
	key, reason := known.set.find(kid, algorithm)
	switch {
	case key != nil:
		return key, nil
	case !known.current && reason == reasonUnknown:
		return nil, k.unavailable(known, reasonStale)
	}
	return nil, oauth.NewError(oauth.InvalidToken, reason)
}

// find says why there is no such key, or not one alone.
func (s *keySet) find(kid string, algorithm oauth.Algorithm) (key *keys.VerificationKey, reason string) {
	if kid == "" {
		if key, known := s.only[algorithm]; key != nil || !known {
			return key, reasonUnknown
		}
		return nil, "key_ambiguous"
	}
	keys := s.byID[kid]
	for _, key := range keys {
		if key.Algorithm == algorithm {
			return key, ""
		}
	}
	if len(keys) > 0 {
		return nil, "algorithm_mismatch"
	}
	return nil, reasonUnknown
}

// Generation changes whenever the keys do.
func (k *remoteKeys) Generation() uint64 { return k.generation.Load() }

// usable asks whether any token can be judged with what is known.
func (k *remoteKeys) usable(known *knowledge) error {
	switch {
	case known.set == nil:
		return k.unavailable(known, reasonNotLoaded)
	case k.now().Sub(known.set.fetchedAt) > k.settings.MaxStale:
		return k.unavailable(known, reasonStale)
	}
	return nil
}

// unavailable says when to come back: after the next fetch.
func (k *remoteKeys) unavailable(known *knowledge, reason string) error {
	e := oauth.Unavailable(reason, known.failed)
	e.RetryAfter = min(max(known.retryAt.Sub(k.now()), time.Second), maxRetry)
	return e
}

// lacksKey reports whether a refusal may be mended by a fetch.
func lacksKey(err error) bool {
	switch oauth.AsError(err).Reason {
	case reasonUnknown, reasonNotLoaded, reasonStale:
		return true
	}
	return false
}

// settle takes in how a fetch ended. A bad one leaves the keys as they are, until they are stale.
func (k *remoteKeys) settle(set *keySet, life time.Duration, err error) {
	k.mu.Lock()
	before := k.known.Load()
	next := &knowledge{set: set, current: true}
	if err == nil {
		k.failures = 0
		life = min(life, max(k.settings.MaxStale/2, time.Second)) // or they would be stale before they are fetched again
	} else {
		next = &knowledge{set: before.set, failed: err}
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
	case before.failed == nil || before.failed.Error() != err.Error(): // else it is known
		k.warn("the keys of a trusted issuer cannot be fetched", err)
	}
}

// restore takes in keys that were kept, unless there are others already.
func (k *remoteKeys) restore(set *keySet) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if before := k.known.Load(); before.set == nil {
		next := *before
		next.set = set
		k.replace(&next)
	}
}

// replace changes what is known, and reports whether that changes the keys. The caller holds mu.
func (k *remoteKeys) replace(next *knowledge) (changed bool) {
	before := k.known.Swap(next)
	if changed = !before.set.equal(next.set); changed {
		k.generation.Add(1)
	}
	return changed
}

// equal reports whether the same keys are in both sets.
func (s *keySet) equal(other *keySet) bool {
	if s == nil || other == nil || len(s.byID) != len(other.byID) {
		return s == other
	}
	for kid, ks := range s.byID {
		if !slices.EqualFunc(ks, other.byID[kid], (*keys.VerificationKey).Equal) {
			return false
		}
	}
	return true
}

// readKeySet holds a document to the rules for keys: the parser's, and the operator's list of algorithms.
func (k *remoteKeys) readKeySet(document []byte, uri string, fetchedAt time.Time) (*keySet, error) {
	algorithms := k.settings.Algorithms
	if len(algorithms) == 0 {
		algorithms = oauth.TrustedAlgorithms
	}
	published, err := keys.ParseJWKS(document, algorithms)
	if err != nil {
		return nil, fmt.Errorf("the keys at %s: %w", uri, err)
	}
	set := &keySet{
		published: published, uri: uri, document: document, fetchedAt: fetchedAt,
		byID: make(map[string][]*keys.VerificationKey, len(published)), only: make(map[oauth.Algorithm]*keys.VerificationKey),
	}
	for _, p := range published {
		for _, key := range p.Keys {
			set.byID[key.ID] = append(set.byID[key.ID], key)
			if _, several := set.only[key.Algorithm]; several {
				set.only[key.Algorithm] = nil
			} else {
				set.only[key.Algorithm] = key
			}
		}
	}
	return set, nil
}

// guarded runs what touches other people's data or code. It panics in nobody's request, and the process goes on.
func guarded(run func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
		err = brief(err)
	}()
	return run()
}

// maxErrorText is how much of an error is kept: it may quote what somebody else wrote.
const maxErrorText = 1 << 10

func brief(err error) error {
	if err == nil || len(err.Error()) <= maxErrorText {
		return err
	}
	return errors.New(err.Error()[:maxErrorText] + "…")
}
