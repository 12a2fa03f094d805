package fetch

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/issuertest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestK10ASetThatIsFetched is held to the rules: what cannot be told refuses the set and leaves the one that there was, what
// cannot be used is left out.
func TestK10ASetThatIsFetched(t *testing.T) {
	good, next := issuertest.NewSigner("good"), issuertest.NewSigner("next")
	oct := `{"kty":"oct","kid":"s","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMko"}`
	again := strings.Replace(next.JWK(), `"next"`, `"again"`, 1)
	for name, set := range map[string]string{
		"a symmetric key": issuertest.JWKS(next.JWK(), oct), "only a symmetric key": issuertest.JWKS(oct), "a kid twice": issuertest.JWKS(next.JWK(), issuertest.NewSigner("next").JWK()),
		"one key under two kids": issuertest.JWKS(next.JWK(), again), "one key for two algorithms": issuertest.JWKS(next.JWK(), strings.Replace(again, "EdDSA", "ES256", 1)),
		"only an encryption key": issuertest.JWKS(strings.Replace(next.JWK(), `"sig"`, `"enc"`, 1)), "only for wrapping": issuertest.JWKS(strings.Replace(next.JWK(), `"use":"sig"`, `"key_ops":["wrapKey"]`, 1)),
		"only a curve that we lack": issuertest.JWKS(`{"kty":"EC","crv":"secp256k1","kid":"next","x":"AA","y":"AA"}`), "off the curve": issuertest.JWKS(`{"kty":"EC","crv":"P-256","kid":"next","x":"` + strings.Repeat("A", 43) + `","y":"` + strings.Repeat("A", 43) + `"}`),
		"RSA 1024": issuertest.JWKS(`{"kty":"RSA","kid":"next","e":"AQAB","n":"` + strings.Repeat("_", 170) + `w"}`), "RSA e 3": issuertest.JWKS(`{"kty":"RSA","kid":"next","e":"Aw","n":"` + strings.Repeat("_", 342) + `"}`),
		"empty": `{"keys":[]}`, "no keys": `{}`, "garbage": "\x00\xff\xfe", "a page": "<html>", "null": "null", "nothing": "", "two sets": issuertest.JWKS(next.JWK()) + issuertest.JWKS(next.JWK()),
		"members twice": `{"keys":[` + next.JWK() + `],"keys":[]}`, "another case": strings.Replace(issuertest.JWKS(next.JWK()), "keys", "Keys", 1), "deep": `{"keys":` + strings.Repeat("[", 100000), "a long kid twice": issuertest.JWKS(strings.ReplaceAll(next.JWK()+","+issuertest.ECKey("next"), "next", strings.Repeat("n", 100000))),
	} {
		t.Run(name, func(t *testing.T) {
			p := issuertest.NewProvider(t, good)
			g := newGate(t, p)
			g.accepts(t, good)
			generation := g.Generation()
			p.Answer(issuertest.KeysPath, issuertest.Text(set))
			g.fetchNow()
			g.accepts(t, good)
			g.refuses(t, next, oauth.TemporarilyUnavailable, reasonStale)
			if len(g.warnings) != 1 || len(g.warnings[0]) > 2*maxErrorText || g.Generation() != generation {
				t.Errorf("warned of %.3000q", g.warnings)
			}
			g.fetchNow()
			if len(g.warnings) != 1 {
				t.Error("warned twice of the same")
			}
		})
	}
	p := issuertest.NewProvider(t)
	p.Answer(issuertest.KeysPath, issuertest.Text(issuertest.JWKS(strings.Replace(issuertest.NewSigner("e").JWK(), `"sig"`, `"enc"`, 1), `{"kty":"new","kid":"n"}`, good.JWK())))
	g := newGate(t, p)
	g.accepts(t, good)
	g.refuses(t, issuertest.NewSigner("e"), oauth.InvalidToken, reasonUnknown)
}

// TestAlgorithmsNarrowTheSet: what the operator did not list is no key.
func TestAlgorithmsNarrowTheSet(t *testing.T) {
	key := issuertest.NewSigner("k")
	p := issuertest.NewProvider(t)
	p.Answer(issuertest.KeysPath, issuertest.Text(issuertest.JWKS(key.JWK(), issuertest.ECKey("e"))))
	only := func(a ...oauth.Algorithm) func(*Source) { return func(s *Source) { s.Algorithms = a } }
	newGate(t, p, only(oauth.EdDSA)).accepts(t, key)
	newGate(t, p, only(oauth.ES256)).refuses(t, key, oauth.InvalidToken, reasonUnknown)
	newGate(t, p, only(oauth.RS256)).refuses(t, key, oauth.TemporarilyUnavailable, reasonNotLoaded)
}

// TestGenerationIsOfTheKeys: it stands still when the same keys come in another order or with other members, and moves when
// one is replaced under its kid.
func TestGenerationIsOfTheKeys(t *testing.T) {
	a, b := issuertest.NewSigner("a"), issuertest.NewSigner("b")
	p := issuertest.NewProvider(t, a, b)
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
	p.Publish(b, a)
	step("another order", false)
	p.Answer(issuertest.KeysPath, issuertest.Text(issuertest.JWKS(strings.Replace(a.JWK(), `"use":"sig",`, "", 1), b.JWK(), `{"kty":"new"}`)))
	step("other members", false)
	p.Answer(issuertest.KeysPath, issuertest.Broken)
	step("a failure", false)
	p.Publish(a)
	step("one less", true)
	p.Publish(issuertest.NewSigner("a"))
	step("another under its kid", true)
}

// TestKeysAreReported with what each is good for, or why it is not.
func TestKeysAreReported(t *testing.T) {
	p := issuertest.NewProvider(t)
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	p.Answer(issuertest.KeysPath, issuertest.Text(issuertest.JWKS(
		issuertest.NewSignerOf("rs", "RS256").JWK(), issuertest.NewSignerOf("any", "RS256").As("any", "").JWK(), issuertest.NewSignerOf("es", "ES384").JWK(),
		issuertest.NewSigner("ed").JWK(), issuertest.NewSigner("").JWK(), issuertest.NewSignerOf("", "ES512").JWK(),
		strings.Replace(issuertest.NewSignerOf("enc", "ES256").JWK(), `"sig"`, `"enc"`, 1), (&issuertest.Signer{Kid: "weak", Alg: "RS256", Private: weak}).JWK(),
		issuertest.NewSignerOf("wrong", "ES384").As("wrong", "ES256").JWK(), issuertest.NewSignerOf("oaep", "RS256").As("oaep", "RSA-OAEP").JWK(), `{"kty":"AKP","kid":"pq"}`,
	)))
	g := newGate(t, p, func(s *Source) {
		s.Algorithms = []oauth.Algorithm{"RS256", "PS256", "ES384", "ES512", "EdDSA"}
	})
	if r := g.Report(); len(r.Keys) != 0 || r.Failed != "" || !r.FetchedAt.IsZero() {
		t.Errorf("before the first fetch: %+v", r)
	}
	g.fetchNow()
	r := g.Report()
	if r.JWKSURI != p.URL+issuertest.KeysPath || !r.FetchedAt.Equal(issuertest.Start) || r.Failed != "" {
		t.Errorf("%+v", r)
	}
	want := []struct {
		kid, kind, algorithms, unusable string
	}{
		{"rs", "RSA", "RS256", ""}, {"any", "RSA", "RS256 PS256", ""}, {"es", "EC P-384", "ES384", ""}, {"ed", "OKP Ed25519", "EdDSA", ""},
		{"", "OKP Ed25519", "", "no kid, and is not the only one for EdDSA"}, {"", "EC P-521", "ES512", ""},
		{"enc", "EC P-256", "", `use is "enc"`}, {"weak", "RSA", "", "at least 2048 bits"}, {"wrong", "EC P-384", "", `alg is "ES256": a key of its type is for ES384`},
		{"oaep", "RSA", "", `alg is "RSA-OAEP"`}, {"pq", "AKP", "", `key type "AKP"`},
	}
	if len(r.Keys) != len(want) {
		t.Fatalf("%d keys are reported", len(r.Keys))
	}
	for i, w := range want {
		k := r.Keys[i]
		var algorithms []string
		for _, a := range k.Algorithms {
			algorithms = append(algorithms, string(a))
		}
		if k.ID != w.kid || k.Type != w.kind || !slices.Equal(algorithms, strings.Fields(w.algorithms)) ||
			(k.Unusable == "") != (w.unusable == "") || !strings.Contains(k.Unusable, w.unusable) {
			t.Errorf("%+v, want %+v", k, w)
		}
	}
	p.Answer(issuertest.KeysPath, issuertest.Broken)
	g.fetchNow()
	if r := g.Report(); len(r.Keys) != len(want) || r.Failed == "" {
		t.Errorf("after a fetch that failed: %+v", r)
	}
	if _, err := json.Marshal(g.Report()); err != nil {
		t.Error(err)
	}
}
