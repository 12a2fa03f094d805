package trust

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// fits lists, for each algorithm, those that a key of the same type and curve may be used for.
var fits = func() map[string][]string {
	rsa := []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}
	all := map[string][]string{"EdDSA": {"EdDSA"}, "ES256": {"ES256"}, "ES384": {"ES384"}, "ES512": {"ES512"}}
	for _, alg := range rsa {
		all[alg] = rsa
	}
	return all
}()

// TestG120AKeyIsForItsAlgorithmAlone: what a token says in alg selects nothing, not even when the key could be used that way.
func TestG120AKeyIsForItsAlgorithmAlone(t *testing.T) {
	for alg, others := range fits {
		t.Run(alg, func(t *testing.T) {
			key := newSignerOf("k", alg)
			p := newProvider(t, key, newSigner("another"))
			g := newGate(t, p)
			g.accepts(t, key.token(p.URL, nil))
			for _, other := range others {
				if other != alg {
					g.refuses(t, key.as("k", other).token(p.URL, nil), oauth.InvalidToken, "algorithm_mismatch")
				}
			}
			good := key.token(p.URL, nil)
			_, rest, _ := strings.Cut(good, ".")
			for _, other := range []string{"none", "HS256", "HS384", "HS512", "ES256K", "", strings.ToLower(alg)} {
				head := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"` + other + `","typ":"at+jwt","kid":"k"}`))
				g.refuses(t, head+"."+rest, oauth.InvalidToken, "algorithm_mismatch")
			}
			// A key that names no algorithm is for those of its type and curve, as far as the operator lets it.
			p.publish(key.as("k", ""), newSigner("another"))
			g.fetchNow()
			for _, other := range others {
				g.accepts(t, key.as("k", other).token(p.URL, nil))
			}
			narrow := newGate(t, p, func(s *Settings) { s.Algorithms = []oauth.Algorithm{oauth.Algorithm(alg)} })
			for _, other := range others {
				if token := key.as("k", other).token(p.URL, nil); other == alg {
					narrow.accepts(t, token)
				} else {
					narrow.refuses(t, token, oauth.InvalidToken, "algorithm_mismatch")
				}
			}
		})
	}
}

// TestG120ASaltIsAsLongAsTheHash (RFC 7518 §3.5).
func TestG120ASaltIsAsLongAsTheHash(t *testing.T) {
	key := newSignerOf("k", "PS256")
	p := newProvider(t, key)
	g := newGate(t, p)
	good := key.token(p.URL, nil)
	input := good[:strings.LastIndexByte(good, '.')]
	digest := sha256.Sum256([]byte(input))
	for _, salt := range []int{1, 20, 31, 32, 33, 64, rsa.PSSSaltLengthAuto} {
		signature, err := rsa.SignPSS(rand.Reader, key.private.(*rsa.PrivateKey), crypto.SHA256, digest[:], &rsa.PSSOptions{SaltLength: salt})
		if err != nil {
			t.Fatal(err)
		}
		token := input + "." + base64.RawURLEncoding.EncodeToString(signature)
		if salt == 32 {
			g.accepts(t, token)
		} else {
			g.refuses(t, token, oauth.InvalidToken, "signature_wrong")
		}
	}
}

// TestG121ATokenThatNamesNoKey means the one key of its issuer that its algorithm can be used with.
func TestG121ATokenThatNamesNoKey(t *testing.T) {
	rs, ps, ec, nameless := newSignerOf("rs", "RS256"), newSignerOf("ps", "PS256"), newSignerOf("ec", "ES256"), newSigner("")
	encryption := strings.Replace(newSignerOf("enc", "ES256").jwk(), `"sig"`, `"enc"`, 1)
	for _, test := range []struct {
		name   string
		keys   []string
		signer *signer
		reason string // empty: it passes
	}{
		{"one key, with a kid", []string{ec.jwk()}, ec, ""},
		{"one key, without a kid", []string{nameless.jwk()}, nameless, ""},
		{"others are for other algorithms", []string{rs.jwk(), ps.jwk(), ec.jwk(), nameless.jwk()}, rs, ""},
		{"others are for encryption", []string{ec.jwk(), encryption}, ec, ""},
		{"two keys", []string{ec.jwk(), ecKey("ec2")}, ec, "key_ambiguous"},
		{"two keys, one without a kid", []string{nameless.jwk(), newSigner("k").jwk()}, nameless, "key_ambiguous"},
		{"three keys", []string{ec.jwk(), ecKey("ec2"), ecKey("ec3")}, ec, "key_ambiguous"},
		{"the other key names no algorithm", []string{rs.jwk(), ps.as("any", "").jwk()}, rs, "key_ambiguous"},
		{"none for its algorithm", []string{rs.jwk(), nameless.jwk()}, ec, reasonUnknown},
		{"another key", []string{ecKey("ec2")}, ec, "signature_wrong"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newProvider(t)
			p.answer(keysPath, text(jwks(test.keys...)))
			g := newGate(t, p)
			g.fetchNow()
			if token := test.signer.as("", test.signer.alg).token(p.URL, nil); test.reason == "" {
				g.accepts(t, token)
				g.accepts(t, token)
			} else {
				g.refuses(t, token, oauth.InvalidToken, test.reason)
			}
		})
	}
	t.Run("a name that no key has", func(t *testing.T) {
		p := newProvider(t, nameless)
		g := newGate(t, p)
		g.accepts(t, nameless.token(p.URL, nil))
		g.refuses(t, nameless.as("k", "EdDSA").token(p.URL, nil), oauth.InvalidToken, reasonUnknown)
	})
	t.Run("a second key comes", func(t *testing.T) { // and what was judged before is judged as what comes now
		p := newProvider(t, ec)
		g := newGate(t, p)
		token := ec.as("", "ES256").token(p.URL, nil)
		g.accepts(t, token)
		p.publish(ec, newSignerOf("ec2", "ES256"))
		g.fetchNow()
		g.refuses(t, token, oauth.InvalidToken, "key_ambiguous")
		g.accepts(t, ec.token(p.URL, nil))
		p.publish(newSignerOf("ec3", "ES256"))
		g.fetchNow()
		g.refuses(t, token, oauth.InvalidToken, "key_replaced")
	})
}

// TestKeysAreReported with what each is good for, or why it is not.
func TestKeysAreReported(t *testing.T) {
	p := newProvider(t)
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	p.answer(keysPath, text(jwks(
		newSignerOf("rs", "RS256").jwk(), newSignerOf("any", "RS256").as("any", "").jwk(), newSignerOf("es", "ES384").jwk(),
		newSigner("ed").jwk(), newSigner("").jwk(), newSignerOf("", "ES512").jwk(),
		strings.Replace(newSignerOf("enc", "ES256").jwk(), `"sig"`, `"enc"`, 1), (&signer{"weak", "RS256", weak}).jwk(),
		newSignerOf("wrong", "ES384").as("wrong", "ES256").jwk(), newSignerOf("oaep", "RS256").as("oaep", "RSA-OAEP").jwk(), `{"kty":"AKP","kid":"pq"}`,
	)))
	g := newGate(t, p, func(s *Settings) {
		s.Algorithms = []oauth.Algorithm{"RS256", "PS256", "ES384", "ES512", "EdDSA"}
	})
	if r := g.Keys(); len(r.Keys) != 0 || r.Failed != "" || !r.FetchedAt.IsZero() {
		t.Errorf("before the first fetch: %+v", r)
	}
	g.fetchNow()
	r := g.Keys()
	if r.JWKSURI != p.URL+keysPath || !r.FetchedAt.Equal(testStart) || r.Failed != "" {
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
	p.answer(keysPath, broken)
	g.fetchNow()
	if r := g.Keys(); len(r.Keys) != len(want) || r.Failed == "" {
		t.Errorf("after a fetch that failed: %+v", r)
	}
	if _, err := json.Marshal(g.Keys()); err != nil {
		t.Error(err)
	}
}
