package main

import (
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// signatureCost is the cost of one signature of an algorithm on this machine, in microseconds. Every token endpoint
// pays the first and every gate the second.
type signatureCost struct{ sign, verify float64 }

// costOfSignature measures it over a text as long as the signed part of a token.
func costOfSignature(algorithm string) signatureCost {
	key, method := externalKeys()[algorithm], jwt.GetSigningMethod(algorithm)
	text := strings.Repeat("x", 500)
	signature := must(key.sign([]byte(text)))
	return signatureCost{
		sign:   leastTime(func() { must(key.sign([]byte(text))) }),
		verify: leastTime(func() { check(method.Verify(text, signature, key.key)) }),
	}
}

// leastTime returns the time of a call in microseconds. It takes the least of several rounds, because other load on
// the machine only adds.
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
