package trust

import (
	"context"
	"sync"

	"github.com/maypok86/otter/v2"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

const (
	// maxKeyPlaces is how many key sets of clients are remembered.
	maxKeyPlaces = 1024
	// maxKeyWaits is how many requests may wait for keys of clients at the same time, whoever they are for.
	maxKeyWaits = 64
)

// ClientKeys fetches and keeps the keys that the operator's clients publish at a jwks_uri (RFC 7591 §2). A client whose host is slow or away makes
// requests for itself wait, and those of no other. It is safe for concurrent use.
type ClientKeys struct {
	allowPrivate bool
	options      Options
	places       *otter.Cache[string, *remoteKeys]
	waits        chan struct{}

	mu        sync.Mutex
	snapshots Snapshots
}

// NewClientKeys returns a ClientKeys that knows none.
func NewClientKeys(allowPrivateNetwork bool, options Options) *ClientKeys {
	options = options.withDefaults()
	return &ClientKeys{
		allowPrivate: allowPrivateNetwork, options: options, waits: make(chan struct{}, maxKeyWaits),
		places: otter.Must(&otter.Options[string, *remoteKeys]{
			MaximumSize: maxKeyPlaces,
			OnDeletion:  func(e otter.DeletionEvent[string, *remoteKeys]) { e.Value.end() },
		}),
	}
}

// UseSnapshots sets the storage in which keys survive a restart; nil: none.
func (c *ClientKeys) UseSnapshots(s Snapshots) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.snapshots = s
}

// Key returns the key at a URL with that kid for that algorithm. Keys that are not known are fetched, for which Key waits for at most
// five seconds; those that have grown old are fetched beside. The error is an *oauth.Error: invalid_token, or temporarily_unavailable if
// that cannot be decided.
func (c *ClientKeys) Key(ctx context.Context, uri, kid string, algorithm oauth.Algorithm) (*keys.VerificationKey, error) {
	k, err := c.at(uri)
	if err != nil {
		return nil, err
	}
	known := k.known.Load()
	if known.set != nil && !k.now().Before(known.retryAt) {
		k.refresh()
	}
	key, err := k.Find(kid, algorithm)
	if err == nil || !lacksKey(err) || k.quiet(known) {
		return key, err
	}
	select {
	case c.waits <- struct{}{}:
		defer func() { <-c.waits }()
	default:
		return nil, oauth.Unavailable("client_keys_busy", nil)
	}
	return awaited(ctx, k, func() (*keys.VerificationKey, error) { return k.Find(kid, algorithm) })
}

// at returns what is known of a URL.
func (c *ClientKeys) at(uri string) (*remoteKeys, error) {
	if k, ok := c.places.GetIfPresent(uri); ok {
		return k, nil
	}
	client := newClient(c.allowPrivate)
	if _, err := client.guard.parseURL(uri); err != nil {
		return nil, oauth.NewError(oauth.InvalidToken, "jwks_uri_refused").WithCause(err)
	}
	k := newRemoteKeys(Settings{Issuer: uri, JWKSURI: uri, AllowPrivateNetwork: c.allowPrivate}, client, c.options)
	k.owner = "the client with the jwks_uri " + uri
	c.mu.Lock()
	k.useSnapshots(c.snapshots)
	c.mu.Unlock()
	k, _ = c.places.SetIfAbsent(uri, k)
	return k, nil
}

// Run waits for ctx to end, and closes idle connections. Keys are fetched when they are asked for.
func (c *ClientKeys) Run(ctx context.Context) {
	<-ctx.Done()
	c.places.InvalidateAll()
}
