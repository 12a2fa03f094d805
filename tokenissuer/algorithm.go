package tokenissuer

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	_ "crypto/sha512" // of the algorithms with 384 and 512 in their names
	"fmt"
	"slices"
	"strings"

	"github.com/golang-jwt/jwt/v5"
)

// Algorithm is a signature algorithm (RFC 7518 §3.1, RFC 8037 §3.1). Symmetric ones, and "none", are never among them:
// the former would make every verifier an issuer, the latter everybody.
type Algorithm string

// The algorithms. Our own tokens are signed with the first three.
const (
	ES256 Algorithm = "ES256"
	RS256 Algorithm = "RS256"
	EdDSA Algorithm = "EdDSA"

	ES384 Algorithm = "ES384"
	ES512 Algorithm = "ES512"
	RS384 Algorithm = "RS384"
	RS512 Algorithm = "RS512"
	PS256 Algorithm = "PS256"
	PS384 Algorithm = "PS384"
	PS512 Algorithm = "PS512"
)

var (
	// OwnAlgorithms are those of our own tokens.
	OwnAlgorithms = []Algorithm{ES256, RS256, EdDSA}
	// TrustedAlgorithms are those of the tokens of trusted issuers.
	TrustedAlgorithms = append(slices.Clone(OwnAlgorithms), ES384, ES512, RS384, RS512, PS256, PS384, PS512)
)

// ParseAlgorithm reads the name of an algorithm of OwnAlgorithms.
func ParseAlgorithm(name string) (Algorithm, error) { return parseAlgorithm(name, OwnAlgorithms) }

// ParseTrustedAlgorithm reads the name of an algorithm of TrustedAlgorithms.
func ParseTrustedAlgorithm(name string) (Algorithm, error) {
	return parseAlgorithm(name, TrustedAlgorithms)
}

func parseAlgorithm(name string, known []Algorithm) (Algorithm, error) {
	if a := Algorithm(name); slices.Contains(known, a) {
		return a, nil
	}
	last := len(known) - 1
	return "", fmt.Errorf("algorithm %q is not supported: use %s or %s", name, algorithmNames(known[:last]), known[last])
}

func algorithmNames(list []Algorithm) string {
	names := make([]string, len(list))
	for i, a := range list {
		names[i] = string(a)
	}
	return strings.Join(names, ", ")
}

// method is golang-jwt's implementation of the algorithm. Those of RSASSA-PSS are made anew, because its own take a salt
// of any length, and RFC 7518 §3.5 wants that of the hash.
func (a Algorithm) method() jwt.SigningMethod {
	switch a {
	case ES256:
		return deterministicES256{jwt.SigningMethodES256}
	case RS256:
		return jwt.SigningMethodRS256
	case EdDSA:
		return directEdDSA{jwt.SigningMethodEdDSA}
	case ES384:
		return jwt.SigningMethodES384
	case ES512:
		return jwt.SigningMethodES512
	case RS384:
		return jwt.SigningMethodRS384
	case RS512:
		return jwt.SigningMethodRS512
	case PS256:
		return saltedByTheHash(jwt.SigningMethodPS256)
	case PS384:
		return saltedByTheHash(jwt.SigningMethodPS384)
	case PS512:
		return saltedByTheHash(jwt.SigningMethodPS512)
	}
	return nil
}

func saltedByTheHash(m *jwt.SigningMethodRSAPSS) jwt.SigningMethod {
	return &jwt.SigningMethodRSAPSS{SigningMethodRSA: m.SigningMethodRSA, Options: &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}}
}

// algorithmsOf lists what a key of this type and curve may be used for; none: the key is of no use here.
func algorithmsOf(public crypto.PublicKey) []Algorithm {
	switch key := public.(type) {
	case *ecdsa.PublicKey:
		switch key.Curve {
		case elliptic.P256():
			return []Algorithm{ES256}
		case elliptic.P384():
			return []Algorithm{ES384}
		case elliptic.P521():
			return []Algorithm{ES512}
		}
	case ed25519.PublicKey:
		return []Algorithm{EdDSA}
	case *rsa.PublicKey:
		return []Algorithm{RS256, RS384, RS512, PS256, PS384, PS512}
	}
	return nil
}

// checkKey holds a public key against the algorithm that it is to be bound to.
func checkKey(public crypto.PublicKey, algorithm Algorithm) error {
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
