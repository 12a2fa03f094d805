package oauth

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
)

// Secret is a credential: a client secret, a token, a code. It prints as "[secret]" under every verb and encoder, so
// that no log line or error text can contain it. Reveal returns the credential. Compare secrets by what they reveal,
// never with == or reflect.DeepEqual.
type Secret struct {
	// A pointer, because fmt does not call methods for unexported fields, %p and %w. It prints the fields themselves there,
	// and of a pointer only the address.
	text *string
	_    [0]func() // forbids ==, which would compare addresses
}

// NewSecret wraps a credential.
func NewSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	held := value // a copy, so that the parameter does not escape for empty values
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

// Digest returns the SHA-256 of the credential, which is all that a store keeps. Generated credentials have at least
// 190 bits, so a slow hash would only help to exhaust the server.
func (s Secret) Digest() [sha256.Size]byte { return DigestOf(s.Reveal()) }

// String returns "[secret]".
func (Secret) String() string { return "[secret]" }

// GoString returns "[secret]".
func (Secret) GoString() string { return "[secret]" }

// Format writes "[secret]" whatever the verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "[secret]") }

// MarshalText returns "[secret]"; encoding/json and zap use it.
func (Secret) MarshalText() ([]byte, error) { return []byte("[secret]"), nil }

// Base62 are the characters of generated credentials and ids. They need no escaping in a URL, a form, a header or
// JSON.
const Base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// Lengths of generated texts, at 5.95 bits a character.
const (
	IDLength     = 22 // 130 bits: ids, jti
	secretLength = 43 // 256 bits: client secrets
)

// NewID returns a fresh base62 identifier of 130 bits.
func NewID() string { return randomText(IDLength) }

// NewClientSecret returns a fresh base62 secret of 256 bits. Clients may encode it in different ways (RFC 6749
// §2.3.1), which all yield the same bytes.
func NewClientSecret() Secret { return NewSecret(randomText(secretLength)) }

// NewText returns n fresh base62 characters, for a credential whose form somebody else knows.
func NewText(n int) string { return randomText(n) }

// randomText returns n base62 characters from crypto/rand. It discards bytes of 248 and above, so that all 62
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
