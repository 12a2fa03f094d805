package oauth

import (
	_ "crypto/sha512"
	"fmt"
	"slices"
	"strings"
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
	return "", fmt.Errorf("algorithm %q is not supported: use %s or %s", name, AlgorithmNames(known[:last]), known[last])
}

// AlgorithmNames writes a list of algorithms with commas between them, for a message.
func AlgorithmNames(list []Algorithm) string {
	names := make([]string, len(list))
	for i, a := range list {
		names[i] = string(a)
	}
	return strings.Join(names, ", ")
}
