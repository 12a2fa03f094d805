package keys

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	_ "crypto/sha512" // for the algorithms with 384 and 512 in their names
	"fmt"
	"slices"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// methodOf returns golang-jwt's implementation of the algorithm. For RSASSA-PSS it makes a copy that requires a salt as
// long as the hash (RFC 7518 §3.5); golang-jwt's own accepts any length.
func methodOf(a oauth.Algorithm) jwt.SigningMethod {
	switch a {
	case oauth.ES256:
		return deterministicES256{jwt.SigningMethodES256}
	case oauth.RS256:
		return jwt.SigningMethodRS256
	case oauth.EdDSA:
		return jwt.SigningMethodEdDSA
	case oauth.ES384:
		return jwt.SigningMethodES384
	case oauth.ES512:
		return jwt.SigningMethodES512
	case oauth.RS384:
		return jwt.SigningMethodRS384
	case oauth.RS512:
		return jwt.SigningMethodRS512
	case oauth.PS256:
		return saltedByTheHash(jwt.SigningMethodPS256)
	case oauth.PS384:
		return saltedByTheHash(jwt.SigningMethodPS384)
	case oauth.PS512:
		return saltedByTheHash(jwt.SigningMethodPS512)
	}
	return nil
}

func saltedByTheHash(m *jwt.SigningMethodRSAPSS) jwt.SigningMethod {
	return &jwt.SigningMethodRSAPSS{SigningMethodRSA: m.SigningMethodRSA, Options: &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}}
}

// algorithmsOf returns the algorithms for a key of this type and curve; none: the key is unsupported.
func algorithmsOf(public crypto.PublicKey) []oauth.Algorithm {
	switch key := public.(type) {
	case *ecdsa.PublicKey:
		switch key.Curve {
		case elliptic.P256():
			return []oauth.Algorithm{oauth.ES256}
		case elliptic.P384():
			return []oauth.Algorithm{oauth.ES384}
		case elliptic.P521():
			return []oauth.Algorithm{oauth.ES512}
		}
	case ed25519.PublicKey:
		return []oauth.Algorithm{oauth.EdDSA}
	case *rsa.PublicKey:
		return []oauth.Algorithm{oauth.RS256, oauth.RS384, oauth.RS512, oauth.PS256, oauth.PS384, oauth.PS512}
	}
	return nil
}

// checkKey returns an error if the public key does not fit the algorithm.
func checkKey(public crypto.PublicKey, algorithm oauth.Algorithm) error {
	if !slices.Contains(algorithmsOf(public), algorithm) {
		return fmt.Errorf("a %T is no key for %s", public, algorithm)
	}
	switch key := public.(type) {
	case ed25519.PublicKey:
		if len(key) != ed25519.PublicKeySize {
			return fmt.Errorf("an Ed25519 key has %d bytes", ed25519.PublicKeySize)
		}
	case *rsa.PublicKey:
		if key.N.BitLen() > maxRSABits {
			return fmt.Errorf("an RSA key has at most %d bits", maxRSABits)
		}
		if key.N.BitLen() < minRSABits || key.E < minRSAExponent || key.E%2 == 0 || key.N.Bit(0) == 0 {
			return fmt.Errorf("an RSA key needs at least %d bits and an odd exponent of at least %d", minRSABits, minRSAExponent)
		}
	}
	return nil
}
