package fetch

import (
	"context"
	"sync/atomic"

	"github.com/gatehouse-auth/gatehouse/internal/cache"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

const (
	// maxSetBytes bounds the cached key sets of clients.
	maxSetBytes = 16 << 20
	// setWeight is the memory of a set besides its text, in bytes.
	setWeight = 4 << 10
	// maxWaits bounds the requests that wait for keys of the operator's clients.
	maxWaits = 64
)

// KeySets keeps the keys that clients publish at a jwks_uri (RFC 7591 §2). A client whose server is slow or down delays
// only its own requests. It is safe for concurrent use.
type KeySets struct {
	source    Source // of each, but for the place
	client    *Client
	options   Options
	sets      *cache.Cache[*Keys]
	waits     chan struct{}
	snapshots atomic.Pointer[Snapshots]
}

// Turn is how a caller of KeyInTurn gets its turn to fetch.
type Turn struct {
	// Enter waits until the caller may fetch. The caller then calls leave.
	Enter func(context.Context) (leave func(), err error)
	// Begin is called before a fetch, which its error prevents. Known: the keys at the URL have been fetched before.
	Begin func(known bool) error
}

// NewKeySets returns a KeySets that knows none. The source says how keys are used, and limits how they are fetched.
func NewKeySets(source Source, limits Limits, options Options) *KeySets {
	return &KeySets{
		source: source, client: NewClient(limits), options: options.withDefaults(),
		sets: cache.New[*Keys](maxSetBytes), waits: make(chan struct{}, maxWaits),
	}
}

// ClientKeys returns the KeySets of the operator's own clients.
func ClientKeys(reach Reach, options Options) *KeySets {
	return NewKeySets(Source{}, Limits{Reach: reach, Redirects: Redirects}, options)
}

// UseSnapshots sets the storage in which keys survive a restart; nil: none.
func (s *KeySets) UseSnapshots(snapshots Snapshots) { s.snapshots.Store(&snapshots) }

// Run waits for ctx to end, and closes idle connections. Keys are fetched when they are asked for.
func (s *KeySets) Run(ctx context.Context) {
	<-ctx.Done()
	s.Close()
}

// Close closes idle connections.
func (s *KeySets) Close() { s.client.CloseIdleConnections() }

// Key returns the key at a URL with that kid for that algorithm, for one of the operator's clients. Keys that are not known are fetched, for which Key
// waits for at most five seconds; those that have grown old are fetched in the background. The error is an *oauth.Error: invalid_token, or
// temporarily_unavailable if that cannot be decided.
func (s *KeySets) Key(ctx context.Context, uri, kid string, algorithm oauth.Algorithm) (*keys.VerificationKey, error) {
	k, err := s.at(uri)
	if err != nil {
		return nil, err
	}
	defer s.weigh(uri, k)
	known := k.known.Load()
	if known.set != nil && known.isDue(s.options.Now()) {
		k.demand(true)
	}
	key, err := k.Find(kid, algorithm)
	if err == nil || !Missing(err) || k.Quiet(known) {
		return key, err
	}
	select {
	case s.waits <- struct{}{}:
		defer func() { <-s.waits }()
	default:
		return nil, oauth.Unavailable("client_keys_busy", nil)
	}
	if known.set == nil {
		k.demand(known.isDue(s.options.Now()))
	}
	return k.Key(ctx, kid, algorithm)
}

// KeyInTurn is Key for a client that made itself known. A fetch needs the caller's turn, and keys that have grown old are fetched before they are
// used, unless that is not possible now.
func (s *KeySets) KeyInTurn(ctx context.Context, uri, kid string, algorithm oauth.Algorithm, turn Turn) (*keys.VerificationKey, error) {
	k, err := s.at(uri)
	if err != nil {
		return nil, err
	}
	defer s.weigh(uri, k)
	var due, enough bool // whether the keys are to be fetched, and whether a fetch could say no more
	look := func() (*keys.VerificationKey, error) {
		known := k.known.Load()
		key, err := k.Find(kid, algorithm)
		due = known.isDue(s.options.Now())
		enough = !due && (err == nil || !Missing(err) || k.Quiet(known))
		return key, err
	}
	key, err := look()
	if enough {
		return key, err
	}
	leave, busy := turn.Enter(ctx)
	if busy == nil {
		defer leave()
		if key, err = look(); enough { // another caller has fetched them
			return key, err
		}
		busy = turn.Begin(k.known.Load().set != nil)
	}
	switch {
	case busy != nil && err == nil:
		return key, nil
	case busy != nil:
		return nil, busy
	}
	// The turn is not given to another host's keys before the fetch has ended, even if the client disconnects.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.client.limits.Timeout)
	defer cancel()
	_, fetched := k.demand(due)
	select {
	case <-fetched:
	case <-ctx.Done():
	}
	return k.Find(kid, algorithm)
}

// at returns what is known of a URL.
func (s *KeySets) at(uri string) (*Keys, error) {
	if k, ok := s.sets.Get(uri); ok {
		return k, nil
	}
	source := s.source
	source.Owner, source.Issuer, source.JWKSURI = "the client with the jwks_uri "+uri, uri, uri
	k, err := NewKeys(source, s.client, s.options)
	if err != nil {
		return nil, oauth.NewError(oauth.InvalidToken, "jwks_uri_refused").WithCause(err)
	}
	if snapshots := s.snapshots.Load(); snapshots != nil {
		k.UseSnapshots(*snapshots)
	}
	return s.sets.PutIfAbsent(uri, k, setWeight), nil
}

// weigh puts keys into the cache again if the size of their document has changed.
func (s *KeySets) weigh(uri string, k *Keys) {
	if known := k.known.Load(); known.set != nil {
		if weight := setWeight + 2*uint64(len(known.set.document)); k.weight.Swap(weight) != weight {
			s.sets.Put(uri, k, weight)
		}
	}
}
