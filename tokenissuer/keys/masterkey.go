package keys

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// masterAlgorithm marks the master key among the stored keys. Nothing is ever signed with it.
const masterAlgorithm oauth.Algorithm = "HKDF-SHA256"

const masterKeyBytes = 32

// MasterKey is the issuer's symmetric secret, the same on every node. It signs and seals nothing itself: each purpose has
// a key of its own, derived from it (RFC 5869), so that no value made for one purpose passes for another's.
type MasterKey struct {
	codes      []byte
	refresh    []byte
	rotators   []byte
	sessions   []byte
	assertions []byte
	jtiMAC     []byte

	// Forms is the key of the MACs in the forms of our pages; see MAC.
	Forms []byte
	// Requests seals authorization requests, Returns the paths that a sign-in goes back to, Devices the cookies of browsers that have
	// signed in before.
	Requests, Returns, Devices cipher.AEAD

	jtiMACRequiredFrom time.Time
}

// JTIMAC returns the key of the MAC at the end of the jti of our access tokens, and when the last token without one has expired;
// zero: nobody knows.
func (k *MasterKey) JTIMAC() (key []byte, requiredFrom time.Time) {
	return k.jtiMAC, k.jtiMACRequiredFrom
}

func newMasterKey(secret []byte) (*MasterKey, error) {
	if len(secret) != masterKeyBytes {
		return nil, fmt.Errorf("the master key has %d bytes and not %d", len(secret), masterKeyBytes)
	}
	k := new(MasterKey)
	for _, mac := range []struct {
		key   *[]byte
		label string
	}{
		{&k.codes, "authorization code"}, {&k.refresh, "refresh token"}, {&k.rotators, "who used a refresh token"}, {&k.sessions, "session"}, {&k.Forms, "form"},
		{&k.assertions, "upstream assertion"}, {&k.jtiMAC, "tag of access tokens"},
	} {
		var err error
		if *mac.key, err = hkdf.Key(sha256.New, secret, nil, mac.label, sha256.Size); err != nil {
			return nil, err
		}
	}
	for _, seal := range []struct {
		key   *cipher.AEAD
		label string
	}{
		{&k.Requests, "authorization request"}, {&k.Returns, "return"}, {&k.Devices, "device"},
	} {
		derived, err := hkdf.Key(sha256.New, secret, nil, seal.label, masterKeyBytes)
		if err != nil {
			return nil, err
		}
		block, err := aes.NewCipher(derived)
		if err != nil {
			return nil, err
		}
		if *seal.key, err = cipher.NewGCMWithRandomNonce(block); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// LoadMasterKey returns the issuer's master key, and makes it when the store has read well and holds none. As with
// signing keys, one that cannot be opened is an error and never replaced: every session and refresh token hangs on it.
func LoadMasterKey(ctx context.Context, st store.KeyStore, sealer *Sealer, now time.Time) (*MasterKey, error) {
	stored, secret, err := openMasterKey(ctx, st, sealer)
	if errors.Is(err, store.ErrNotFound) {
		if err = addMasterKey(ctx, st, sealer, now); err != nil {
			return nil, err
		}
		stored, secret, err = openMasterKey(ctx, st, sealer)
	}
	if err != nil {
		return nil, err
	}
	key, err := newMasterKey(secret)
	if err != nil {
		return nil, fmt.Errorf("opening stored key %s: %w", stored.ID, err)
	}
	key.jtiMACRequiredFrom = macsRequiredFrom(ctx, st, sealer, stored, now)
	return key, nil
}

// openMasterKey returns the stored master key with its secret. One that is refused is as good as none, unless there is no
// other: then the error says so, also for a refused key of another algorithm, which may be the changed master key. ErrNotFound
// when there is none at all.
func openMasterKey(ctx context.Context, st store.KeyStore, sealer *Sealer) (store.StoredKey, []byte, error) {
	all, err := st.SigningKeys(ctx)
	if err != nil {
		return store.StoredKey{}, nil, oauth.Unavailable("keys_unreadable", err)
	}
	failure := store.ErrNotFound
	for _, stored := range all {
		isMaster := stored.Algorithm == masterAlgorithm
		if !isMaster && !sealer.refuses(stored) {
			continue
		}
		secret, err := sealer.open(stored)
		if !errors.Is(err, ErrRefused) {
			if err != nil {
				err = fmt.Errorf("opening the master key: %w", err)
			}
			return stored, secret, err
		}
		failure = fmt.Errorf("opening the master key: %w", err)
		if !isMaster {
			failure = fmt.Errorf("opening the master key: there is none, but key %s may be it: %w", stored.ID, err)
		}
	}
	return store.StoredKey{}, nil, failure
}

func addMasterKey(ctx context.Context, st store.KeyStore, sealer *Sealer, now time.Time) error {
	secret := make([]byte, masterKeyBytes)
	_, _ = rand.Read(secret) // never fails
	stored := store.StoredKey{ID: oauth.NewID(), Algorithm: masterAlgorithm, Private: secret, CreatedAt: now, ActiveFrom: now}
	if sealer != nil {
		stored = sealer.seal(stored, secret)
	}
	if err := st.AddFirstSigningKey(ctx, stored); err != nil {
		return oauth.Unavailable("keys_unwritable", err)
	}
	return nil
}

// upgradeTime is how long an upgrade of all nodes may take, until each of them puts a MAC into the jti of what it signs.
const upgradeTime = 7 * 24 * time.Hour

// macsRequiredFrom returns when the last token of ours without a MAC in its jti has expired; zero: nobody knows. ActiveFrom of a
// master key is when the first node started that makes such MACs. Master keys of earlier builds have none.
func macsRequiredFrom(ctx context.Context, st store.KeyStore, sealer *Sealer, master store.StoredKey, now time.Time) time.Time {
	if master.ActiveFrom.IsZero() {
		// A clock that stands before the key's birth, as of a machine that has just been switched on, would require MACs too
		// early for ever.
		active := master
		active.ActiveFrom = now
		if sealer != nil {
			active = sealer.bind(active)
		}
		if now.Before(master.CreatedAt) {
			return time.Time{}
		}
		if _, err := st.ReplaceSigningKeys(ctx, store.KeyChange{Was: master, Becomes: active}); err != nil {
			return time.Time{} // the next start tries again; until then every token's signature is verified, as ever
		}
		master.ActiveFrom = now // or a little earlier, if another node was faster
	}
	if master.ActiveFrom.Equal(master.CreatedAt) {
		return master.CreatedAt // there never was another node
	}
	return master.ActiveFrom.Add(upgradeTime + store.MaxLifetime + store.Leeway)
}
