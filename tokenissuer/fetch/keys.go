package fetch

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Source describes whose keys Keys holds, where they are, and how long they are used.
type Source struct {
	// Owner is whose keys these are, for the operator, as in "a trusted issuer".
	Owner string
	// Issuer is the issuer identifier, whose metadata names the place of the keys; of a client that has none it is the JWKSURI.
	Issuer string
	// JWKSURI is the URL of the keys; empty: discovered (RFC 8414 §3, OpenID Connect Discovery §4).
	JWKSURI string
	// Algorithms restricts the algorithms; default: all that we support.
	Algorithms []oauth.Algorithm
	// OpenID decides about the metadata of an OpenID provider, which are kept with its keys; nil: the source is not an OpenID provider.
	OpenID func(metadata []byte) error
	// MaxStale is how long keys are used that cannot be fetched again; zero: 24 hours.
	MaxStale time.Duration
	// Life bounds how long keys are used before they are fetched again; zero: between one minute and 15, five by default.
	Life Freshness
	// Strict: keys are dropped once their server responds with something else, such as 404. Otherwise they are used until they are stale.
	Strict bool
}

// Options are the dependencies of Keys.
type Options struct {
	// Now is the clock; nil: time.Now.
	Now func() time.Time
	// Warn reports problems to the operator, without secrets; nil: they are dropped.
	Warn func(message string, err error)
}

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Warn == nil {
		o.Warn = func(string, error) {}
	}
	return o
}

// defaultMaxStale is the default of Source.MaxStale.
const defaultMaxStale = 24 * time.Hour

// defaultLife is the default of Source.Life.
var defaultLife = Freshness{Least: time.Minute, Most: 15 * time.Minute, Default: 5 * time.Minute}

// Reasons why no key is found that a fetch may resolve.
const (
	reasonUnknown   = keys.ReasonKeyUnknown
	reasonNotLoaded = "keys_not_loaded"
	reasonStale     = "keys_stale"
)

// Keys keeps the keys of one source. It is the token.KeySource for its tokens. It is safe for concurrent use.
type Keys struct {
	server  *server
	options Options

	snapshots  atomic.Pointer[snapshotCache]
	known      atomic.Pointer[Known]
	generation atomic.Uint64
	fetching   fetching
	weight     atomic.Uint64 // in the cache of a KeySets
}

// fetching is the state of the fetches of a source.
type fetching struct {
	settled chan time.Duration // receives the time until the next fetch whenever a fetch ends

	mu       sync.Mutex // guards the fields below, and writes to Keys.known
	running  bool
	done     chan struct{} // closed when the latest fetch ends
	demanded time.Time     // time of the last fetch that a token caused
	rest     time.Duration // minimum time until a token may cause another
	failures int           // since the last successful fetch
	ended    bool          // Run has returned
}

// Known is one immutable state of what is known.
type Known struct {
	// Failed is why the last fetch failed; nil: it succeeded, or there was none. FailedAt is when, and Since when the first one after the last
	// good one did.
	Failed          error
	FailedAt, Since time.Time

	set *keySet // nil: no keys yet
	// current reports whether the last fetch succeeded. If not, an unknown kid may still belong to the source.
	current bool
	retryAt time.Time // when the next fetch is due
}

// FetchedAt returns when the keys were last fetched, by an earlier process too; zero: never.
func (k *Known) FetchedAt() time.Time {
	if k.set == nil {
		return time.Time{}
	}
	return k.set.fetchedAt
}

// Metadata returns the metadata of an OpenID provider; nil: not known.
func (k *Known) Metadata() []byte {
	if k.set == nil {
		return nil
	}
	return k.set.metadata
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

// Redirects is how many redirects the servers may use that the operator has named.
const Redirects = 3

// NewKeys returns the keys of a source, to be fetched by a client. It makes no requests. The error says which configured URL would not be asked.
func NewKeys(source Source, client *Client, options Options) (*Keys, error) {
	if err := client.CheckURL(source.Issuer); err != nil {
		return nil, err
	}
	if source.JWKSURI != "" {
		if err := client.CheckURL(source.JWKSURI); err != nil {
			return nil, err
		}
	}
	if source.MaxStale == 0 {
		source.MaxStale = defaultMaxStale
	}
	if source.Life == (Freshness{}) {
		source.Life = defaultLife
	}
	k := &Keys{server: &server{source: source, client: client}, options: options.withDefaults(), fetching: fetching{settled: make(chan time.Duration, 1)}}
	k.known.Store(&Known{})
	return k, nil
}

// Known returns what is known now. It makes no requests.
func (k *Keys) Known() *Known { return k.known.Load() }

// Find returns the key with that kid for that algorithm, without blocking. For a token without kid it returns the only
// key for its algorithm; it never tries several. The error is an *oauth.Error: invalid_token, or temporarily_unavailable if that cannot be
// decided.
func (k *Keys) Find(kid string, algorithm oauth.Algorithm) (*keys.VerificationKey, error) {
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

// Key is Find, and waits for a fetch if the key is missing, for at most the client's timeout. Kids that do not exist cause few fetches.
func (k *Keys) Key(ctx context.Context, kid string, algorithm oauth.Algorithm) (*keys.VerificationKey, error) {
	return Awaited(ctx, k, func() (*keys.VerificationKey, error) { return k.Find(kid, algorithm) })
}

// Metadata returns the metadata of an OpenID provider. It waits for a fetch, for at most the client's timeout, only when there are none. The
// error is an *oauth.Error: temporarily_unavailable.
func (k *Keys) Metadata(ctx context.Context) ([]byte, error) {
	return Awaited(ctx, k, func() ([]byte, error) {
		known := k.known.Load()
		if err := k.usable(known); err != nil {
			return nil, err
		}
		return known.set.metadata, nil
	})
}

// Generation changes whenever the keys do.
func (k *Keys) Generation() uint64 { return k.generation.Load() }

// Usable returns an error if the known keys are missing or stale.
func (k *Keys) Usable() error { return k.usable(k.known.Load()) }

func (k *Keys) usable(known *Known) error {
	switch {
	case known.set == nil && k.server.source.Strict && known.Failed != nil && !errors.Is(known.Failed, ErrAway):
		return oauth.NewError(oauth.InvalidToken, "client_keys_unusable").WithCause(known.Failed)
	case known.set == nil:
		return k.unavailable(known, reasonNotLoaded)
	case k.options.Now().Sub(known.set.fetchedAt) > k.server.source.MaxStale:
		return k.unavailable(known, reasonStale)
	}
	return nil
}

// unavailable returns an error whose Retry-After is the next fetch.
func (k *Keys) unavailable(known *Known, reason string) error {
	e := oauth.Unavailable(reason, known.Failed)
	e.RetryAfter = min(max(known.retryAt.Sub(k.options.Now()), time.Second), maxRetry)
	return e
}

// Missing reports whether a fetch may resolve the error.
func Missing(err error) bool {
	switch oauth.AsError(err).Reason {
	case reasonUnknown, reasonNotLoaded, reasonStale:
		return true
	}
	return false
}

// isDue reports whether the keys are to be fetched again, or for the first time.
func (k *Known) isDue(now time.Time) bool { return !now.Before(k.retryAt) }

// settle stores the result of a fetch. A failed one leaves the keys in use until they are stale, unless the source is strict.
func (k *Keys) settle(set *keySet, life time.Duration, err error) {
	f := &k.fetching
	f.mu.Lock()
	before, now := k.known.Load(), k.options.Now()
	next := &Known{set: set, current: true}
	if err == nil {
		f.failures = 0
		life = min(life, max(k.server.source.MaxStale/2, time.Second)) // fetch again before the keys are stale
	} else {
		next = &Known{set: before.set, Failed: err, FailedAt: now, Since: before.Since}
		if next.Since.IsZero() {
			next.Since = now
		}
		if k.server.source.Strict && !errors.Is(err, ErrAway) {
			next.set = nil
		}
		life = retryAfter(f.failures)
		f.failures++
	}
	pause := early(life)
	next.retryAt = now.Add(pause)
	changed := k.replace(next)
	if changed && err == nil {
		f.rest = shortCoolDown
	}
	f.running = false
	f.plan(pause)
	f.mu.Unlock()

	switch {
	case err == nil:
		k.keep(set, changed)
	case before.Failed == nil || before.Failed.Error() != err.Error(): // warn once for repeated failures
		k.options.Warn("the keys of "+k.server.source.Owner+" cannot be fetched", err)
	}
}

// replace sets what is known, and reports whether the keys changed. The caller holds fetching.mu.
func (k *Keys) replace(next *Known) (changed bool) {
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
