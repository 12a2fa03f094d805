package clients

import (
	"context"
	"fmt"

	"github.com/gatehouse-auth/gatehouse/internal/cache"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// maxSetBytes bounds the cache of parsed key sets, by the bytes of their texts.
const maxSetBytes = 4 << 20

// RemoteKeys finds the keys that the operator's clients publish.
type RemoteKeys interface {
	// Key returns the key with that kid and algorithm at a URL. The error is an *oauth.Error: invalid_token, or temporarily_unavailable if
	// the key cannot be fetched now.
	Key(ctx context.Context, uri, kid string, algorithm oauth.Algorithm) (*keys.VerificationKey, error)
}

// StrangersKeys finds the keys published by clients that made themselves known.
type StrangersKeys interface {
	// Key is like RemoteKeys.Key. source is the address of the request that needs the key.
	Key(ctx context.Context, c *store.Client, source, kid string, algorithm oauth.Algorithm) (*keys.VerificationKey, error)
}

// AssertionKeys finds the keys of clients that sign assertions.
type AssertionKeys struct {
	remote    RemoteKeys
	strangers StrangersKeys
	sets      *cache.Cache[*keys.PublishedSet]
}

// NewAssertionKeys returns an AssertionKeys. If remote or strangers is nil, those clients cannot publish keys at a URL.
func NewAssertionKeys(remote RemoteKeys, strangers StrangersKeys) *AssertionKeys {
	return &AssertionKeys{remote, strangers, cache.New[*keys.PublishedSet](maxSetBytes)}
}

// ParseKeySet parses a client's JWK Set. The error describes the fault for the registrant.
func ParseKeySet(jwks store.KeySet) (*keys.PublishedSet, error) {
	published, err := keys.ParseJWKS([]byte(jwks), oauth.TrustedAlgorithms)
	if err != nil {
		return nil, fmt.Errorf("jwks: %w", err)
	}
	return keys.NewPublishedSet(published), nil
}

// CheckKeySet is like ParseKeySet for a registration, in which a client may have no set.
func CheckKeySet(c *store.Client) error {
	if c.JWKS == "" {
		return nil
	}
	_, err := ParseKeySet(c.JWKS)
	return err
}

// Find returns the client's key with that kid and algorithm. source is the address that the request comes from. The error is
// invalid_client, or temporarily_unavailable if the key cannot be fetched now.
func (k *AssertionKeys) Find(ctx context.Context, c *store.Client, source, kid string, algorithm oauth.Algorithm) (*keys.VerificationKey, error) {
	if c.JWKS == "" {
		return k.findRemote(ctx, c, source, kid, algorithm)
	}
	set, ok := k.sets.Get(string(c.JWKS))
	if !ok {
		var err error
		if set, err = ParseKeySet(c.JWKS); err != nil {
			return nil, oauth.NewError(oauth.InvalidClient, "client_keys_unusable").WithCause(err)
		}
		k.sets.Put(string(c.JWKS), set, uint64(len(c.JWKS)))
	}
	key, reason := set.Find(kid, algorithm)
	if key == nil {
		return nil, oauth.NewError(oauth.InvalidClient, reason)
	}
	return key, nil
}

func (k *AssertionKeys) findRemote(ctx context.Context, c *store.Client, source, kid string, algorithm oauth.Algorithm) (*keys.VerificationKey, error) {
	var key *keys.VerificationKey
	var err error
	switch {
	case c.Origin == store.FromOperator && k.remote != nil:
		key, err = k.remote.Key(ctx, c.JWKSURI, kid, algorithm)
	case c.Origin != store.FromOperator && k.strangers != nil:
		key, err = k.strangers.Key(ctx, c, source, kid, algorithm)
	default:
		return nil, oauth.NewError(oauth.InvalidClient, "client_keys_remote")
	}
	if err == nil || oauth.AsError(err).Code == oauth.TemporarilyUnavailable {
		return key, err
	}
	return nil, oauth.NewError(oauth.InvalidClient, oauth.AsError(err).Reason).WithCause(err)
}
