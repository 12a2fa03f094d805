package oauth

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
)

// Secret is a credential on its way through the program: a client secret, a token, a code. It prints as "[secret]"
// under every verb and encoder, so that no log line and no error text can carry it. Reveal is the one way out.
// Secrets are compared by what they reveal, never with == or reflect.DeepEqual.
type Secret struct {
	// The text is held by address: where fmt may not ask our methods (in an unexported field, under %p and %w) it
	// prints the fields themselves, and of an address only the number.
	text *string
	_    [0]func() // no ==, which would compare addresses
}

// NewSecret wraps a credential.
func NewSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	held := value // the parameter itself would be put on the heap before it was looked at
	return Secret{text: &held}
}

// Reveal returns the credential itself.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsEmpty reports whether there is no credential.
func (s Secret) IsEmpty() bool { return s.text == nil }

// Digest is the SHA-256 of the credential: all that a store keeps of it. Generated credentials have at least 190
// bits, so a slow hash would add nothing but a way to exhaust the server.
func (s Secret) Digest() [sha256.Size]byte { return DigestOf(s.Reveal()) }

// String returns "[secret]".
func (Secret) String() string { return "[secret]" }

// GoString returns "[secret]".
func (Secret) GoString() string { return "[secret]" }

// Format writes "[secret]" whatever the verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "[secret]") }

// MarshalText returns "[secret]"; encoding/json and zap use it.
func (Secret) MarshalText() ([]byte, error) { return []byte("[secret]"), nil }

// Base62 are the digits of all that we make up: each is spelled alike in a URL, a form, a header and JSON.
const Base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// Lengths of what randomText makes: 5.95 bits a character.
const (
	IDLength     = 22 // 130 bits: ids, jti
	secretLength = 43 // 256 bits: client secrets
)

// NewID returns a fresh base62 identifier of 130 bits.
func NewID() string { return randomText(IDLength) }

// NewClientSecret returns a fresh base62 secret of 256 bits. Base62 has the same bytes in every encoding a client
// may use (RFC 6749 §2.3.1).
func NewClientSecret() Secret { return NewSecret(randomText(secretLength)) }

// randomText returns n base62 characters from crypto/rand. Bytes of 248 and above are thrown away, so that all 62
// characters are equally likely.
func randomText(n int) string {
	text := make([]byte, 0, n)
	var pool [64]byte
	for {
		_, _ = rand.Read(pool[:]) // never fails: crypto/rand ends the program instead
		for _, b := range pool {
			if b < 248 {
				text = append(text, Base62[b%62])
				if len(text) == n {
					return string(text)
				}
			}
		}
	}
}
