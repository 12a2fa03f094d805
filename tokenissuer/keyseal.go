package tokenissuer

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

const keyEncryptionKeyBytes = 32

// KeySealer encrypts signing keys at rest with AES-256-GCM under a key-encryption key. The kid is bound as additional
// data, so that a sealed key cannot be passed off as another. It opens what was sealed under older key-encryption keys too.
type KeySealer struct {
	keyEncryptionKey
	older []keyEncryptionKey
}

// keyEncryptionKey is one that seals or has sealed.
type keyEncryptionKey struct {
	// ID names the key-encryption key without telling it: the first 16 hex digits of its SHA-256.
	ID   string
	aead cipher.AEAD
}

// NewKeySealer takes key-encryption keys of 32 bytes, as base64 or hex text: the one that seals, and older ones. Raw bytes
// are not taken: a passphrase of 32 characters would pass for a key.
func NewKeySealer(secret Secret, older ...Secret) (*KeySealer, error) {
	first, err := newKeyEncryptionKey(secret)
	if err != nil {
		return nil, err
	}
	s := &KeySealer{keyEncryptionKey: first}
	for i, secret := range older {
		key, err := newKeyEncryptionKey(secret)
		if err != nil {
			return nil, fmt.Errorf("older key-encryption key %d: %w", i+1, err)
		}
		s.older = append(s.older, key)
	}
	return s, nil
}

// IDs names the key-encryption keys: the one that seals, and then the older ones.
func (s *KeySealer) IDs() []string {
	ids := []string{s.ID}
	for _, key := range s.older {
		ids = append(ids, key.ID)
	}
	return ids
}

func newKeyEncryptionKey(secret Secret) (k keyEncryptionKey, err error) {
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

// seal returns nonce ‖ ciphertext.
func (s *KeySealer) seal(kid string, plain []byte) []byte {
	nonce := make([]byte, s.aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return s.aead.Seal(nonce, nonce, plain, []byte(kid))
}

// open is the inverse of seal. A nil sealer opens nothing.
func (s *KeySealer) open(stored StoredKey) ([]byte, error) {
	if s == nil {
		return nil, fmt.Errorf("sealed under key-encryption key %s, and none is configured: set encrypt_with", stored.SealedWith)
	}
	for _, key := range append([]keyEncryptionKey{s.keyEncryptionKey}, s.older...) {
		if key.ID == stored.SealedWith {
			return key.open(stored)
		}
	}
	configured := "the configured one is "
	if len(s.older) > 0 {
		configured = "the configured ones are "
	}
	return nil, fmt.Errorf("sealed under key-encryption key %s, and %s%s", stored.SealedWith, configured, strings.Join(s.IDs(), " and "))
}

func (k *keyEncryptionKey) open(stored StoredKey) ([]byte, error) {
	size := k.aead.NonceSize()
	if len(stored.Private) < size {
		return nil, errors.New("the sealed key is truncated")
	}
	plain, err := k.aead.Open(nil, stored.Private[:size], stored.Private[size:], []byte(stored.ID))
	if err != nil {
		return nil, errors.New("the sealed key is damaged")
	}
	return plain, nil
}

// reseal returns a stored key sealed under the key-encryption key of now; false when it is so already.
func (s *KeySealer) reseal(stored StoredKey) (StoredKey, bool, error) {
	if s == nil || stored.SealedWith == s.ID || !stored.RevokedAt.IsZero() {
		return stored, false, nil
	}
	plain := stored.Private
	if stored.SealedWith != "" {
		var err error
		if plain, err = s.open(stored); err != nil {
			return stored, false, fmt.Errorf("opening stored key %s: %w", stored.ID, err)
		}
	}
	stored.Private, stored.SealedWith = s.seal(stored.ID, plain), s.ID
	return stored, true, nil
}
