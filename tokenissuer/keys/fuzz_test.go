package keys

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

func FuzzParseJWK(f *testing.F) {
	for _, seed := range []string{
		tokentest.RFC7515A2Key, tokentest.RFC7515A3Key, tokentest.RFC8037Key, tokentest.RFC7638Key, ecJWK("use", `"sig"`, "alg", `"ES256"`, "key_ops", `["verify"]`), `{"kty":"oct","k":"AAAA"}`, "{}", "null", "[]",
		ecJWK("x", `""`), ecJWK("crv", `"P-384"`), `{"kty":"RSA","n":"AA","e":"AQAB"}`, `{"kty":"OKP","crv":"Ed25519","x":"` + strings.Repeat("A", 43) + `"}`, `{"keys":[` + tokentest.RFC8037Key + `]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		key, err := parseOwnJWK(data)
		if (key == nil) == (err == nil) {
			t.Fatalf("%v, %v", key, err)
		}
		if set, err := parseOwnJWKS(data); err == nil {
			for _, k := range set {
				if err := checkKey(k.public, k.Algorithm); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err != nil {
			return
		}
		if err := checkKey(key.public, key.Algorithm); err != nil {
			t.Fatalf("loaded a key that is unfit: %v", err)
		}
		if methodOf(key.Algorithm) == nil {
			t.Fatalf("loaded a key for %q", key.Algorithm)
		}
		if key.VerifySignature("x", make([]byte, 64)) == nil && key.Algorithm != oauth.EdDSA {
			t.Fatal("zeros are a signature")
		}
		print, err := thumbprint(key.public)
		if err != nil {
			t.Fatal(err)
		}
		k, err := publicJWK(key.public)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(map[string]string{"kty": k.KeyType, "crv": k.Curve, "x": k.X, "y": k.Y, "n": k.N, "e": k.E})
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseOwnJWK(text)
		if err != nil {
			t.Fatalf("%s does not read back: %v", text, err)
		}
		if p, _ := thumbprint(again.public); p != print {
			t.Fatalf("%s reads back as another key", text)
		}
	})
}
