package oauth

import "strings"

// IsB64Token reports whether text is a b64token of RFC 6750 §2.1: characters, then optional equals signs.
func IsB64Token(text string) bool {
	text = strings.TrimRight(text, "=")
	for i := range len(text) {
		if !b64TokenByte[text[i]] {
			return false
		}
	}
	return text != ""
}

// b64TokenByte is a table for speed: every byte of every token is looked up.
var b64TokenByte = func() (table [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/") {
		table[c] = true
	}
	return table
}()
