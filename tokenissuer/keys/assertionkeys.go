package keys

import (
	"sync/atomic"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// AssertionKeys sign what upstreams are told of requests. They are no signing keys of the store: every node derives the
// same ones from the master key and the number of the epoch, so they need no storage and rotate by themselves. The zero
// value is ready, and publishes nothing; it may be used by many goroutines.
type AssertionKeys struct {
	known atomic.Pointer[assertionKeys]
	used  atomic.Bool
}

// assertionKeys are those of one epoch, never changed.
type assertionKeys struct {
	epoch                   int64
	previous, current, next *SigningKey
	published               atomic.Pointer[preparedSet]
}

// preparedSet is the JWK Set of these keys and those of access tokens.
type preparedSet struct {
	generation uint64 // of the latter
	document   []byte
}

// Use has JWKS publish the keys. It is called before Current and JWKS are.
func (k *AssertionKeys) Use() { k.used.Store(true) }

// Current returns the key that signs at a moment by the clock that all nodes share. It is temporarily_unavailable without a master
// key, and for keys that are not used.
func (k *AssertionKeys) Current(now time.Time, master *MasterKey) (*SigningKey, error) {
	if k == nil || !k.used.Load() {
		return nil, oauth.Unavailable("keys_not_loaded", nil)
	}
	ks, err := k.at(now, master)
	if err != nil {
		return nil, err
	}
	return ks.current, nil
}

// JWKS returns the public keys as a JWK Set (RFC 7517 §5): those of access tokens, and where assertions are made theirs.
// The next epoch's is there a whole epoch ahead, the one before stays for another.
func (k *AssertionKeys) JWKS(now time.Time, master *MasterKey, set *Set) ([]byte, error) {
	if k == nil || !k.used.Load() {
		return set.JWKS()
	}
	ks, err := k.at(now, master)
	if err != nil {
		return nil, err
	}
	if _, err := set.JWKS(); err != nil {
		return nil, err
	}
	generation := set.Generation() // before the keys, so that a change in between is seen next time
	if p := ks.published.Load(); p != nil && p.generation == generation {
		return p.document, nil
	}
	document, err := MarshalJWKS(append(set.List(), ks.previous, ks.current, ks.next))
	if err != nil {
		return nil, err
	}
	ks.published.Store(&preparedSet{generation, document})
	return document, nil
}

func (k *AssertionKeys) at(now time.Time, master *MasterKey) (*assertionKeys, error) {
	if master == nil {
		return nil, oauth.Unavailable("keys_not_loaded", nil)
	}
	epoch := now.Unix() / int64(AssertionEpoch/time.Second)
	if known := k.known.Load(); known != nil && known.epoch == epoch {
		return known, nil
	}
	ks := &assertionKeys{epoch: epoch}
	for i, key := range []**SigningKey{&ks.previous, &ks.current, &ks.next} {
		var err error
		if *key, err = master.AssertionKey(epoch - 1 + int64(i)); err != nil {
			return nil, oauth.AsError(err)
		}
	}
	k.known.Store(ks)
	return ks, nil
}
