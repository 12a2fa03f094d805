package accesstoken

import (
	"strconv"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestOnlyHeadersOfGoodTokensAreRemembered, and no more than a few.
func TestOnlyHeadersOfGoodTokensAreRemembered(t *testing.T) {
	g := newGate(t)
	v := NewTrustedVerifier(TrustedTokens{Issuer: tokentest.Issuer, Types: []string{TypeJWT}}, g.keySet, g.Now)
	key, stranger := g.signing[oauth.EdDSA], testkeys.Foreign()[oauth.EdDSA]
	for i := range 4 * maxSeenHeaders {
		varied := testkeys.Header(key, "typ", `"JWT"`, "x5t", strconv.Quote(t.Name()+strconv.Itoa(i)))
		bad, good := testkeys.Sign(stranger, varied, g.claims()), testkeys.Sign(key, varied, g.claims())
		part := good[:strings.IndexByte(good, '.')]
		if _, err := v.Verify(bad, g.audiences); err == nil || seenHeaders.find(part) != nil {
			t.Fatalf("%v, and the header of a forged token is remembered: %v", err, seenHeaders.find(part))
		}
		if _, err := v.Verify(good, g.audiences); err != nil || seenHeaders.find(part) == nil {
			t.Fatalf("%v, and the header of a good token is remembered: %v", err, seenHeaders.find(part))
		}
		// What was remembered decides nothing by itself.
		if _, err := v.Verify(bad, g.audiences); err == nil {
			t.Fatal("a forged token with a known header was accepted")
		}
		if _, err := g.verifier.Verify(good, g.audiences); err == nil {
			t.Fatal("another issuer's type was accepted")
		}
	}
	if n := len(*seenHeaders.known.Load()); n > maxSeenHeaders {
		t.Errorf("%d headers are remembered", n)
	}
}
