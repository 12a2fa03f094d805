package trust

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/issuertest"
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

// TestG120AKeyIsForItsAlgorithmAlone: a trusted issuer's key with an algorithm that it is not for, or that `algorithms` leaves out → 401.
func TestG120AKeyIsForItsAlgorithmAlone(t *testing.T) {
	for alg, others := range fits {
		t.Run(alg, func(t *testing.T) {
			key := issuertest.NewSignerOf("k", alg)
			p := issuertest.NewProvider(t, key, issuertest.NewSigner("another"))
			g := newGate(t, p)
			g.accepts(t, key.Token(p.URL, nil))
			for _, other := range others {
				if other != alg {
					g.refuses(t, key.As("k", other).Token(p.URL, nil), oauth.InvalidToken, "algorithm_mismatch")
				}
			}
			good := key.Token(p.URL, nil)
			_, rest, _ := strings.Cut(good, ".")
			for _, other := range []string{"none", "HS256", "HS384", "HS512", "ES256K", "", strings.ToLower(alg)} {
				head := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"` + other + `","typ":"at+jwt","kid":"k"}`))
				g.refuses(t, head+"."+rest, oauth.InvalidToken, "algorithm_mismatch")
			}
			// A key without an algorithm is valid for those of its type and curve, within the operator's restriction.
			p.Publish(key.As("k", ""), issuertest.NewSigner("another"))
			g.fetchNow()
			for _, other := range others {
				g.accepts(t, key.As("k", other).Token(p.URL, nil))
			}
			narrow := newGate(t, p, func(s *Settings) { s.Algorithms = []oauth.Algorithm{oauth.Algorithm(alg)} })
			for _, other := range others {
				if token := key.As("k", other).Token(p.URL, nil); other == alg {
					narrow.accepts(t, token)
				} else {
					narrow.refuses(t, token, oauth.InvalidToken, "algorithm_mismatch")
				}
			}
		})
	}
}

// TestG121ATokenThatNamesNoKey: a token without kid: one fitting key → accepted; several or none → 401.
func TestG121ATokenThatNamesNoKey(t *testing.T) {
	rs, ps, ec, nameless := issuertest.NewSignerOf("rs", "RS256"), issuertest.NewSignerOf("ps", "PS256"), issuertest.NewSignerOf("ec", "ES256"), issuertest.NewSigner("")
	encryption := strings.Replace(issuertest.NewSignerOf("enc", "ES256").JWK(), `"sig"`, `"enc"`, 1)
	for _, test := range []struct {
		name   string
		keys   []string
		signer *issuertest.Signer
		reason string // empty: it passes
	}{
		{"one key, with a kid", []string{ec.JWK()}, ec, ""},
		{"one key, without a kid", []string{nameless.JWK()}, nameless, ""},
		{"others are for other algorithms", []string{rs.JWK(), ps.JWK(), ec.JWK(), nameless.JWK()}, rs, ""},
		{"others are for encryption", []string{ec.JWK(), encryption}, ec, ""},
		{"two keys", []string{ec.JWK(), issuertest.ECKey("ec2")}, ec, "key_ambiguous"},
		{"two keys, one without a kid", []string{nameless.JWK(), issuertest.NewSigner("k").JWK()}, nameless, "key_ambiguous"},
		{"three keys", []string{ec.JWK(), issuertest.ECKey("ec2"), issuertest.ECKey("ec3")}, ec, "key_ambiguous"},
		{"the other key names no algorithm", []string{rs.JWK(), ps.As("any", "").JWK()}, rs, "key_ambiguous"},
		{"none for its algorithm", []string{rs.JWK(), nameless.JWK()}, ec, reasonUnknown},
		{"another key", []string{issuertest.ECKey("ec2")}, ec, "signature_wrong"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := issuertest.NewProvider(t)
			p.Answer(issuertest.KeysPath, issuertest.Text(issuertest.JWKS(test.keys...)))
			g := newGate(t, p)
			g.fetchNow()
			if token := test.signer.As("", test.signer.Alg).Token(p.URL, nil); test.reason == "" {
				g.accepts(t, token)
				g.accepts(t, token)
			} else {
				g.refuses(t, token, oauth.InvalidToken, test.reason)
			}
		})
	}
	t.Run("a name that no key has", func(t *testing.T) {
		p := issuertest.NewProvider(t, nameless)
		g := newGate(t, p)
		g.accepts(t, nameless.Token(p.URL, nil))
		g.refuses(t, nameless.As("k", "EdDSA").Token(p.URL, nil), oauth.InvalidToken, reasonUnknown)
	})
	t.Run("a second key comes", func(t *testing.T) { // tokens verified before are treated like new ones
		p := issuertest.NewProvider(t, ec)
		g := newGate(t, p)
		token := ec.As("", "ES256").Token(p.URL, nil)
		g.accepts(t, token)
		p.Publish(ec, issuertest.NewSignerOf("ec2", "ES256"))
		g.fetchNow()
		g.refuses(t, token, oauth.InvalidToken, "key_ambiguous")
		g.accepts(t, ec.Token(p.URL, nil))
		p.Publish(issuertest.NewSignerOf("ec3", "ES256"))
		g.fetchNow()
		g.refuses(t, token, oauth.InvalidToken, "key_replaced")
	})
}
