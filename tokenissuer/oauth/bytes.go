package oauth

import (
	"crypto/sha256"
	"unsafe"
)

// DigestOf returns the SHA-256 of a whole token. Caches of tokens have it as their key, so that no two tokens share a verdict.
func DigestOf(token string) [sha256.Size]byte {
	// Sum256 only reads, and a copy of the token would be the one allocation of a cached verdict.
	return sha256.Sum256(BytesOf(token))
}

// BytesOf returns the bytes of a text without copying them. They may only be read.
func BytesOf(text string) []byte {
	return unsafe.Slice(unsafe.StringData(text), len(text)) //nolint:gosec // nobody writes to them
}

// Written returns the text in a buffer without copying it, so that a token is copied nowhere on its way out. Afterwards
// the buffer may only be appended to, as with strings.Builder.
func Written(text []byte) string {
	return unsafe.String(unsafe.SliceData(text), len(text)) //nolint:gosec // see above
}
