package oauth

import (
	"crypto/sha256"
	"unsafe"
)

// DigestOf is the cache's key: the whole token, so that no two tokens share a verdict.
func DigestOf(token string) [sha256.Size]byte {
	// Sum256 only reads, and a copy of the token would be the one allocation of a cached verdict.
	return sha256.Sum256(BytesOf(token))
}

// BytesOf are the bytes of a text, for whoever only reads them.
func BytesOf(text string) []byte {
	return unsafe.Slice(unsafe.StringData(text), len(text)) //nolint:gosec // nobody writes to them
}

// Written is the text in a buffer to which nothing but more text is appended, as strings.Builder has it: a token is copied
// nowhere on its way out.
func Written(text []byte) string {
	return unsafe.String(unsafe.SliceData(text), len(text)) //nolint:gosec // see above
}
