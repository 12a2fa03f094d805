package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// signatureCosts are what one signature of an algorithm takes this machine, in microseconds: what no token endpoint and no gate can
// do without.
type signatureCosts struct{ sign, verify float64 }

// costOfSignature measures them with golang-jwt, over a text that is as long as the signed part of a token.
func costOfSignature(algorithm string) signatureCosts {
	private, public := must2(newKey(algorithm))
	method := jwt.GetSigningMethod(algorithm)
	text := strings.Repeat("x", 500)
	signature := must(method.Sign(text, private))
	return signatureCosts{
		sign:   leastTime(func() { must(method.Sign(text, private)) }),
		verify: leastTime(func() { check(method.Verify(text, signature, public)) }),
	}
}

func newKey(algorithm string) (private, public any, err error) {
	var signer crypto.Signer
	switch algorithm {
	case "ES256":
		signer, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "RS256":
		signer, err = rsa.GenerateKey(rand.Reader, 2048)
	case "EdDSA":
		_, signer, err = ed25519.GenerateKey(rand.Reader)
	default:
		err = fmt.Errorf("no key for %s", algorithm)
	}
	if err != nil {
		return nil, nil, err
	}
	return signer, signer.Public(), nil
}

func must2[A, B any](a A, b B, err error) (A, B) {
	check(err)
	return a, b
}

// leastTime is the time of a call in microseconds: the least of several rounds, because what else runs on the machine only adds.
func leastTime(call func()) float64 {
	const rounds, calls = 20, 50
	best := time.Duration(1 << 62)
	for range rounds {
		start := time.Now()
		for range calls {
			call()
		}
		best = min(best, time.Since(start))
	}
	return float64(best.Nanoseconds()) / 1000 / calls
}
