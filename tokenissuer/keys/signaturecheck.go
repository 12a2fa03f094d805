package keys

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"errors"
	"slices"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// errSignature tells no more, for there is no more to tell.
var errSignature = errors.New("the signature is not that of the key")

// VerifySignature checks a signature over the signing input of a JWS (RFC 7515 §5.2). The key decides how.
func (k *VerificationKey) VerifySignature(signingInput string, signature []byte) error {
	good := false
	switch public := k.public.(type) {
	case *ecdsa.PublicKey:
		if k.Algorithm != oauth.ES256 {
			good = k.verifyByMethod(signingInput, signature)
			break
		}
		digest := oauth.DigestOf(signingInput)
		der, wellFormed := separatedSignature(signature)
		good = wellFormed && public.Curve == elliptic.P256() && ecdsa.VerifyASN1(public, digest[:], der)
	case ed25519.PublicKey:
		good = k.Algorithm == oauth.EdDSA && len(public) == ed25519.PublicKeySize && ed25519.Verify(public, oauth.BytesOf(signingInput), signature)
	case *rsa.PublicKey:
		if k.Algorithm != oauth.RS256 {
			good = k.verifyByMethod(signingInput, signature)
			break
		}
		digest := oauth.DigestOf(signingInput)
		good = rsa.VerifyPKCS1v15(public, crypto.SHA256, digest[:], signature) == nil
	}
	if !good {
		return errSignature
	}
	return nil
}

// verifyByMethod is for the algorithms that only other issuers use.
func (k *VerificationKey) verifyByMethod(signingInput string, signature []byte) bool {
	return slices.Contains(algorithmsOf(k.public), k.Algorithm) && methodOf(k.Algorithm).Verify(signingInput, signature, k.public) == nil
}

// separatedSignature makes an ECDSA-Sig-Value (RFC 3279 §2.2.3) of r and s side by side, which have 32 bytes each (RFC 7518 §3.4).
func separatedSignature(joined []byte) (der []byte, ok bool) {
	const size = 32
	if len(joined) != 2*size {
		return nil, false
	}
	der = make([]byte, 2, 2+2*(3+size))
	for _, number := range [...][]byte{joined[:size], joined[size:]} {
		for len(number) > 1 && number[0] == 0 {
			number = number[1:]
		}
		if number[0] >= 0x80 { // so that it is not taken for a negative one
			der = append(der, 0x02, byte(len(number)+1), 0) //nolint:gosec // 33
		} else {
			der = append(der, 0x02, byte(len(number))) //nolint:gosec // at most 32
		}
		der = append(der, number...)
	}
	der[0], der[1] = 0x30, byte(len(der)-2) //nolint:gosec // at most 70
	return der, true
}
