package assertion

import (
	"context"
	"fmt"

	"github.com/maypok86/otter/v2"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// maxSets is how many key sets of clients are remembered parsed.
const maxSets = 1024

// RemoteKeys are the keys that clients publish.
type RemoteKeys interface {
	// Key returns the key at a URL with that kid for that algorithm. Keep says that the keys are to survive a restart. The error is an
	// *oauth.Error: invalid_token, or temporarily_unavailable if that cannot be decided.
	Key(ctx context.Context, uri string, keep bool, kid string, algorithm oauth.Algorithm) (*keys.VerificationKey, error)
}

// Keys are the keys of clients.
type Keys struct {
	remote RemoteKeys
	sets   *otter.Cache[string, *keys.PublishedSet]
}

// NewKeys returns the keys of clients, of which some are remote; nil: no client's can be.
func NewKeys(remote RemoteKeys) *Keys {
	return &Keys{remote, otter.Must(&otter.Options[string, *keys.PublishedSet]{MaximumSize: maxSets})}
}

// ParseSet reads a client's JWK Set. The error says to whoever registers the client what is wrong with it.
func ParseSet(jwks string) (*keys.PublishedSet, error) {
	published, err := keys.ParseJWKS([]byte(jwks), oauth.TrustedAlgorithms)
	if err != nil {
		return nil, fmt.Errorf("jwks: %w", err)
	}
	return keys.NewPublishedSet(published), nil
}

// CheckSet is ParseSet for a registration: a client without a set has nothing wrong with it.
func CheckSet(c *store.Client) error {
	if c.JWKS == "" {
		return nil
	}
	_, err := ParseSet(c.JWKS)
	return err
}

// Find returns the client's key with that kid for that algorithm. The error is an invalid_client, or temporarily_unavailable if that
// cannot be decided now.
func (k *Keys) Find(ctx context.Context, c *store.Client, kid string, algorithm oauth.Algorithm) (*keys.VerificationKey, error) {
	if c.JWKS == "" {
		return k.findRemote(ctx, c, kid, algorithm)
	}
	set, ok := k.sets.GetIfPresent(c.JWKS)
	if !ok {
		var err error
		if set, err = ParseSet(c.JWKS); err != nil {
			return nil, oauth.NewError(oauth.InvalidClient, "client_keys_unusable").WithCause(err)
		}
		k.sets.Set(c.JWKS, set)
	}
	key, reason := set.Find(kid, algorithm)
	if key == nil {
		return nil, oauth.NewError(oauth.InvalidClient, reason)
	}
	return key, nil
}

func (k *Keys) findRemote(ctx context.Context, c *store.Client, kid string, algorithm oauth.Algorithm) (*keys.VerificationKey, error) {
	if k.remote == nil {
		return nil, oauth.NewError(oauth.InvalidClient, "client_keys_remote")
	}
	key, err := k.remote.Key(ctx, c.JWKSURI, c.Origin == store.FromOperator, kid, algorithm)
	if err == nil || oauth.AsError(err).Code == oauth.TemporarilyUnavailable {
		return key, err
	}
	return nil, oauth.NewError(oauth.InvalidClient, oauth.AsError(err).Reason).WithCause(err)
}
