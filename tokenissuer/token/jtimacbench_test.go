package token

import (
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// benchmarkRefused verifies tokens in turn. The verifier must refuse all of them.
func benchmarkRefused(b *testing.B, v *Verifier, audiences, tokens []string) {
	b.Helper()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, err := v.Verify(tokens[i%len(tokens)], audiences); err == nil {
			b.Fatal("accepted")
		}
		i++
	}
}

// BenchmarkForgedOwn measures tokens of an attacker who knows our key ids and the form of our tokens.
func BenchmarkForgedOwn(b *testing.B) {
	for _, algorithm := range testkeys.Algorithms {
		g := newMACGate(b)
		genuine := make([]string, 100)
		changedClaims, changedSignature := make([]string, len(genuine)), make([]string, len(genuine))
		for i := range genuine {
			genuine[i], _ = g.issue(b, algorithm)
			changedClaims[i] = altered(genuine[i], strings.IndexByte(genuine[i], '.')+200)
			changedSignature[i] = altered(genuine[i], strings.LastIndexByte(genuine[i], '.')+20)
		}
		b.Run(string(algorithm)+"/Claims", func(b *testing.B) { benchmarkRefused(b, g.verifier, g.audiences, changedClaims) })
		b.Run(string(algorithm)+"/Signature", func(b *testing.B) { benchmarkRefused(b, g.verifier, g.audiences, changedSignature) })
	}
}

// BenchmarkFirstSight measures a good token of our own issuer that this node has not seen before.
func BenchmarkFirstSight(b *testing.B) {
	for _, algorithm := range testkeys.Algorithms {
		g := newMACGate(b)
		token, _ := g.issue(b, algorithm)
		digest := oauth.DigestOf(token)
		b.Run(string(algorithm), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				g.verifier.cache.drop(digest)
				if _, err := g.verifier.Verify(token, g.audiences); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFirstSightOfOthers measures a good token of another issuer that was not seen before, and the signature's
// share of that.
func BenchmarkFirstSightOfOthers(b *testing.B) {
	for _, algorithm := range testkeys.Algorithms {
		g := newGate(b)
		key := g.signing[algorithm]
		token := testkeys.Sign(key, testkeys.Header(key), g.claims("azp", `"portal"`, "email_verified", "true", "groups", `["a","b"]`))
		v := NewTrustedVerifier(TrustedTokens{Issuer: tokentest.Issuer}, g.keySet, g.Now)
		b.Run(string(algorithm), func(b *testing.B) {
			digest := oauth.DigestOf(token)
			b.ReportAllocs()
			for b.Loop() {
				v.cache.drop(digest)
				if _, err := v.Verify(token, g.audiences); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(string(algorithm)+"/SignatureAlone", func(b *testing.B) {
			j := new(jws)
			if err := j.parse(token, nil); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := j.verify(&key.VerificationKey); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
