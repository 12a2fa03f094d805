package oauth

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"
)

// Lengths of RFC 7636 §4.1 and §4.2.
const (
	minVerifier     = 43
	maxVerifier     = 128
	challengeLength = 43
)

// ChallengeMethodS256 is the only supported method: plain would reveal the verifier (RFC 9700 §2.1.1).
const ChallengeMethodS256 = "S256"

// VerifierMatches reports whether the verifier's SHA-256 is the challenge (RFC 7636 §4.6).
func VerifierMatches(verifier Secret, challenge string) bool {
	text := verifier.Reveal()
	if len(text) < minVerifier || len(text) > maxVerifier || strings.ContainsFunc(text, isNoVerifierRune) {
		return false
	}
	digest := sha256.Sum256([]byte(text))
	return subtle.ConstantTimeCompare([]byte(base64.RawURLEncoding.EncodeToString(digest[:])), []byte(challenge)) == 1
}

func isNoVerifierRune(r rune) bool {
	return (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune("-._~", r)
}

// IsChallenge reports whether text is the base64url form of a SHA-256.
func IsChallenge(text string) bool {
	_, err := DecodeBase64URL(nil, text)
	return err == nil && len(text) == challengeLength
}

// The values of the setting `pkce`. Only a client has the second.
const (
	PKCERequired = "required"
	PKCEOptional = "optional"
)

// CheckClientPKCE refuses any other value of a client.
func CheckClientPKCE(setting string) error {
	if setting != "" && setting != PKCERequired && setting != PKCEOptional {
		return fmt.Errorf("pkce %q: use required or optional, or leave it out", setting)
	}
	return nil
}

// CheckPKCE refuses any other value of the issuer.
func CheckPKCE(setting string) error {
	if setting != "" && setting != PKCERequired {
		return fmt.Errorf("pkce %q: use required, or leave it out", setting)
	}
	return nil
}
