package oauth

import (
	_ "crypto/sha512"
	"fmt"
	"slices"
	"strings"
)

// Algorithm is a signature algorithm (RFC 7518 §3.1, RFC 8037 §3.1). Symmetric algorithms and "none" are not
// supported: with the former every verifier could issue tokens, with the latter anybody.
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

	// ed25519 is EdDSA with a key of that curve, the only one that is supported (RFC 9864 §2.2).
	ed25519 Algorithm = "Ed25519"
)

var (
	// OwnAlgorithms can sign our own tokens.
	OwnAlgorithms = []Algorithm{ES256, RS256, EdDSA}
	// TrustedAlgorithms can sign tokens of trusted issuers.
	TrustedAlgorithms = append(slices.Clone(OwnAlgorithms), ES384, ES512, RS384, RS512, PS256, PS384, PS512)
	// TrustedNames are all names of TrustedAlgorithms.
	TrustedNames = append(slices.Clone(TrustedAlgorithms), ed25519)
)

// Canonical returns the name of an algorithm that is used here: EdDSA has two.
func (a Algorithm) Canonical() Algorithm {
	if a == ed25519 {
		return EdDSA
	}
	return a
}

// ParseAlgorithm returns the algorithm of OwnAlgorithms with this name.
func ParseAlgorithm(name string) (Algorithm, error) { return parseAlgorithm(name, OwnAlgorithms) }

// ParseTrustedAlgorithm returns the algorithm of TrustedAlgorithms with this name.
func ParseTrustedAlgorithm(name string) (Algorithm, error) {
	return parseAlgorithm(string(Algorithm(name).Canonical()), TrustedAlgorithms)
}

func parseAlgorithm(name string, known []Algorithm) (Algorithm, error) {
	if a := Algorithm(name); slices.Contains(known, a) {
		return a, nil
	}
	last := len(known) - 1
	return "", fmt.Errorf("algorithm %q is not supported: use %s or %s", name, AlgorithmNames(known[:last]), known[last])
}

// AlgorithmNames joins the names of algorithms with commas, for a message.
func AlgorithmNames(list []Algorithm) string {
	names := make([]string, len(list))
	for i, a := range list {
		names[i] = string(a)
	}
	return strings.Join(names, ", ")
}
