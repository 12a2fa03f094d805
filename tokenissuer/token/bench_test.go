package token

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// manyGood returns n good tokens. They use EdDSA, which signs and verifies fastest.
func (g *gate) manyGood(n int) []string {
	key := g.signing[oauth.EdDSA]
	tokens := make([]string, n)
	for i := range tokens {
		tokens[i] = testkeys.Sign(key, testkeys.Header(key), g.claims("jti", strconv.Quote("token-"+strconv.Itoa(i))))
	}
	return tokens
}

func warm(tb testing.TB, g *gate, tokens []string) {
	tb.Helper()
	for _, token := range tokens {
		if _, err := g.verifier.Verify(token, g.audiences); err != nil {
			tb.Fatal(err)
		}
	}
}

func BenchmarkVerifyCached(b *testing.B) {
	b.Run("one", func(b *testing.B) {
		g := newGate(b)
		token := g.good()
		warm(b, g, []string{token})
		b.ReportAllocs()
		for b.Loop() {
			if _, err := g.verifier.Verify(token, g.audiences); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("one of 10000 revocations", func(b *testing.B) {
		g := newGate(b)
		token := g.good()
		for i := range 10_000 {
			g.revocations.Add(store.Revocation{Kind: store.RevokeToken, ID: strconv.Itoa(i), ExpiresAt: tokentest.Start.Add(time.Hour)})
		}
		warm(b, g, []string{token})
		b.ReportAllocs()
		for b.Loop() {
			if _, err := g.verifier.Verify(token, g.audiences); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("20000 in turn", func(b *testing.B) {
		g := newGate(b)
		tokens := g.manyGood(20_000)
		warm(b, g, tokens)
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			if _, err := g.verifier.Verify(tokens[i%len(tokens)], g.audiences); err != nil {
				b.Fatal(err)
			}
			i++
		}
	})
	b.Run("parallel", func(b *testing.B) {
		g := newGate(b)
		tokens := g.manyGood(1000)
		warm(b, g, tokens)
		b.ReportAllocs()
		var start atomic.Int64
		b.RunParallel(func(pb *testing.PB) {
			for i := int(start.Add(97)); pb.Next(); i++ {
				if _, err := g.verifier.Verify(tokens[i%len(tokens)], g.audiences); err != nil {
					b.Error(err)
				}
			}
		})
	})
}

func BenchmarkVerifyUncached(b *testing.B) {
	for _, a := range testkeys.Algorithms {
		b.Run(string(a), func(b *testing.B) {
			g := newGate(b)
			key := g.signing[a]
			token := testkeys.Sign(key, testkeys.Header(key), g.claims())
			digest := oauth.DigestOf(token)
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

// hostile returns tokens of the kinds that a flood consists of.
func (g *gate) hostile() map[string]string {
	key := g.signing[oauth.ES256]
	stranger := testkeys.Foreign()[oauth.ES256]
	return map[string]string{
		"UnknownKey": testkeys.Sign(stranger, testkeys.Header(stranger), g.claims()),
		"TooLong":    strings.Repeat("a", 15<<10),
		"Expired":    g.good("exp", strconv.FormatInt(tokentest.Start.Unix()-60, 10)),
		"Malformed":  strings.Repeat("a.b", 100),
		"Signature":  testkeys.Sign(stranger, testkeys.Header(key), g.claims()),
		"Nested":     tokentest.Encode(testkeys.Header(key)) + "." + tokentest.Encode(`{"x":`+strings.Repeat("[", 5900)) + "." + tokentest.Encode("x"),
	}
}

func benchmarkRefuse(b *testing.B, kind string) {
	g := newGate(b)
	token := g.hostile()[kind]
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.verifier.Verify(token, g.audiences); err == nil {
			b.Fatal("accepted")
		}
	}
}

func BenchmarkRefuseUnknownKey(b *testing.B) { benchmarkRefuse(b, "UnknownKey") }

func BenchmarkRefuseTooLong(b *testing.B) { benchmarkRefuse(b, "TooLong") }

func BenchmarkRefuseExpired(b *testing.B) { benchmarkRefuse(b, "Expired") }

func BenchmarkRefuseMalformed(b *testing.B) { benchmarkRefuse(b, "Malformed") }

func BenchmarkRefuseSignature(b *testing.B) { benchmarkRefuse(b, "Signature") }

func BenchmarkRefuseNested(b *testing.B) { benchmarkRefuse(b, "Nested") }

func TestACachedTokenCostsNoAllocation(t *testing.T) {
	g := newGate(t)
	tokens := g.manyGood(100)
	g.revocations.Add(store.Revocation{Kind: store.RevokeUser, ID: "somebody else", ExpiresAt: tokentest.Start.Add(time.Hour)})
	warm(t, g, tokens)
	i := 0
	if n := testing.AllocsPerRun(2000, func() {
		if _, err := g.verifier.Verify(tokens[i%len(tokens)], g.audiences); err != nil {
			t.Fatal(err)
		}
		i++
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	// After a revocation arrives, each token is checked again once.
	if n := testing.AllocsPerRun(2000, func() {
		if i%len(tokens) == 0 {
			g.revocations.generation.Add(1)
		}
		if _, err := g.verifier.Verify(tokens[i%len(tokens)], g.audiences); err != nil {
			t.Fatal(err)
		}
		i++
	}); n > 8 {
		t.Errorf("%v allocations after a revocation", n)
	}
}

// fill puts n tokens into the cache as if each had been verified, with texts of typical lengths.
func (g *gate) fill(from, n int, jti func(int) string) {
	for i := from; i < from+n; i++ {
		text := jti(i)
		t := &AccessToken{
			Issuer: g.verifier.issuer, Subject: "user-" + text, Audience: []string{tokentest.Audience}, ClientID: "client-1", Scopes: oauth.Scopes{"public", "trusted"},
			ID: text, IssuedAt: tokentest.Start, ExpiresAt: tokentest.Start.Add(time.Hour), KeyID: g.signing[oauth.ES256].ID, SignIn: SignIn{FamilyID: "family-" + text},
		}
		g.verifier.Remember("token.of."+text, t)
	}
}

func (g *gate) cached() int { return g.verifier.Remembered() }

func TestG81TheCacheStaysWithinItsBounds(t *testing.T) {
	g := newGate(t)
	g.fill(0, maxCachedTokens+maxCachedTokens/2, func(i int) string { return fmt.Sprintf("%022d", i) })
	if n := g.cached(); n > maxCachedTokens || n < maxCachedTokens/2 {
		t.Errorf("%d tokens are cached, want at most %d", n, maxCachedTokens)
	} else {
		t.Logf("%d tokens are cached", n)
	}
	// The weight bounds the number of heavy tokens.
	g = newGate(t)
	name := func(i int) string { return fmt.Sprintf("%022d", i) + strings.Repeat("x", 2500) }
	g.fill(0, 20_000, name)
	n := g.cached()
	last, _ := g.verifier.cache.get(oauth.DigestOf("token.of." + name(19_999)))
	weight := n * int(last.weight())
	if weight > maxCachedBytes || n == 20_000 {
		t.Errorf("%d tokens weigh %d", n, weight)
	} else {
		t.Logf("%d heavy tokens weigh %d", n, weight)
	}
}

func TestG81BadTokensDoNotEnterTheCache(t *testing.T) {
	g := newGate(t)
	g.accepts(t, g.good())
	before := g.cached()
	dead := g.good("jti", `"dead"`)
	g.revocations.Add(store.Revocation{Kind: store.RevokeToken, ID: "dead", ExpiresAt: tokentest.Start.Add(time.Hour)})
	bad := []string{dead, g.good("aud", `"https://other.example"`), g.good("iss", `"https://evil.example"`)}
	for _, token := range g.hostile() {
		bad = append(bad, token)
	}
	key, stranger := g.signing[oauth.EdDSA], testkeys.Foreign()[oauth.EdDSA]
	for i := range 300 {
		bad = append(bad, testkeys.Sign(stranger, testkeys.Header(key), g.claims("jti", strconv.Itoa(i))), testkeys.Sign(stranger, testkeys.Header(stranger), g.claims("jti", strconv.Quote(strconv.Itoa(i)))),
			testkeys.Sign(key, testkeys.Header(key), g.claims("jti", strconv.Quote(strconv.Itoa(i)), "exp", "1")))
	}
	for _, token := range bad {
		if _, err := g.verifier.Verify(token, g.audiences); err == nil {
			t.Fatalf("accepted %s", token)
		}
	}
	if after := g.cached(); before != 1 || after != 1 {
		t.Errorf("%d tokens before, %d after %d bad ones", before, after, len(bad))
	}
}

// TestHotTokensSurviveAFloodOfOthers: a client that requests many tokens and uses each once must not evict tokens in
// constant use.
func TestHotTokensSurviveAFloodOfOthers(t *testing.T) {
	g := newGate(t)
	const hot = 1000
	name := func(i int) string { return fmt.Sprintf("%022d", i) }
	g.fill(0, hot, name)
	use := func() (kept int) {
		for i := range hot {
			if _, err := g.verifier.Verify("token.of."+name(i), g.audiences); err == nil {
				kept++
			}
		}
		return kept
	}
	for range 5 {
		use()
	}
	kept := hot
	for flood := range 6 {
		g.fill(hot+flood*15_000, 15_000, name)
		kept = min(kept, use())
	}
	if kept < hot*95/100 {
		t.Errorf("%d of %d hot tokens survive 90,000 others", kept, hot)
	}
	t.Logf("%d of %d hot tokens survive 90,000 others", kept, hot)
}

func TestACachedTokenIsSmall(t *testing.T) {
	g := newGate(t)
	tokens := g.manyGood(5_000)
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	warm(t, g, tokens)
	each := int(heap()-before) / len(tokens)
	runtime.KeepAlive(tokens)
	if n := g.cached(); n != len(tokens) {
		t.Fatalf("%d of %d are cached", n, len(tokens))
	}
	t.Logf("%d bytes for a cached token of %d bytes", each, len(tokens[0]))
	weighed, _ := g.verifier.cache.get(oauth.DigestOf(tokens[0]))
	t.Logf("it is weighed as %d", weighed.weight())
	if each > int(weighed.weight()) {
		t.Error("it is heavier than it is weighed")
	}
	if each > 320 {
		t.Error("it is too heavy")
	}
}
