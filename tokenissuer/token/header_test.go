package token

import (
	"strconv"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestG15OneOfOurKeysSignsForNoOther: TestG15AnotherAlgorithm tests one key with every algorithm.
func TestG15OneOfOurKeysSignsForNoOther(t *testing.T) {
	g := newGate(t)
	for _, key := range g.signing {
		for _, other := range g.signing {
			if other != key {
				g.refuses(t, testkeys.Sign(other, testkeys.Header(other, "kid", strconv.Quote(key.ID)), g.claims()), "algorithm_mismatch")
				g.refuses(t, testkeys.Sign(other, testkeys.Header(key), g.claims()), "signature_wrong")
			}
		}
	}
}

func TestG17TheHeaderIsReadStrictly(t *testing.T) {
	g := newGate(t)
	key := g.signing[oauth.ES256]
	members := strings.TrimSuffix(testkeys.Header(key), "}")
	for _, h := range []string{
		members + `,"alg":"ES256"}`, members + `,"alg":"none"}`, `{"alg":"none",` + members[1:] + "}",
		members + `,"kid":"` + key.ID + `"}`, members + `,"kid":"x"}`, members + `,"typ":"JWT"}`,
		members + `,"\u0061lg":"ES256"}`,
		testkeys.Header(key, "alg", "", "ALG", `"ES256"`), testkeys.Header(key, "kid", "", "Kid", strconv.Quote(key.ID)), testkeys.Header(key, "typ", "", "TYP", `"at+jwt"`),
		members + `,"ALG":"ES256"}`, members + `,"\u212aid":"x"}`, members + `,"x":1}`,
		members, members + "}}", members + "}{}", members + ",}", "[" + testkeys.Header(key) + "]", " " + testkeys.Header(key),
		"\ufeff" + testkeys.Header(key), "null", `"ES256"`, "", members + `,"x":"` + "\xff" + `"}`,
	} {
		g.refuses(t, testkeys.Sign(key, h, g.claims()), "header_malformed", "header_unexpected", "token_malformed")
	}
	// Harmless spellings of the same header.
	g.accepts(t, testkeys.Sign(key, `{"kid":"`+key.ID+`",`+"\n\t"+`"typ" : "at+jwt", "alg":"\u0045S256" } `, g.claims()))
}
