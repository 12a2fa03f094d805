package keys

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// deterministicES256 is golang-jwt's ES256, but that it derives the number which each signature needs from key and text
// (RFC 6979) instead of drawing it: so RFC 8725 §3.2 wants it, since a number that can be guessed gives the key away, and
// it costs a quarter less. Whoever verifies sees no difference.
type deterministicES256 struct{ *jwt.SigningMethodECDSA }

// Sign returns r and s side by side (RFC 7518 §3.4).
func (deterministicES256) Sign(signingString string, key any) ([]byte, error) {
	private, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, jwt.ErrInvalidKeyType
	}
	digest := oauth.DigestOf(signingString)
	der, err := private.Sign(nil, digest[:], crypto.SHA256) // nil: nothing is drawn
	if err != nil {
		return nil, err
	}
	return joinedSignature(der)
}

// directEdDSA is golang-jwt's EdDSA, but that it copies neither the text nor the public key for each signature.
type directEdDSA struct{ *jwt.SigningMethodEd25519 }

// Sign returns the signature (RFC 8037 §3.1).
func (directEdDSA) Sign(signingString string, key any) ([]byte, error) {
	private, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, jwt.ErrInvalidKeyType
	}
	return private.Sign(nil, oauth.BytesOf(signingString), crypto.Hash(0)) // nil: nothing is drawn
}

// errSignatureForm is met by nobody: what it is about was made a moment ago.
var errSignatureForm = errors.New("the signature is no ECDSA-Sig-Value of P-256")

// joinedSignature takes r and s out of an ECDSA-Sig-Value (RFC 3279 §2.2.3), of which no length of P-256 needs more than
// one byte.
func joinedSignature(der []byte) ([]byte, error) {
	if len(der) < 2 || der[0] != 0x30 || int(der[1]) != len(der)-2 {
		return nil, errSignatureForm
	}
	joined := make([]byte, 2*sha256.Size)
	rest := der[2:]
	for _, number := range [][]byte{joined[:sha256.Size], joined[sha256.Size:]} {
		if len(rest) < 2 || rest[0] != 0x02 || int(rest[1]) > len(rest)-2 {
			return nil, errSignatureForm
		}
		digits := rest[2 : 2+rest[1]]
		rest = rest[2+rest[1]:]
		if len(digits) == sha256.Size+1 && digits[0] == 0 { // so that it is not taken for a negative one
			digits = digits[1:]
		}
		if len(digits) > sha256.Size {
			return nil, errSignatureForm
		}
		copy(number[sha256.Size-len(digits):], digits)
	}
	if len(rest) > 0 {
		return nil, errSignatureForm
	}
	return joined, nil
}
