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
// data, so that a sealed key cannot be passed off as another.
type KeySealer struct {
	// ID names the key-encryption key without telling it: the first 16 hex digits of its SHA-256.
	ID   string
	aead cipher.AEAD
}

// NewKeySealer takes a key-encryption key of 32 bytes, as base64 or hex text. Raw bytes are not taken: a passphrase of 32
// characters would pass for a key.
func NewKeySealer(secret Secret) (*KeySealer, error) {
	key, err := decodeKeyEncryptionKey(secret.Reveal())
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(key)
	return &KeySealer{ID: hex.EncodeToString(digest[:8]), aead: aead}, nil
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
	if s.ID != stored.SealedWith {
		return nil, fmt.Errorf("sealed under key-encryption key %s, and the configured one is %s", stored.SealedWith, s.ID)
	}
	size := s.aead.NonceSize()
	if len(stored.Private) < size {
		return nil, errors.New("the sealed key is truncated")
	}
	plain, err := s.aead.Open(nil, stored.Private[:size], stored.Private[size:], []byte(stored.ID))
	if err != nil {
		return nil, errors.New("the sealed key is damaged")
	}
	return plain, nil
}
