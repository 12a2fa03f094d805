package oauth

import (
	"crypto/sha256"
	"unsafe"
)

// DigestOf returns the SHA-256 of a whole token. Caches of tokens use it as their key, so that no two tokens share an
// entry.
func DigestOf(token string) [sha256.Size]byte {
	// Sum256 only reads. A copy of the token would be the only allocation of a cached verification.
	return sha256.Sum256(BytesOf(token))
}

// BytesOf returns the bytes of a text without copying them. They must not be modified.
func BytesOf(text string) []byte {
	return unsafe.Slice(unsafe.StringData(text), len(text)) //lint:ignore gosec they are only read
}

// Written returns the text in a buffer without copying it. Afterwards the buffer may only be appended to, as with
// strings.Builder.
func Written(text []byte) string {
	return unsafe.String(unsafe.SliceData(text), len(text)) //lint:ignore gosec see above
}
