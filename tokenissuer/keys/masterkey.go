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

// masterAlgorithm marks the master key among the stored keys. It signs nothing.
const masterAlgorithm oauth.Algorithm = "HKDF-SHA256"

const masterKeyBytes = 32

// MasterKey is the issuer's symmetric secret, the same on every node. For each purpose it derives a key of its own (RFC
// 5869), so that a value made for one purpose is invalid for any other.
type MasterKey struct {
	derived [len(derivedLabels)][]byte

	// Forms is the key of the MACs in our pages' forms; see MAC.
	Forms []byte
	// Requests seals authorization requests, Devices the cookies of browsers that have signed in before, and HostSignIns
	// the state of sign-ins at hosts behind the gate.
	Requests, Devices, HostSignIns cipher.AEAD
	// ProviderSignIns seals sign-ins that continue at an identity provider, and HalfSignIns those that lack a second factor.
	ProviderSignIns, HalfSignIns cipher.AEAD
	// Links seals the links with which people set a password or prove an address.
	Links cipher.AEAD
	// Factors seals users' factors in the store: the secrets of authenticators, recovery codes and the public keys of passkeys. ProviderTokens
	// seals the refresh tokens of identity providers there. Challenges seals the challenges of passkeys.
	Factors, ProviderTokens, Challenges cipher.AEAD
	// Mails seals the letters that wait in the store.
	Mails cipher.AEAD
}

// purpose is what a derived key is used for.
type purpose int

const (
	codes purpose = iota
	refreshTokens
	requesters
	sessions
	hostSessions
	assertions
	registrations
	jtiMACs
	forms
	userHandles
	deviceCodes
	userCodes
)

// derivedLabels are the labels of the derived keys. A label that changes invalidates what was made with its key.
var derivedLabels = [...]string{
	codes:         "authorization code",
	refreshTokens: "refresh token",
	requesters:    "who used a refresh token",
	sessions:      "session",
	hostSessions:  "host session",
	assertions:    "upstream assertion",
	registrations: "registration access token",
	jtiMACs:       "tag of access tokens",
	forms:         "form",
	userHandles:   "user handle",
	deviceCodes:   "device code",
	userCodes:     "user code",
}

// JTIMAC returns the key of the MACs in the jti of our access tokens.
func (k *MasterKey) JTIMAC() []byte { return k.derived[jtiMACs] }

// UserHandle returns the user handle of a user's passkeys (WebAuthn Level 3 §14.6.1), from names that identify the user. It has 43
// characters and does not reveal them.
func (k *MasterKey) UserHandle(names string) string { return MAC(k.derived[userHandles], names) }

func newMasterKey(secret []byte) (*MasterKey, error) {
	if len(secret) != masterKeyBytes {
		return nil, fmt.Errorf("the master key has %d bytes and not %d", len(secret), masterKeyBytes)
	}
	k := new(MasterKey)
	for p, label := range derivedLabels {
		var err error
		if k.derived[p], err = hkdf.Key(sha256.New, secret, nil, label, sha256.Size); err != nil {
			return nil, err
		}
	}
	k.Forms = k.derived[forms]
	for _, seal := range []struct {
		key   *cipher.AEAD
		label string
	}{
		{&k.Requests, "authorization request"}, {&k.Devices, "device"}, {&k.HostSignIns, "host sign-in"},
		{&k.ProviderSignIns, "sign-in at a provider"}, {&k.HalfSignIns, "sign-in without a second factor"}, {&k.Factors, "factor"},
		{&k.ProviderTokens, "refresh token of a provider"},
		{&k.Challenges, "challenge of a passkey"}, {&k.Links, "link"}, {&k.Mails, "mail"},
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

// LoadMasterKey returns the issuer's master key. It creates one only if the store was read without error and has none. A
// key that cannot be opened is an error and is never replaced: all sessions and refresh tokens depend on it.
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
	return key, nil
}

// openMasterKey returns the stored master key and its secret. It ignores refused keys if there is another one. Otherwise
// it returns their error, even for a refused key of another algorithm, which may be a modified master key. It returns
// ErrNotFound if there is none.
func openMasterKey(ctx context.Context, st store.KeyStore, sealer *Sealer) (store.StoredKey, []byte, error) {
	all, err := st.SigningKeys(ctx)
	if err != nil {
		return store.StoredKey{}, nil, err
	}
	failure := store.ErrNotFound
	for _, stored := range all {
		isMaster := stored.Algorithm == masterAlgorithm
		if stored.Algorithm == manifestAlgorithm {
			continue
		}
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
	return st.ChangeKeys(ctx, store.AddFirstKey(stored))
}
