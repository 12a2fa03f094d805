package trust

import (
	"context"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// OpenID keeps what an OpenID provider publishes: its metadata (OpenID Connect Discovery §4) and the keys of its ID tokens.
// It fetches, keeps and restores them as an Issuer does its keys. It is safe for concurrent use.
type OpenID struct {
	keys *remoteKeys
}

// openIDMetadata is how the metadata of an OpenID provider differs from that of an issuer of access tokens: it is kept with
// the keys, and check decides about the members that only its user knows.
type openIDMetadata struct {
	check func(document []byte) error
}

// whose says to the operator whose keys these are.
func (k *remoteKeys) whose() string {
	if k.owner != "" {
		return k.owner
	}
	if k.openID != nil {
		return "an identity provider"
	}
	return "a trusted issuer"
}

// NewOpenID returns an OpenID for the provider with this issuer identifier. It makes no requests. Metadata that check
// refuses is not used.
func NewOpenID(issuer string, allowPrivateNetwork bool, check func(document []byte) error, options Options) (*OpenID, error) {
	options = options.withDefaults()
	c := newClient(allowPrivateNetwork)
	if _, err := c.guard.parseURL(issuer); err != nil {
		return nil, err
	}
	settings := Settings{Issuer: issuer, AllowPrivateNetwork: allowPrivateNetwork}
	k := newRemoteKeys(settings, c, options)
	k.openID = &openIDMetadata{check}
	return &OpenID{k}, nil
}

// UseSnapshots sets the storage for metadata and keys; nil: none. It may be called at any time, and again.
func (o *OpenID) UseSnapshots(s Snapshots) { o.keys.useSnapshots(s) }

// Run keeps metadata and keys fresh until ctx ends.
func (o *OpenID) Run(ctx context.Context) { o.keys.run(ctx) }

// Metadata returns the provider's metadata. It waits for a fetch, for at most five seconds, only when there is none. The
// error is an *oauth.Error: temporarily_unavailable.
func (o *OpenID) Metadata(ctx context.Context) ([]byte, error) {
	return awaited(ctx, o.keys, func() ([]byte, error) {
		known := o.keys.known.Load()
		if err := o.keys.usable(known); err != nil {
			return nil, err
		}
		return known.set.metadata, nil
	})
}

// Key returns the provider's key with that kid for that algorithm. A kid that is unknown causes a fetch, for which Key waits
// for at most five seconds; such fetches are rare, whatever kids tokens name. The error is an *oauth.Error:
// invalid_token, or temporarily_unavailable if that cannot be decided.
func (o *OpenID) Key(ctx context.Context, kid string, algorithm oauth.Algorithm) (*keys.VerificationKey, error) {
	return awaited(ctx, o.keys, func() (*keys.VerificationKey, error) { return o.keys.Find(kid, algorithm) })
}

func awaited[T any](ctx context.Context, k *remoteKeys, try func() (T, error)) (T, error) {
	got, err := try()
	if err == nil || !lacksKey(err) {
		return got, err
	}
	ctx, cancel := context.WithTimeout(ctx, k.client.timeout)
	defer cancel()
	return whenFetched(ctx, k, try)
}

// Known is what is known of a provider's publications.
type Known struct {
	// FetchedAt is when they were last fetched, by an earlier process too; zero: never.
	FetchedAt time.Time
	// Metadata is the provider's metadata; nil: not known.
	Metadata []byte
	// Failed is why the last fetch failed, FailedAt when, and Since when that began; nil and zero: it succeeded, or there was
	// none.
	Failed          error
	FailedAt, Since time.Time
}

// Known returns what is known now. It contacts nobody.
func (o *OpenID) Known() Known {
	known := o.keys.known.Load()
	k := Known{Failed: known.failed, FailedAt: known.failedAt, Since: known.since}
	if known.set != nil {
		k.FetchedAt, k.Metadata = known.set.fetchedAt, known.set.metadata
	}
	return k
}

// Look fetches metadata and keys now, for a test by the operator, and changes nothing of what is known.
func (o *OpenID) Look(ctx context.Context) (metadata []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, o.keys.client.timeout)
	defer cancel()
	places, err := metadataPlaces(o.keys.settings.Issuer)
	if err != nil {
		return nil, err
	}
	_, metadata, err = o.keys.client.get(ctx, places[1], "application/json")
	return metadata, brief(err)
}

// LookAtKeys fetches the keys at a URL now, and reports which can be used.
func (o *OpenID) LookAtKeys(ctx context.Context, uri string) ([]KeyReport, error) {
	ctx, cancel := context.WithTimeout(ctx, o.keys.client.timeout)
	defer cancel()
	var set *keySet
	err := guarded(func() error {
		_, document, err := o.keys.client.get(ctx, uri, "application/jwk-set+json, application/json")
		if err == nil {
			set, err = o.keys.readKeySet(document, uri, o.keys.now())
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return set.report(), nil
}
