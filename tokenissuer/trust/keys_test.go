package trust

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestG87EveryIssuerHasItsOwnKeys: all pairs of key and iss. A key of one issuer says nothing about another's tokens, not
// even under the same kid.
func TestG87EveryIssuerHasItsOwnKeys(t *testing.T) {
	a, b, twin := newSigner("a"), newSigner("b"), newSigner("a")
	pa, pb, pc := newProvider(t, a), newProvider(t, b), newProvider(t, twin)
	gates := []*gate{newGate(t, pa), newGate(t, pb), newGate(t, pc)}
	for i, key := range []*signer{a, b, twin} {
		for j, g := range gates {
			for k, issuer := range []string{pa.URL, pb.URL, pc.URL} {
				token, err := g.judgeNow(key.token(issuer, nil))
				if good := i == j && j == k; good != (err == nil) {
					t.Errorf("key %d, gate %d, iss %d: %v, %v", i, j, k, token, err)
				}
				if err != nil && oauth.AsError(err).Code != oauth.InvalidToken {
					t.Errorf("key %d, gate %d, iss %d: %v", i, j, k, err)
				}
			}
		}
	}
	// A provider that publishes another's keys as its own still vouches for nobody else.
	pb.publish(a, b)
	g := newGate(t, pb)
	g.refuses(t, a.token(pa.URL, nil), oauth.InvalidToken, "issuer_wrong")
	g.fetchNow()
	g.refuses(t, a.token(pa.URL, nil), oauth.InvalidToken, "issuer_wrong")
}

// TestK10ASetThatIsFetched is held to the rules: what cannot be told refuses the set and leaves the one that there was, what
// cannot be used is left out.
func TestK10ASetThatIsFetched(t *testing.T) {
	good, next := newSigner("good"), newSigner("next")
	oct := `{"kty":"oct","kid":"s","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMko"}`
	again := strings.Replace(next.jwk(), `"next"`, `"again"`, 1)
	for name, set := range map[string]string{
		"a symmetric key": jwks(next.jwk(), oct), "only a symmetric key": jwks(oct), "a kid twice": jwks(next.jwk(), newSigner("next").jwk()),
		"one key under two kids": jwks(next.jwk(), again), "one key for two algorithms": jwks(next.jwk(), strings.Replace(again, "EdDSA", "ES256", 1)),
		"only an encryption key": jwks(strings.Replace(next.jwk(), `"sig"`, `"enc"`, 1)), "only for wrapping": jwks(strings.Replace(next.jwk(), `"use":"sig"`, `"key_ops":["wrapKey"]`, 1)),
		"only a curve that we lack": jwks(`{"kty":"EC","crv":"secp256k1","kid":"next","x":"AA","y":"AA"}`), "off the curve": jwks(`{"kty":"EC","crv":"P-256","kid":"next","x":"` + strings.Repeat("A", 43) + `","y":"` + strings.Repeat("A", 43) + `"}`),
		"RSA 1024": jwks(`{"kty":"RSA","kid":"next","e":"AQAB","n":"` + strings.Repeat("_", 170) + `w"}`), "RSA e 3": jwks(`{"kty":"RSA","kid":"next","e":"Aw","n":"` + strings.Repeat("_", 342) + `"}`),
		"empty": `{"keys":[]}`, "no keys": `{}`, "garbage": "\x00\xff\xfe", "a page": "<html>", "null": "null", "nothing": "", "two sets": jwks(next.jwk()) + jwks(next.jwk()),
		"members twice": `{"keys":[` + next.jwk() + `],"keys":[]}`, "another case": strings.Replace(jwks(next.jwk()), "keys", "Keys", 1), "deep": `{"keys":` + strings.Repeat("[", 100000), "a long kid twice": jwks(strings.ReplaceAll(next.jwk()+","+ecKey("next"), "next", strings.Repeat("n", 100000))),
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvider(t, good)
			g := newGate(t, p)
			g.accepts(t, good.token(p.URL, nil))
			generation := g.Generation()
			p.answer(keysPath, text(set))
			g.fetchNow()
			g.accepts(t, good.token(p.URL, map[string]any{"jti": "2"}))
			g.refuses(t, next.token(p.URL, nil), oauth.TemporarilyUnavailable, reasonStale)
			if len(g.warnings) != 1 || len(g.warnings[0]) > 2*maxErrorText || g.Generation() != generation {
				t.Errorf("warned of %.3000q", g.warnings)
			}
			g.fetchNow()
			if len(g.warnings) != 1 {
				t.Error("warned twice of the same")
			}
		})
	}
	p := newProvider(t)
	p.answer(keysPath, text(jwks(strings.Replace(newSigner("e").jwk(), `"sig"`, `"enc"`, 1), `{"kty":"new","kid":"n"}`, good.jwk())))
	g := newGate(t, p)
	g.accepts(t, good.token(p.URL, nil))
	g.refuses(t, newSigner("e").token(p.URL, nil), oauth.InvalidToken, reasonUnknown)
}

// TestAlgorithmsNarrowTheSet: what the operator did not list is no key.
func TestAlgorithmsNarrowTheSet(t *testing.T) {
	key := newSigner("k")
	p := newProvider(t)
	p.answer(keysPath, text(jwks(key.jwk(), ecKey("e"))))
	only := func(a ...oauth.Algorithm) func(*Settings) { return func(s *Settings) { s.Algorithms = a } }
	newGate(t, p, only(oauth.EdDSA)).accepts(t, key.token(p.URL, nil))
	newGate(t, p, only(oauth.ES256)).refuses(t, key.token(p.URL, nil), oauth.InvalidToken, reasonUnknown)
	newGate(t, p, only(oauth.RS256)).refuses(t, key.token(p.URL, nil), oauth.TemporarilyUnavailable, reasonNotLoaded)
}

// TestGenerationIsOfTheKeys: it stands still when the same keys come in another order or with other members, and moves when
// one is replaced under its kid.
func TestGenerationIsOfTheKeys(t *testing.T) {
	a, b := newSigner("a"), newSigner("b")
	p := newProvider(t, a, b)
	g := newGate(t, p)
	step := func(name string, moves bool) {
		t.Helper()
		before := g.Generation()
		g.fetchNow()
		if moved := g.Generation() != before; moved != moves {
			t.Errorf("%s: moved %t", name, moved)
		}
	}
	step("first", true)
	step("the same", false)
	p.publish(b, a)
	step("another order", false)
	p.answer(keysPath, text(jwks(strings.Replace(a.jwk(), `"use":"sig",`, "", 1), b.jwk(), `{"kty":"new"}`)))
	step("other members", false)
	p.answer(keysPath, broken)
	step("a failure", false)
	p.publish(a)
	step("one less", true)
	p.publish(newSigner("a"))
	step("another under its kid", true)
}

// TestAWithdrawnKeyEndsItsTokens, those too that were judged before.
func TestAWithdrawnKeyEndsItsTokens(t *testing.T) {
	old, fresh := newSigner("old"), newSigner("fresh")
	p := newProvider(t, old)
	g := newGate(t, p)
	token := old.token(p.URL, nil)
	g.accepts(t, token)
	p.publish(fresh)
	g.fetchNow()
	g.refuses(t, token, oauth.InvalidToken, reasonUnknown)
	g.accepts(t, fresh.token(p.URL, nil))
	// What was judged with one key is not good because another one has its kid now.
	p.publish(newSigner("old"))
	g.fetchNow()
	g.refuses(t, token, oauth.InvalidToken, "key_replaced")
}

// TestRotationWhileTokensAreJudged: an issuer that signs with a new key before anybody can have seen it loses no token, and
// the old ones stay good as long as their key is published.
func TestRotationWhileTokensAreJudged(t *testing.T) {
	first := newSigner("0")
	p := newProvider(t, first)
	g := newGate(t, p)
	var current atomic.Pointer[signer]
	current.Store(first)
	ctx, stop := context.WithCancel(t.Context())
	var judges sync.WaitGroup
	for range 4 {
		judges.Go(func() {
			for ctx.Err() == nil {
				if _, err := g.judgeNow(current.Load().token(p.URL, nil)); err != nil {
					t.Errorf("refused: %v", err)
					return
				}
			}
		})
	}
	keys := []*signer{first}
	for i := range 10 {
		next := newSigner(string(rune('1' + i)))
		keys = append(keys, next)
		p.publish(keys...)
		g.clock.Add(shortCoolDown) // an issuer that has rotated its keys may do so again
		current.Store(next)
		g.accepts(t, next.token(p.URL, nil))
	}
	stop()
	judges.Wait()
	g.accepts(t, first.token(p.URL, nil))
}
