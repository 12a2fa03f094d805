package keys

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const keyEncryptionKeyBytes = 32

// Sealer encrypts stored keys with AES-256-GCM under a key-encryption key. The other columns of a row are additional data,
// so that none of them can be changed either: see aboutKey. It also opens what was sealed under older key-encryption keys.
type Sealer struct {
	keyEncryptionKey
	older  []keyEncryptionKey
	issuer string
	// least is the highest counter of a manifest that was seen in the store. A Sealer belongs to one store.
	least atomic.Int64
}

// keyEncryptionKey is the current key-encryption key or an older one.
type keyEncryptionKey struct {
	// ID identifies the key without revealing it: the first 16 hex digits of its SHA-256.
	ID   string
	aead cipher.AEAD
}

// NewSealer returns a Sealer for the keys of an issuer. The key-encryption keys are 32 bytes as base64 or hex: the
// current one and older ones. Raw bytes are refused, since a passphrase of 32 characters would be accepted as a key.
func NewSealer(issuer string, secret oauth.Secret, older ...oauth.Secret) (*Sealer, error) {
	first, err := newKeyEncryptionKey(secret)
	if err != nil {
		return nil, err
	}
	s := &Sealer{keyEncryptionKey: first, issuer: issuer}
	for i, secret := range older {
		key, err := newKeyEncryptionKey(secret)
		if err != nil {
			return nil, fmt.Errorf("older key-encryption key %d: %w", i+1, err)
		}
		s.older = append(s.older, key)
	}
	return s, nil
}

// IDs returns the ids of the key-encryption keys, the current one first.
func (s *Sealer) IDs() []string {
	ids := []string{s.ID}
	for _, key := range s.older {
		ids = append(ids, key.ID)
	}
	return ids
}

func newKeyEncryptionKey(secret oauth.Secret) (k keyEncryptionKey, err error) {
	key, err := decodeKeyEncryptionKey(secret.Reveal())
	if err != nil {
		return k, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return k, err
	}
	digest := sha256.Sum256(key)
	k.ID = hex.EncodeToString(digest[:8])
	k.aead, err = cipher.NewGCM(block)
	return k, err
}

func decodeKeyEncryptionKey(text string) ([]byte, error) {
	text = strings.TrimSpace(text)
	for _, decode := range []func(string) ([]byte, error){
		hex.DecodeString, base64.StdEncoding.DecodeString, base64.RawStdEncoding.DecodeString,
		base64.URLEncoding.DecodeString, base64.RawURLEncoding.DecodeString,
	} {
		if key, err := decode(text); err == nil && len(key) == keyEncryptionKeyBytes {
			return key, nil
		}
	}
	return nil, errors.New("a key-encryption key has 32 bytes: make one with `openssl rand -base64 32`")
}

// sealVersion begins the additional data of a sealed key. Change it with the list in aboutKey.
const sealVersion = "gatehouse stored key 1"

// aboutKey returns the additional data of a sealed key: everything that decides which key it is, whose, and when it
// signs. It omits RevokedAt, because a revoked key has no private part. Each part has a length prefix, so that no two
// rows give the same data.
func (s *Sealer) aboutKey(stored store.StoredKey) []byte {
	var about []byte
	for _, part := range []string{
		sealVersion, s.issuer, stored.ID, string(stored.Algorithm), storedTime(stored.CreatedAt), storedTime(stored.ActiveFrom),
	} {
		about = binary.BigEndian.AppendUint64(about, uint64(len(part)))
		about = append(about, part...)
	}
	return about
}

// storedTime formats a time in microseconds, the precision of stores; zero becomes "".
func storedTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatInt(t.UnixMicro(), 10)
}

// encrypt returns nonce ‖ ciphertext.
func (k *keyEncryptionKey) encrypt(plain, about []byte) []byte {
	nonce := make([]byte, k.aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return k.aead.Seal(nonce, nonce, plain, about)
}

// decrypt is the inverse of encrypt.
func (k *keyEncryptionKey) decrypt(sealed, about []byte) ([]byte, error) {
	size := k.aead.NonceSize()
	if len(sealed) < size {
		return nil, errors.New("truncated")
	}
	return k.aead.Open(nil, sealed[:size], sealed[size:], about)
}

// seal returns the stored key with this private part, sealed under the current key-encryption key.
func (s *Sealer) seal(stored store.StoredKey, plain []byte) store.StoredKey {
	stored.Private, stored.SealedWith = s.encrypt(plain, s.aboutKey(stored)), s.ID
	return stored
}

// open returns the private part of a stored key. A Sealer opens sealed keys only, and its errors wrap ErrRefused. A nil
// Sealer opens only keys that are not sealed.
func (s *Sealer) open(stored store.StoredKey) ([]byte, error) {
	switch {
	case s == nil && stored.SealedWith == "":
		return stored.Private, nil
	case s == nil:
		return nil, fmt.Errorf("sealed under key-encryption key %s, and none is configured: set encrypt_with", stored.SealedWith)
	case stored.SealedWith == "":
		return nil, ErrInClear
	}
	key, err := s.keyFor(stored)
	if err != nil {
		return nil, err
	}
	plain, err := key.decrypt(stored.Private, s.aboutKey(stored))
	if err != nil {
		return nil, fmt.Errorf("%w: its row was changed, or belongs to another issuer than %s", ErrRefused, s.issuer)
	}
	return plain, nil
}

// keyFor returns the key-encryption key that sealed a key.
func (s *Sealer) keyFor(stored store.StoredKey) (*keyEncryptionKey, error) {
	for _, key := range append([]keyEncryptionKey{s.keyEncryptionKey}, s.older...) {
		if key.ID == stored.SealedWith {
			return &key, nil
		}
	}
	configured := "the configured one is "
	if len(s.older) > 0 {
		configured = "the configured ones are "
	}
	return nil, fmt.Errorf("%w: it is sealed under key-encryption key %s, and %s%s",
		ErrRefused, stored.SealedWith, configured, strings.Join(s.IDs(), " and "))
}

// refuses reports whether a stored key must not be used because the sealer does not open it. Revoked keys are never
// refused: they hold no key.
func (s *Sealer) refuses(stored store.StoredKey) bool {
	if s == nil || !stored.RevokedAt.IsZero() {
		return false
	}
	_, err := s.open(stored)
	return err != nil
}

// accepts returns the keys that are not refused.
func (s *Sealer) accepts(stored []store.StoredKey) []store.StoredKey {
	return keysWhere(stored, func(k store.StoredKey) bool { return !s.refuses(k) })
}
