package accesstoken

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"strconv"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

func TestG13AlgNoneIsRefused(t *testing.T) {
	g := newGate(t)
	for _, key := range g.signing {
		_, signature := cutLast(testkeys.Sign(key, testkeys.Header(key), g.claims()))
		for _, alg := range []string{"none", "None", "NONE", "nOnE", ""} {
			input := tokentest.Encode(testkeys.Header(key, "alg", strconv.Quote(alg))) + "." + tokentest.Encode(g.claims())
			g.refuses(t, input+".", "token_malformed")
			g.refuses(t, input+"."+signature, "algorithm_mismatch")
			g.refuses(t, testkeys.SignInput(key, input), "algorithm_mismatch")
			g.refuses(t, input+"."+tokentest.Encode("x"), "algorithm_mismatch")
		}
	}
}

// TestG14HMACKeyedWithWhatIsPublicIsRefused tries the confusion of a public key with a shared secret, with every
// spelling of our keys that an attacker can get hold of, and with secrets out of tutorials.
func TestG14HMACKeyedWithWhatIsPublicIsRefused(t *testing.T) {
	g := newGate(t)
	for _, key := range g.signing {
		der, err := x509.MarshalPKIXPublicKey(testkeys.Public(key))
		if err != nil {
			t.Fatal(err)
		}
		armoured := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
		jwks, err := g.keySet.JWKS()
		if err != nil {
			t.Fatal(err)
		}
		one, err := keys.MarshalJWKS([]*keys.SigningKey{key})
		if err != nil {
			t.Fatal(err)
		}
		secrets := [][]byte{
			der, armoured, bytes.TrimSpace(armoured), one, one[len(`{"keys":[`) : len(one)-2], jwks, []byte(key.ID), {},
			[]byte("secret"), []byte("your-256-bit-secret"), []byte("changeme"), []byte("password"), make([]byte, 32),
		}
		switch public := testkeys.Public(key).(type) {
		case *rsa.PublicKey:
			secrets = append(secrets, public.N.Bytes(), []byte(public.N.String()), x509.MarshalPKCS1PublicKey(public),
				pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: x509.MarshalPKCS1PublicKey(public)}))
		case *ecdsa.PublicKey:
			point, err := public.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			secrets = append(secrets, point, point[1:], point[1:33])
		case ed25519.PublicKey:
			secrets = append(secrets, public)
		}
		for _, secret := range secrets {
			for _, typ := range []string{`"at+jwt"`, `"JWT"`} {
				input := tokentest.Encode(testkeys.Header(key, "alg", `"HS256"`, "typ", typ)) + "." + tokentest.Encode(g.claims())
				mac := hmac.New(sha256.New, secret)
				mac.Write([]byte(input))
				g.refuses(t, input+"."+base64.RawURLEncoding.EncodeToString(mac.Sum(nil)), map[string]string{`"at+jwt"`: "algorithm_mismatch", `"JWT"`: "header_unexpected"}[typ])
				// The same tag under the right alg: the tag is no signature.
				input = tokentest.Encode(testkeys.Header(key)) + "." + tokentest.Encode(g.claims())
				mac = hmac.New(sha256.New, secret)
				mac.Write([]byte(input))
				g.refuses(t, input+"."+base64.RawURLEncoding.EncodeToString(mac.Sum(nil)), "signature_wrong")
			}
		}
	}
}

func TestG15TheKeysAlgorithmDecides(t *testing.T) {
	g := newGate(t)
	names := []string{"HS256", "HS384", "HS512", "PS256", "PS384", "PS512", "RS384", "RS512", "ES384", "ES512", "ES256K", "Ed448", "Ed25519"}
	for _, a := range testkeys.Algorithms {
		names = append(names, string(a))
	}
	for _, key := range g.signing {
		for _, alg := range names {
			if alg == string(key.Algorithm) {
				continue
			}
			// Signed as the key signs, and labelled otherwise.
			g.refuses(t, testkeys.Sign(key, testkeys.Header(key, "alg", strconv.Quote(alg)), g.claims()), "algorithm_mismatch")
			// Signed as another key of ours signs, and pointed at this one.
			if other := g.signing[oauth.Algorithm(alg)]; other != nil {
				g.refuses(t, testkeys.Sign(other, testkeys.Header(other, "kid", strconv.Quote(key.ID)), g.claims()), "algorithm_mismatch")
				g.refuses(t, testkeys.Sign(other, testkeys.Header(key), g.claims()), "signature_wrong")
			}
		}
	}
	private := testkeys.Private(g.signing[oauth.RS256]).(*rsa.PrivateKey)
	input := tokentest.Encode(testkeys.Header(g.signing[oauth.RS256], "alg", `"RS512"`)) + "." + tokentest.Encode(g.claims())
	digest := sha512.Sum512([]byte(input))
	signature, err := rsa.SignPKCS1v15(nil, private, crypto.SHA512, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	g.refuses(t, input+"."+base64.RawURLEncoding.EncodeToString(signature), "algorithm_mismatch")
}

func TestG16AlgMustBeAPlainString(t *testing.T) {
	g := newGate(t)
	for _, key := range g.signing {
		name := string(key.Algorithm)
		for _, alg := range []string{"", "null", "256", "true", `["` + name + `"]`, `{"alg":"` + name + `"}`, `"` + strings.ToLower(name) + `"`, `"` + name + ` "`, `" ` + name + `"`, `"` + name + `\u0000"`} {
			why := "algorithm_mismatch"
			if alg != "" && alg != "null" && alg[0] != '"' {
				why = "header_malformed"
			}
			g.refuses(t, testkeys.Sign(key, testkeys.Header(key, "alg", alg), g.claims()), why)
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

func TestG18KidNamesOneKeyOrNothing(t *testing.T) {
	g := newGate(t)
	key := g.signing[oauth.ES256]
	for _, kid := range []string{"", `""`, `"unknown"`, `["` + key.ID + `"]`, "null", "1", `"` + strings.ToLower(key.ID) + `"`, `"` + key.ID + ` "`,
		`"` + key.ID[:len(key.ID)-1] + `"`, `"` + strings.Repeat("a", 5000) + `"`, `"` + strings.Repeat("a", 10<<10) + `"`} {
		why := "key_unknown"
		switch {
		case len(kid) > MaxTokenBytes:
			why = "token_too_long"
		case kid != "" && kid[0] != '"' && kid != "null":
			why = "header_malformed"
		}
		g.refuses(t, testkeys.Sign(key, testkeys.Header(key, "kid", kid), g.claims()), why)
	}
}

// TestG19KidIsNothingButAName: the verifier holds a map of keys and nothing else that a kid could reach.
func TestG19KidIsNothingButAName(t *testing.T) {
	g := newGate(t)
	key := g.signing[oauth.ES256]
	for _, kid := range []string{"../../etc/passwd", "/dev/null", `x\u0000`, "' UNION SELECT", "|id", "https://evil.example/key", "file:///etc/passwd", key.ID + `\u0000`} {
		g.refuses(t, testkeys.Sign(key, testkeys.Header(key, "kid", `"`+kid+`"`), g.claims()), "key_unknown")
		// Signed with the key that a file of nothing would give.
		input := tokentest.Encode(testkeys.Header(key, "alg", `"HS256"`, "kid", `"`+kid+`"`)) + "." + tokentest.Encode(g.claims())
		g.refuses(t, input+"."+tokentest.Encode(string(hmac.New(sha256.New, nil).Sum(nil))), "key_unknown")
	}
}

func TestG20KeysInTheHeaderAreRefused(t *testing.T) {
	g := newGate(t)
	mine, attacker := g.signing[oauth.ES256], testkeys.Foreign()[oauth.ES256]
	set, err := keys.MarshalJWKS([]*keys.SigningKey{attacker})
	if err != nil {
		t.Fatal(err)
	}
	jwk := string(set[len(`{"keys":[`) : len(set)-2])
	for _, member := range [][2]string{
		{"jku", `"https://evil.example/jwks"`}, {"x5u", `"https://evil.example/cert"`}, {"x5c", `["MIIB"]`}, {"jwk", jwk},
		{"x5t", `"AAAA"`}, {"x5t#S256", `"AAAA"`}, {"jku", "null"},
	} {
		// By the attacker's key, under its own kid and under ours; and by our key, which would never write such a header.
		g.refuses(t, testkeys.Sign(attacker, testkeys.Header(attacker, member[0], member[1]), g.claims()), "header_unexpected")
		g.refuses(t, testkeys.Sign(attacker, testkeys.Header(mine, member[0], member[1]), g.claims()), "header_unexpected")
		g.refuses(t, testkeys.Sign(mine, testkeys.Header(mine, member[0], member[1]), g.claims()), "header_unexpected")
	}
}

func TestG21CritAndB64AreRefused(t *testing.T) {
	g := newGate(t)
	key := g.signing[oauth.ES256]
	for _, edits := range [][]string{
		{"crit", "[]"}, {"crit", `["exp"]`, "exp", "1"}, {"crit", `["b64"]`, "b64", "false"}, {"crit", `["b64"]`, "b64", "true"},
		{"crit", "null"}, {"crit", `"alg"`}, {"crit", `["alg"]`}, {"b64", "true"}, {"b64", "false"}, {"b64", "null"}, {"crit", `["http://example.invalid/x"]`},
	} {
		g.refuses(t, testkeys.Sign(key, testkeys.Header(key, edits...), g.claims()), "header_extension")
	}
	// The signature over the unencoded payload (RFC 7797 §5.1).
	h := tokentest.Encode(testkeys.Header(key, "b64", "false", "crit", `["b64"]`))
	_, signature := cutLast(testkeys.SignInput(key, h+"."+g.claims()))
	g.refuses(t, h+"."+tokentest.Encode(g.claims())+"."+signature, "header_extension")
}

func TestG24OnlyAccessTokensAreBearerTokens(t *testing.T) {
	g := newGate(t)
	for _, key := range g.signing {
		for _, typ := range []string{"at+jwt", "application/at+jwt", "AT+JWT", "At+Jwt", "APPLICATION/AT+JWT"} {
			g.accepts(t, testkeys.Sign(key, testkeys.Header(key, "typ", strconv.Quote(typ)), g.claims()))
		}
		for _, typ := range []string{"", `""`, `"JWT"`, `"jwt"`, `"id_token"`, `"logout+jwt"`, `"dpop+jwt"`, `"gateway-assertion+jwt"`, `"at+jwt "`,
			`"application/application/at+jwt"`, `"application/"`, `"x/at+jwt"`, `"at"`, "null", `["at+jwt"]`, "1"} {
			why := "header_unexpected"
			if typ != "" && typ != "null" && typ[0] != '"' {
				why = "header_malformed"
			}
			g.refuses(t, testkeys.Sign(key, testkeys.Header(key, "typ", typ), g.claims()), why)
		}
	}
}
