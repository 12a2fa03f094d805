package keys

import (
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// WrapLifetime is how long a sealed value can be opened.
const WrapLifetime = 10 * time.Minute

// ErrUnwrapped is all that is said of a value that does not open: damaged, expired, another browser's or made up.
var ErrUnwrapped = oauth.NewError(oauth.InvalidRequest, "seal_broken")

// wrapped is what is encrypted: the value, and when it was made.
type wrapped[T any] struct {
	At    int64 `json:"at"` // Unix seconds
	Value T     `json:"value"`
}

// Wrap encrypts a value for the road through a browser (AES-256-GCM), so that the server keeps nothing for a visitor who
// never comes back. Only somebody who names the same owner can open it.
func Wrap[T any](key cipher.AEAD, owner string, value T, now time.Time) (oauth.Secret, error) {
	plain, err := json.Marshal(wrapped[T]{now.Unix(), value})
	if err != nil {
		return oauth.Secret{}, oauth.AsError(err)
	}
	return oauth.NewSecret(base64.RawURLEncoding.EncodeToString(key.Seal(nil, nil, plain, []byte(owner)))), nil //nolint:gosec // this AEAD makes a random nonce of its own
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
	if err := json.Unmarshal(plain, &s); err != nil {
		return s.Value, time.Time{}, ErrUnwrapped.WithCause(errors.New("the sealed value does not parse"))
	}
	return s.Value, time.Unix(s.At, 0), nil
}
