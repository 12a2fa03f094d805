package people

import (
	"hash/crc32"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// A token consists of the prefix, random characters, and a checksum of both. With the checksum, secret scanners recognise tokens, and a
// misspelled token is refused without a look-up.
const (
	// TokenPrefix begins every token.
	TokenPrefix  = "gh_pat_"
	randomLength = 30 // 178 bits
	sumLength    = 6
)

// newToken returns a new token.
func newToken() oauth.Secret {
	text := TokenPrefix + oauth.NewText(randomLength)
	return oauth.NewSecret(text + checksum(text))
}

// isWellFormed reports whether a text has the form and checksum of a token. It does not look the token up.
func isWellFormed(text string) bool {
	if len(text) != len(TokenPrefix)+randomLength+sumLength || !strings.HasPrefix(text, TokenPrefix) {
		return false
	}
	for i := len(TokenPrefix); i < len(text); i++ {
		if strings.IndexByte(oauth.Base62, text[i]) < 0 {
			return false
		}
	}
	body := text[:len(text)-sumLength]
	return text[len(body):] == checksum(body)
}

// checksum returns the CRC-32 (IEEE) of a text in base62, with leading zeros.
func checksum(text string) string {
	var digits [sumLength]byte
	sum := crc32.ChecksumIEEE([]byte(text))
	for i := sumLength - 1; i >= 0; i-- {
		digits[i] = oauth.Base62[sum%62]
		sum /= 62
	}
	return string(digits[:])
}
