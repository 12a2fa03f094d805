package keys

import (
	"bytes"
	"compress/flate"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// WrapLifetime is how long a sealed value can be opened.
const WrapLifetime = 10 * time.Minute

// ErrUnwrapped is the error for a value that does not open, whatever the reason.
var ErrUnwrapped = oauth.NewError(oauth.InvalidRequest, "seal_broken")

// wrapped is the plaintext: the value, and the time of sealing.
type wrapped[T any] struct {
	At    int64 `json:"at"` // Unix seconds
	Value T     `json:"value"`
}

// Wrap encrypts a value that a browser carries (AES-256-GCM), so that the server stores nothing for abandoned requests. Unwrap needs the same
// owner.
func Wrap[T any](key cipher.AEAD, owner string, value T, now time.Time) (oauth.Secret, error) {
	plain, err := json.Marshal(wrapped[T]{now.Unix(), value})
	if err != nil {
		return oauth.Secret{}, oauth.AsError(err)
	}
	return oauth.NewSecret(base64.RawURLEncoding.EncodeToString(key.Seal(nil, nil, packed(plain), []byte(owner)))), nil //lint:ignore gosec this AEAD makes a random nonce of its own
}

// Unwrap is the reverse of Wrap, for WrapLifetime.
func Unwrap[T any](key cipher.AEAD, owner string, text oauth.Secret, now time.Time) (T, error) {
	value, at, err := UnwrapAny[T](key, owner, text)
	if age := now.Sub(at); err == nil && (age > WrapLifetime || age < -store.Leeway) {
		err = oauth.NewError(oauth.InvalidRequest, "seal_expired")
	}
	return value, err
}

// UnwrapAny is the reverse of Wrap, however old the value is. It returns when it was sealed.
func UnwrapAny[T any](key cipher.AEAD, owner string, text oauth.Secret) (T, time.Time, error) {
	var s wrapped[T]
	ciphertext, err := oauth.DecodeBase64URL(nil, text.Reveal())
	if err != nil {
		return s.Value, time.Time{}, ErrUnwrapped
	}
	plain, err := key.Open(nil, nil, ciphertext, []byte(owner))
	if err != nil {
		return s.Value, time.Time{}, ErrUnwrapped
	}
	if plain, err = unpacked(plain); err == nil {
		err = json.Unmarshal(plain, &s)
	}
	if err != nil {
		return s.Value, time.Time{}, ErrUnwrapped.WithCause(errors.New("the sealed value does not parse"))
	}
	return s.Value, time.Unix(s.At, 0), nil
}

// packFrom is the length from which a plaintext is packed. A packed text begins with packMark, which no JSON does.
const (
	packFrom = 2 << 10
	packMark = 0
)

var packers = sync.Pool{New: func() any {
	w, _ := flate.NewWriter(nil, flate.HuffmanOnly) // the level is valid
	return w
}}

// packed compresses a long plaintext. A sealed value may contain another in base64, each of which would add a third to the length. It uses Huffman
// coding only, so that the length does not reveal whether two parts are alike.
func packed(plain []byte) []byte {
	if len(plain) < packFrom {
		return plain
	}
	var out bytes.Buffer
	out.WriteByte(packMark)
	w := packers.Get().(*flate.Writer) // there are no others in the pool
	defer packers.Put(w)
	w.Reset(&out)
	_, _ = w.Write(plain) // a bytes.Buffer takes everything
	_ = w.Close()
	return out.Bytes()
}

// unpacked is the reverse of packed.
func unpacked(text []byte) ([]byte, error) {
	if len(text) == 0 || text[0] != packMark {
		return text, nil
	}
	return io.ReadAll(flate.NewReader(bytes.NewReader(text[1:])))
}
