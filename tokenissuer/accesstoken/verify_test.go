package accesstoken

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

func TestAGoodTokenOfEachAlgorithmIsAccepted(t *testing.T) {
	g := newGate(t)
	for _, key := range g.signing {
		got := g.accepts(t, testkeys.Sign(key, testkeys.Header(key), g.claims("auth_time", "1799999000", "level", `"gold"`, "act", `{"sub":"admin","client_id":"portal"}`)))
		want := &AccessToken{
			Issuer: tokentest.Issuer, Subject: "user-1", Audience: []string{tokentest.Audience}, ClientID: "client-1",
			Scopes: oauth.Scopes{"public", "trusted"}, ID: "token-1", IssuedAt: tokentest.Start, ExpiresAt: tokentest.Start.Add(time.Hour),
			KeyID: key.ID, FamilyID: "family-1", Organisation: "org-1", Role: "admin", AuthTime: time.Unix(1799999000, 0),
			Actor: store.Actor{Subject: "admin", ClientID: "portal"}, extra: map[string][]string{"level": {"gold"}},
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v\nwant %+v", key.Algorithm, got, want)
		}
	}
}

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

func TestG22EncryptedNestedAndCompressedTokensAreRefused(t *testing.T) {
	g := newGate(t)
	key := g.signing[oauth.ES256]
	inner := testkeys.Sign(key, testkeys.Header(key), g.claims())
	g.accepts(t, inner)
	g.refuses(t, tokentest.Encode(`{"alg":"RSA-OAEP-256","enc":"A256GCM","typ":"at+jwt","kid":"`+key.ID+`"}`)+"."+tokentest.Encode("key")+"."+tokentest.Encode("iv")+"."+tokentest.Encode("text")+"."+tokentest.Encode("tag"), "token_malformed")
	g.refuses(t, testkeys.Sign(key, testkeys.Header(key), inner), "claims_malformed")
	g.refuses(t, testkeys.Sign(key, testkeys.Header(key, "cty", `"JWT"`), inner), "header_unexpected")
	g.refuses(t, testkeys.Sign(key, testkeys.Header(key, "cty", `"JWT"`), g.claims()), "header_unexpected")
	g.refuses(t, testkeys.Sign(key, testkeys.Header(key, "zip", `"DEF"`), g.claims()), "header_unexpected")
	g.refuses(t, testkeys.Sign(key, testkeys.Header(key, "enc", `"A256GCM"`), g.claims()), "header_unexpected")
}

func TestG23OtherSerialisationsAreRefused(t *testing.T) {
	g := newGate(t)
	key := g.signing[oauth.ES256]
	token := testkeys.Sign(key, testkeys.Header(key), g.claims())
	parts := strings.Split(token, ".")
	for _, bad := range []string{
		"", ".", "..", "...", parts[0], parts[0] + "." + parts[1], token + ".", "." + token, token + "." + parts[2],
		parts[0] + ".." + parts[2], "." + parts[1] + "." + parts[2], parts[0] + "." + parts[1] + ".", "..", ".." + parts[2],
		`{"protected":"` + parts[0] + `","payload":"` + parts[1] + `","signature":"` + parts[2] + `"}`,
		`{"payload":"` + parts[1] + `","signatures":[{"protected":"` + parts[0] + `","signature":"` + parts[2] + `"}]}`,
	} {
		why := "token_malformed"
		if bad == parts[0]+".."+parts[2] {
			why = "claims_malformed" // an empty payload
		}
		g.refuses(t, bad, why)
	}
	// A good signature over an empty payload.
	g.refuses(t, testkeys.SignInput(key, parts[0]+"."), "claims_malformed")
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

func TestG26ES256SignaturesHaveOneForm(t *testing.T) {
	g := newGate(t)
	token := g.good()
	input, encoded := cutLast(token)
	sig, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	r, s := new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:])
	der, err := asn1.Marshal(struct{ R, S *big.Int }{r, s})
	if err != nil {
		t.Fatal(err)
	}
	n := elliptic.P256().Params().N
	pair := func(r, s *big.Int) []byte {
		return slices.Concat(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32)))
	}
	zero, big1 := new(big.Int), big.NewInt(1)
	for name, bad := range map[string][]byte{
		"DER": der, "63 bytes": sig[:63], "65 bytes": append(slices.Clone(sig), 0), "leading zero": append([]byte{0}, sig...),
		"66 bytes": slices.Concat([]byte{0}, sig[:32], []byte{0}, sig[32:]), "128 bytes": slices.Concat(sig, sig),
		"wide": slices.Concat(make([]byte, 32), sig[:32], make([]byte, 32), sig[32:]),
		"r 0":  pair(zero, s), "s 0": pair(r, zero), "both 0": make([]byte, 64), "r n": pair(n, s), "s n": pair(r, n),
		"both 1": pair(big1, big1), "all ones": bytes.Repeat([]byte{0xff}, 64), "swapped": pair(s, r),
	} {
		t.Run(name, func(t *testing.T) {
			g.refuses(t, input+"."+base64.RawURLEncoding.EncodeToString(bad), "signature_wrong")
		})
	}
}

// TestG27TheOtherFormOfARevokedTokenIsRevoked: whoever holds an ES256 token can write down a second one, (r, n-s),
// that is just as good. Revocation goes by what the token says, so it hits both.
func TestG27TheOtherFormOfARevokedTokenIsRevoked(t *testing.T) {
	g := newGate(t)
	token := g.good()
	input, encoded := cutLast(token)
	sig, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	n := elliptic.P256().Params().N
	s := new(big.Int).Sub(n, new(big.Int).SetBytes(sig[32:]))
	twin := input + "." + base64.RawURLEncoding.EncodeToString(slices.Concat(sig[:32], s.FillBytes(make([]byte, 32))))
	if twin == token {
		t.Fatal("no twin")
	}
	first, second := g.accepts(t, token), g.accepts(t, twin)
	if first.ID != second.ID {
		t.Fatal("the twin says something else")
	}
	g.revocations.Add(store.Revocation{Kind: store.RevokeToken, ID: "token-1", ExpiresAt: first.ExpiresAt})
	g.refuses(t, token, "token_revoked")
	g.refuses(t, twin, "token_revoked")
}

func TestG28SaltedRSASignaturesAreRefused(t *testing.T) {
	g := newGate(t)
	key := g.signing[oauth.RS256]
	private := testkeys.Private(key).(*rsa.PrivateKey)
	for _, alg := range []string{`"PS256"`, `"RS256"`} {
		for _, salt := range []int{rsa.PSSSaltLengthEqualsHash, rsa.PSSSaltLengthAuto, 0, 1, 20, 31, 33, 64} {
			if salt == 0 {
				continue // PSSSaltLengthAuto is 0
			}
			input := tokentest.Encode(testkeys.Header(key, "alg", alg)) + "." + tokentest.Encode(g.claims())
			digest := sha256.Sum256([]byte(input))
			sig, err := rsa.SignPSS(rand.Reader, private, crypto.SHA256, digest[:], &rsa.PSSOptions{SaltLength: salt})
			if err != nil {
				t.Fatal(err)
			}
			g.refuses(t, input+"."+base64.RawURLEncoding.EncodeToString(sig), map[string]string{`"PS256"`: "algorithm_mismatch", `"RS256"`: "signature_wrong"}[alg])
		}
	}
}

// TestG29ForgedRSAPaddingIsRefused: the encoded messages are made by hand; TestWycheproofJWS has two hundred more.
func TestG29ForgedRSAPaddingIsRefused(t *testing.T) {
	g := newGate(t)
	key := g.signing[oauth.RS256]
	private := testkeys.Private(key).(*rsa.PrivateKey)
	input := tokentest.Encode(testkeys.Header(key)) + "." + tokentest.Encode(g.claims())
	digest := sha256.Sum256([]byte(input))
	prefix := []byte{0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04, 0x20}
	noNull := []byte{0x30, 0x2f, 0x30, 0x0b, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x04, 0x20}
	sign := func(em []byte) string {
		s := new(big.Int).Exp(new(big.Int).SetBytes(em), private.D, private.N)
		return input + "." + base64.RawURLEncoding.EncodeToString(s.FillBytes(make([]byte, private.Size())))
	}
	padded := func(info, tail []byte, kind, fill byte) []byte {
		ps := private.Size() - 3 - len(info) - len(tail)
		return slices.Concat([]byte{0, kind}, bytes.Repeat([]byte{fill}, ps), []byte{0}, info, tail)
	}
	good := slices.Concat(prefix, digest[:])
	g.accepts(t, sign(padded(good, nil, 1, 0xff)))
	for name, em := range map[string][]byte{
		"garbage after the digest": slices.Concat([]byte{0, 1}, bytes.Repeat([]byte{0xff}, 8), []byte{0}, good, make([]byte, private.Size()-11-len(good))),
		"no NULL":                  padded(slices.Concat(noNull, digest[:]), nil, 1, 0xff),
		"type 2":                   padded(good, nil, 2, 0xff),
		"type 0":                   padded(good, nil, 0, 0),
		"padding of FE":            padded(good, nil, 1, 0xfe),
		"bare digest":              padded(digest[:], nil, 1, 0xff),
		"trailing byte":            padded(good, []byte{0}, 1, 0xff),
	} {
		t.Run(name, func(t *testing.T) { g.refuses(t, sign(em), "signature_wrong") })
	}
	for _, sig := range [][]byte{make([]byte, private.Size()), {1}, private.N.Bytes(), new(big.Int).Sub(private.N, big.NewInt(1)).Bytes()} {
		g.refuses(t, input+"."+base64.RawURLEncoding.EncodeToString(sig), "signature_wrong")
	}
	// A good signature plus the modulus, and one with a zero in front.
	_, encoded := cutLast(testkeys.SignInput(key, input))
	sig, _ := base64.RawURLEncoding.DecodeString(encoded)
	g.refuses(t, input+"."+base64.RawURLEncoding.EncodeToString(append([]byte{0}, sig...)), "signature_wrong")
	g.refuses(t, input+"."+base64.RawURLEncoding.EncodeToString(new(big.Int).Add(new(big.Int).SetBytes(sig), private.N).Bytes()), "signature_wrong")
}

func TestG30Ed25519HasOneForm(t *testing.T) {
	g := newGate(t)
	key := g.signing[oauth.EdDSA]
	token := testkeys.Sign(key, testkeys.Header(key), g.claims())
	input, encoded := cutLast(token)
	sig, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	// L = 2^252 + 27742317777372353535851937790883648493; S+L verifies where S is not checked against L.
	order, _ := new(big.Int).SetString("7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)
	little := slices.Clone(sig[32:])
	slices.Reverse(little)
	sum := new(big.Int).Add(new(big.Int).SetBytes(little), order).FillBytes(make([]byte, 32))
	slices.Reverse(sum)
	identity := append([]byte{1}, make([]byte, 31)...)
	for name, bad := range map[string][]byte{
		"S+L": slices.Concat(sig[:32], sum), "small order": slices.Concat(identity, make([]byte, 32)), "zero": make([]byte, 64),
		"short": sig[:63], "long": append(slices.Clone(sig), 0),
	} {
		t.Run(name, func(t *testing.T) {
			g.refuses(t, input+"."+base64.RawURLEncoding.EncodeToString(bad), "signature_wrong")
		})
	}
}

func TestG31OneTokenHasOneSpelling(t *testing.T) {
	g := newGate(t)
	key := g.signing[oauth.ES256]
	// Claims whose encoding leaves unused bits and holds both characters that differ between the alphabets.
	payload := g.claims("x", `"`+strings.Repeat("~?>", 3)+`ÿ"`)
	for len(payload)%3 != 1 {
		payload += " "
	}
	h := testkeys.Header(key)
	for len(h)%3 != 1 {
		h = strings.Replace(h, ",", ", ", 1)
	}
	token := testkeys.Sign(key, h, payload)
	g.accepts(t, token)
	parts := strings.Split(token, ".")
	if !strings.ContainsAny(parts[1], "-_") {
		t.Fatal("the payload has no character that differs")
	}
	join := func(i int, part string) string {
		p := slices.Clone(parts)
		p[i] = part
		return strings.Join(p, ".")
	}
	resign := func(token string) string {
		input, _ := cutLast(token)
		return testkeys.SignInput(key, input)
	}
	alphabet := "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for i, part := range parts {
		last := strings.IndexByte(alphabet, part[len(part)-1])
		for name, bad := range map[string]string{
			"padding": part + "=", "more padding": part + "==", "unused bits": part[:len(part)-1] + string(alphabet[last+1]),
			"newline at the end": part + "\n", "newline within": part[:4] + "\n" + part[4:], "carriage return within": part[:4] + "\r" + part[4:],
			"CRLF at the start": "\r\n" + part, "four newlines": part[:4] + "\n\n\n\n" + part[4:], "space": part[:4] + " " + part[4:],
			"tab": part + "\t", "NUL": part + "\x00", "bang": part[:4] + "!" + part[5:], "high byte": part[:4] + "\xff" + part[5:],
			"one left over": part + "AAA"[:(5-len(part)%4)%4], "plus and slash": strings.NewReplacer("-", "+", "_", "/").Replace(part),
		} {
			if bad == part {
				continue
			}
			if i == 2 && name == "one left over" {
				continue
			}
			t.Run(fmt.Sprintf("part %d/%s", i+1, name), func(t *testing.T) {
				g.refuses(t, join(i, bad), "token_malformed")
				if i < 2 {
					// Signed over the odd spelling, only the spelling itself can be what refuses it.
					g.refuses(t, resign(join(i, bad)), "token_malformed")
				}
			})
		}
	}
	for _, bad := range []string{token + "\n", " " + token, token + " ", "\ufeff" + token, token + "\x00"} {
		g.refuses(t, bad, "token_malformed")
	}
}

// sized returns a good token of exactly n bytes, with the claim that fills it up.
func (g *gate) sized(t *testing.T, n int) string {
	t.Helper()
	key := g.signing[oauth.EdDSA]
	for h := testkeys.Header(key); len(h) < 130; h = strings.Replace(h, ",", ", ", 1) {
		for _, fill := range []int{0, 1, 2} {
			empty := len(testkeys.Sign(key, h, g.claims("fill", `""`)))
			at := (n-empty)*3/4 + fill - 1
			if token := testkeys.Sign(key, h, g.claims("fill", `"`+strings.Repeat("x", at)+`"`)); len(token) == n {
				return token
			}
		}
	}
	t.Fatalf("no token of %d bytes", n)
	return ""
}

func TestG32TokensOf8KiBAreJudgedAndNoLonger(t *testing.T) {
	g := newGate(t)
	g.accepts(t, g.sized(t, 8192))
	g.refuses(t, g.sized(t, 8193), "token_too_long")
	g.refuses(t, g.sized(t, 15<<10), "token_too_long")
	// Even if it was somehow remembered.
	long := g.sized(t, 8193)
	g.verifier.Remember(long, &AccessToken{Audience: g.audiences, ExpiresAt: tokentest.Start.Add(time.Hour)})
	if _, err := g.verifier.Verify(long, g.audiences); err == nil {
		t.Error("a token of 8193 bytes was accepted from the cache")
	}
}

// allocatedBytes is what one call of f allocates, on average.
func allocatedBytes(f func()) int64 {
	const runs = 50
	f()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc-before.TotalAlloc) / runs
}

func TestG33HostileFormsCostLittle(t *testing.T) {
	g := newGate(t)
	key := g.signing[oauth.ES256]
	braces := base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte("{"), 6000))
	nested := tokentest.Encode(testkeys.Header(key)) + "." + tokentest.Encode(`{"x":`+strings.Repeat("[", 5900)) + "." + tokentest.Encode("x")
	for name, v := range map[string]struct {
		token  string
		most   int64
		reason string
	}{
		"a million dots":       {strings.Repeat(".", 1_000_000), 16 << 10, "token_too_long"},
		"8 KiB of dots":        {strings.Repeat(".", MaxTokenBytes), 16 << 10, "token_malformed"},
		"a million letters":    {strings.Repeat("a", 1_000_000), 16 << 10, "token_too_long"},
		"8 KiB of braces":      {braces + "." + tokentest.Encode("{}") + "." + tokentest.Encode("x"), 16 << 10, "header_malformed"},
		"a header of brackets": {base64.RawURLEncoding.EncodeToString([]byte(`{"x":`+strings.Repeat("[", 6000))) + "." + tokentest.Encode("{}") + "." + tokentest.Encode("x"), 16 << 10, "header_malformed"},
		"a payload of arrays":  {nested, 16 << 10, "claims_malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			g.refuses(t, v.token, v.reason)
			if n := allocatedBytes(func() { _, _ = g.verifier.Verify(v.token, g.audiences) }); n > v.most {
				t.Errorf("%d bytes allocated, want at most %d", n, v.most)
			}
		})
	}
}

func TestG34TheKidOfAnotherEnvironmentIsNotEnough(t *testing.T) {
	g := newGate(t)
	for _, a := range testkeys.Algorithms {
		mine, theirs := g.signing[a], testkeys.Foreign()[a]
		g.refuses(t, testkeys.Sign(theirs, testkeys.Header(mine), g.claims()), "signature_wrong")
		g.refuses(t, testkeys.Sign(theirs, testkeys.Header(theirs), g.claims()), "key_unknown")
	}
}

func TestG35ClaimsAreReadStrictly(t *testing.T) {
	g := newGate(t)
	key := g.signing[oauth.ES256]
	members := strings.TrimSuffix(g.claims(), "}")
	exp := strconv.FormatInt(tokentest.Start.Unix()+3600, 10)
	for name, payload := range map[string]string{
		"text": "hello", "number": "1", "null": "null", "string": `"x"`, "array": "[" + g.claims() + "]", "empty array": "[]", "nothing": "",
		"empty object": "{}", "truncated": members, "trailing object": g.claims() + "{}", "trailing text": g.claims() + "x", "trailing comma": members + ",}",
		"leading space": " " + g.claims(), "BOM": "\ufeff" + g.claims(), "comment": members + "/**/}", "single quotes": `{'iss':'x'}`,
		"UTF-16": "\xff\xfe{\x00}\x00", "bad UTF-8 in a value": members + `,"x":"` + "\xff" + `"}`, "bad UTF-8 in a name": members + `,"` + "\xff" + `":1}`,
		"overlong UTF-8": members + `,"x":"` + "\xc0\xaf" + `"}`, "lone surrogate": members + `,"x":"\ud800"}`, "lone surrogate in sub": g.claims("sub", `"\ud800"`),
		"raw control character": members + `,"x":"` + "\x01" + `"}`,
		"exp twice":             members + `,"exp":` + exp + `}`, "sub twice": members + `,"sub":"user-1"}`, "scope twice": members + `,"scope":"admin"}`,
		"aud twice": members + `,"aud":"x"}`, "iss twice, escaped": members + `,"\u0069ss":"x"}`, "other name twice": members + `,"x":1,"x":2}`,
		"nested name twice": members + `,"x":{"a":1,"a":2}}`, "depth": members + `,"x":` + strings.Repeat("[", 2900) + "1" + strings.Repeat("]", 2800) + "}",
		"EXP instead of exp": g.claims("exp", "", "EXP", exp), "ſub instead of sub": g.claims("sub", "", "\u017fub", `"user-1"`),
		"Jti instead of jti": g.claims("jti", "", "Jti", `"token-1"`),
		"EXP beside exp":     g.claims("EXP", "99999999999"), "ſub beside sub": g.claims("\u017fub", `"admin"`), "Scope beside scope": g.claims("Scope", `"admin"`),
		"iſſ beside iss": g.claims("i\u017f\u017f", `"https://evil.example"`), "CLIENT_ID beside client_id": g.claims("CLIENT_ID", `"x"`), "ROLE without role": g.claims("role", "", "ROLE", `"admin"`),
	} {
		t.Run(name, func(t *testing.T) {
			g.refuses(t, testkeys.Sign(key, testkeys.Header(key), payload), "claims_malformed")
		})
	}
	g.accepts(t, testkeys.Sign(key, testkeys.Header(key), g.claims("x", `{"exp":1,"EXP":2}`, "scopes", `["a"]`, "nonce", "null")))
	g.accepts(t, testkeys.Sign(key, testkeys.Header(key), g.claims("x", strings.Repeat("[", maxDepth-1)+strings.Repeat("]", maxDepth-1), "y", `"\"`+strings.Repeat("[{", 99)+`"`)))
	g.refuses(t, testkeys.Sign(key, testkeys.Header(key), g.claims("x", strings.Repeat("[", maxDepth)+strings.Repeat("]", maxDepth))), "claims_malformed")
}

func TestG36ExpiryIsJudgedToTheSecond(t *testing.T) {
	g := newGate(t)
	token := g.good()
	for _, v := range []struct {
		after time.Duration
		alive bool
	}{
		{-time.Second, true}, {0, true}, {5 * time.Second, true}, {5*time.Second + 1, false}, {6 * time.Second, false}, {time.Hour, false},
	} {
		h := newGate(t)
		h.wait(time.Hour + v.after)
		if v.alive {
			h.accepts(t, token)
			continue
		}
		h.refuses(t, token, "token_expired")
		_, err := h.verifier.Verify(token, h.audiences)
		if oauth.AsError(err).Description != "The access token expired" {
			t.Errorf("the client reads %q", oauth.AsError(err).Description)
		}
	}
	for _, exp := range []string{"", `"1800003600"`, "1800003600.5", "1800003600.0", "1.8000036e9", "-1", "-1800003600", "1e999", "9223372036854775808", "18446744073709551616",
		"9223372036854775807", "253402300800", "null", "true", "[1800003600]", "{}", "NaN", "01800003600", "0x6b49d200"} {
		t.Run("exp "+exp, func(t *testing.T) { g.refuses(t, g.good("exp", exp), "claims_malformed") })
	}
	g.refuses(t, g.good("exp", "0"), "token_expired")
}

func TestG37TimesOutOfReasonAreRefused(t *testing.T) {
	g := newGate(t)
	at := func(d time.Duration) string { return strconv.FormatInt(tokentest.Start.Add(d).Unix(), 10) }
	g.accepts(t, g.good("nbf", at(-time.Hour)))
	g.accepts(t, g.good("nbf", at(5*time.Second)))
	g.refuses(t, g.good("nbf", at(6*time.Second)), "token_from_future")
	g.refuses(t, g.good("nbf", "253402300799"), "token_from_future")
	for _, nbf := range []string{"9223372036854775807", `"1"`, "1.5", "1e999", "[]", "-1", "9223372036854775808"} {
		t.Run("nbf "+nbf, func(t *testing.T) { g.refuses(t, g.good("nbf", nbf), "claims_malformed") })
	}
	g.accepts(t, g.good("iat", at(60*time.Second)))
	g.refuses(t, g.good("iat", at(61*time.Second)), "token_from_future")
	for _, iat := range []string{"", "null", `"1800000000"`, "1.5", "-1", "1e999", "9223372036854775807", "9223372036854775808"} {
		t.Run("iat "+iat, func(t *testing.T) { g.refuses(t, g.good("iat", iat), "claims_malformed") })
	}
	g.accepts(t, g.good("exp", at(store.MaxLifetime)))
	g.refuses(t, g.good("exp", at(store.MaxLifetime+time.Second)), "lifetime_too_long")
	g.refuses(t, g.good("iat", "0"), "lifetime_too_long")
	g.refuses(t, g.good("exp", "253402300799"), "lifetime_too_long")
	for _, at := range []string{"1e999", `"x"`, "9223372036854775808", "1.5"} {
		g.refuses(t, g.good("auth_time", at), "claims_malformed")
	}
	// A token that was issued after it expires is dead, not immortal.
	g.refuses(t, g.good("iat", at(30*time.Second), "exp", at(-time.Minute)), "token_expired")
}

func TestG38IssuerMustBeOursByteForByte(t *testing.T) {
	g := newGate(t)
	for _, iss := range []string{`"https://evil.example"`, `"` + tokentest.Issuer + `/"`, `"HTTPS://ID.EXAMPLE"`, `"https://id.example:443"`, `" ` + tokentest.Issuer + `"`} {
		g.refuses(t, g.good("iss", iss), "issuer_wrong")
	}
	for _, iss := range []string{`"` + tokentest.Issuer + `\u0000"`, "", `["` + tokentest.Issuer + `"]`, "null", `""`, "1", "{}"} {
		g.refuses(t, g.good("iss", iss), "claims_malformed")
	}
}

func TestG39AudienceMustHoldOurs(t *testing.T) {
	g := newGate(t)
	for _, aud := range []string{"", "null", "[]", `""`, `[""]`, `["` + tokentest.Audience + `",1]`, `["` + tokentest.Audience + `",null]`, "1", "{}", `[["` + tokentest.Audience + `"]]`, "true"} {
		t.Run("malformed "+aud, func(t *testing.T) { g.refuses(t, g.good("aud", aud), "claims_malformed") })
	}
	for _, aud := range []string{`"https://other.example"`, `"` + tokentest.Audience + `/"`, `"HTTPS://API.EXAMPLE"`, `["a","b"]`, `"` + tokentest.Audience + ` https://other.example"`} {
		t.Run("other "+aud, func(t *testing.T) { g.refuses(t, g.good("aud", aud), "audience_wrong") })
	}
	g.accepts(t, g.good("aud", `["x","`+tokentest.Audience+`"]`))
	g.accepts(t, g.good("aud", `["`+tokentest.Audience+`"]`))
	for _, none := range [][]string{nil, {}, {"https://other.example"}} {
		if tok, err := g.another().Verify(g.good(), none); err == nil {
			t.Errorf("accepted for audiences %q: %+v", none, tok)
		}
	}
}

func TestG40IdentitiesMustBePresent(t *testing.T) {
	g := newGate(t)
	for _, name := range []string{"sub", "client_id", "jti"} {
		for _, value := range []string{"", `""`, "1", "null", "true", `["x"]`, `{"x":1}`, `"x\u0000"`, `"\u0000"`, `"a\u0000b"`} {
			t.Run(name+" "+value, func(t *testing.T) { g.refuses(t, g.good(name, value), "claims_malformed") })
		}
	}
	for _, name := range []string{"sid", "org", "role"} {
		for _, value := range []string{"1", `["x"]`, "{}", "true"} {
			g.refuses(t, g.good(name, value), "claims_malformed")
		}
	}
}

func TestG41AScopeThatIsNoTextGrantsNothing(t *testing.T) {
	g := newGate(t)
	for _, scope := range []string{"", `["trusted"]`, "null", "1", `{"trusted":true}`, "true", `""`, `"  "`} {
		t.Run(scope, func(t *testing.T) {
			if got := g.accepts(t, g.good("scope", scope)); len(got.Scopes) != 0 || got.Scopes.Missing(oauth.ScopeTrusted) != oauth.ScopeTrusted {
				t.Errorf("the token holds %q", got.Scopes)
			}
		})
	}
	for scope, missing := range map[string]bool{
		"trusted": false, "public trusted": false, "public": true, "trustedX": true, "TRUSTED": true, "Trusted": true, "xtrusted": true, "trusted.": true,
	} {
		if got := g.accepts(t, g.good("scope", strconv.Quote(scope))); (got.Scopes.Missing(oauth.ScopeTrusted) != "") != missing {
			t.Errorf("scope %q: trusted missing is %t", scope, !missing)
		}
	}
	g.refuses(t, g.good("scope", `"pub\"lic"`), "claims_malformed")
	g.refuses(t, g.good("scope", `"a\tb"`), "claims_malformed")
}

func TestG43EveryKindOfRevocationAndEveryPair(t *testing.T) {
	future := tokentest.Start.Add(24 * time.Hour)
	key := testkeys.Shared()[oauth.ES256]
	hits := map[string]store.Revocation{
		"jti": {Kind: store.RevokeToken, ID: "token-1"}, "family": {Kind: store.RevokeFamily, ID: "family-1"}, "user": {Kind: store.RevokeUser, ID: "user-1"},
		"client": {Kind: store.RevokeClient, ID: "client-1"}, "organisation": {Kind: store.RevokeOrganisation, ID: "org-1"}, "key": {Kind: store.RevokeKey, ID: key.ID},
		"user, issued until then":    {Kind: store.RevokeUser, ID: "user-1", IssuedUntil: tokentest.Start},
		"client, issued until later": {Kind: store.RevokeClient, ID: "client-1", IssuedUntil: tokentest.Start.Add(time.Second)},
	}
	misses := map[string]store.Revocation{
		"other jti": {Kind: store.RevokeToken, ID: "token-2"}, "kinds do not mix": {Kind: store.RevokeFamily, ID: "token-1"}, "user by client id": {Kind: store.RevokeUser, ID: "client-1"},
		"client by user id": {Kind: store.RevokeClient, ID: "user-1"}, "case": {Kind: store.RevokeUser, ID: "USER-1"}, "prefix": {Kind: store.RevokeToken, ID: "token-"}, "empty": {Kind: store.RevokeOrganisation},
		"user, issued before": {Kind: store.RevokeUser, ID: "user-1", IssuedUntil: tokentest.Start.Add(-time.Second)},
		"other key":           {Kind: store.RevokeKey, ID: testkeys.Shared()[oauth.EdDSA].ID},
	}
	check := func(name string, revoked bool, list ...store.Revocation) {
		t.Run(name, func(t *testing.T) {
			for _, before := range []bool{true, false} { // cached before it is revoked, or never seen
				g := newGate(t)
				token := g.good()
				if before {
					g.accepts(t, token)
				}
				for i := range list {
					list[i].ExpiresAt = future
					g.revocations.Add(list[i])
				}
				if revoked {
					g.refuses(t, token, "token_revoked")
					_, err := g.verifier.Verify(token, g.audiences)
					if oauth.AsError(err).Description != "The access token was revoked" {
						t.Errorf("the client reads %q", oauth.AsError(err).Description)
					}
				} else {
					g.accepts(t, token)
				}
			}
		})
	}
	for name, hit := range hits {
		check(name, true, hit)
		for other, second := range hits {
			check(name+" and "+other, true, hit, second)
		}
		for other, miss := range misses {
			check(name+" and not "+other, true, hit, miss)
			check("not "+other+" and "+name, true, miss, hit)
		}
	}
	for name, miss := range misses {
		check("not "+name, false, miss)
		for other, second := range misses {
			check("not "+name+", not "+other, false, miss, second)
		}
	}
	// Of two for one name the wider wins, whatever the order.
	narrow := store.Revocation{Kind: store.RevokeUser, ID: "user-1", IssuedUntil: tokentest.Start.Add(-time.Hour)}
	for other, wide := range map[string]store.Revocation{
		"a later second": {Kind: store.RevokeUser, ID: "user-1", IssuedUntil: tokentest.Start},
		"absolute":       {Kind: store.RevokeUser, ID: "user-1"},
	} {
		check("narrow, then "+other, true, narrow, wide)
		check(other+", then narrow", true, wide, narrow)
	}
}

func TestG43AServerTokenIsNotHitByAUserOfItsName(t *testing.T) {
	g := newGate(t)
	g.revocations.Add(store.Revocation{Kind: store.RevokeUser, ID: "client-1", ExpiresAt: tokentest.Start.Add(time.Hour)})
	g.accepts(t, g.good("sub", `"client-1"`))
	g.revocations.Add(store.Revocation{Kind: store.RevokeClient, ID: "client-1", ExpiresAt: tokentest.Start.Add(time.Hour)})
	g.refuses(t, g.good("sub", `"client-1"`), "token_revoked")
}

func TestRevocationsOutliveTheTokensTheyHit(t *testing.T) {
	g := newGate(t)
	token := g.good()
	r := store.Revocation{Kind: store.RevokeToken, ID: "token-1", ExpiresAt: tokentest.Start.Add(time.Hour + store.RevocationMargin)}
	g.revocations.Add(r)
	for _, d := range []time.Duration{time.Hour, time.Hour + store.Leeway} {
		if left := g.revocations.Expire(tokentest.Start.Add(d)); left != 1 {
			t.Fatalf("%s after issue %d revocations are left while the token can be accepted", d, left)
		}
	}
	g.refuses(t, token, "token_revoked")
	if left := g.revocations.Expire(r.ExpiresAt.Add(2 * time.Second)); left != 0 {
		t.Errorf("%d revocations are left", left)
	}
}

func TestG44ACachedTokenDiesAtOnce(t *testing.T) {
	t.Run("expiry", func(t *testing.T) {
		g := newGate(t)
		token := g.good()
		g.accepts(t, token)
		g.wait(time.Hour + store.Leeway)
		g.accepts(t, token)
		g.wait(time.Second)
		g.refuses(t, token, "token_expired")
		if _, cached := g.verifier.cache.get(oauth.DigestOf(token)); cached {
			t.Error("the dead token is still cached")
		}
	})
	t.Run("revocation", func(t *testing.T) {
		g := newGate(t)
		token := g.good()
		g.accepts(t, token)
		g.revocations.Add(store.Revocation{Kind: store.RevokeFamily, ID: "family-1", ExpiresAt: tokentest.Start.Add(time.Hour)})
		g.refuses(t, token, "token_revoked")
		g.refuses(t, token, "token_revoked")
	})
	t.Run("key removed", func(t *testing.T) {
		g := newGate(t)
		token := g.good()
		g.accepts(t, token)
		if err := g.keySet.Replace([]*keys.SigningKey{g.signing[oauth.EdDSA]}, oauth.EdDSA); err != nil {
			t.Fatal(err)
		}
		g.refuses(t, token, "key_unknown")
	})
	t.Run("all keys removed", func(t *testing.T) {
		g := newGate(t)
		token := g.good()
		g.accepts(t, token)
		if err := g.keySet.Replace(nil, oauth.ES256); err != nil {
			t.Fatal(err)
		}
		g.refuses(t, token, "key_unknown")
	})
	t.Run("key added, token lives", func(t *testing.T) {
		g := newGate(t)
		token := g.good()
		g.accepts(t, token)
		if err := g.keySet.Replace([]*keys.SigningKey{g.signing[oauth.ES256], testkeys.Foreign()[oauth.ES256]}, oauth.ES256); err != nil {
			t.Fatal(err)
		}
		g.accepts(t, token)
	})
}

func TestG45OnlyTheVerificationIsCached(t *testing.T) {
	g := newGate(t)
	token := g.good("scope", `"public"`)
	first := g.accepts(t, token)
	if _, err := g.verifier.Verify(token, []string{"https://other.example"}); oauth.AsError(err).Reason != "audience_wrong" {
		t.Errorf("cached for one audience, asked with another: %v", err)
	}
	if _, err := g.verifier.Verify(token, nil); oauth.AsError(err).Reason != "audience_wrong" {
		t.Errorf("cached, asked with none: %v", err)
	}
	again := g.accepts(t, token)
	if first.Scopes.Missing(oauth.ScopeTrusted) != again.Scopes.Missing(oauth.ScopeTrusted) {
		t.Error("the cache changed what the token holds")
	}
}

func TestG46NoTwoTokensShareAVerdict(t *testing.T) {
	g := newGate(t)
	key := g.signing[oauth.ES256]
	fill := `"` + strings.Repeat("x", 4096) + `"`
	// Equal in far more than their first 4 KiB.
	a := testkeys.Sign(key, testkeys.Header(key), `{"fill":`+fill+`,`+g.claims("jti", `"a"`)[1:])
	b := testkeys.Sign(key, testkeys.Header(key), `{"fill":`+fill+`,`+g.claims("jti", `"b"`)[1:])
	if a[:4096] != b[:4096] {
		t.Fatal("the prefixes differ")
	}
	if g.accepts(t, a).ID != "a" || g.accepts(t, b).ID != "b" {
		t.Error("two tokens share a verdict")
	}
	// The same payload under another signature, with the good one in the cache.
	input, encoded := cutLast(a)
	g.refuses(t, input+"."+strings.Repeat("A", len(encoded)), "signature_wrong")
	_, other := cutLast(b)
	g.refuses(t, input+"."+other, "signature_wrong")
	for i := range 200 {
		at := i * len(a) / 200
		if a[at] == '.' {
			continue
		}
		swap := byte('A')
		if a[at] == swap {
			swap = 'B'
		}
		g.refuses(t, a[:at]+string(swap)+a[at+1:], "audience_wrong", "claims_malformed", "header_malformed", "key_unknown", "signature_wrong")
	}
}

func TestG79StaleRevocationsAnswerNothing(t *testing.T) {
	g := newGate(t)
	token := g.good()
	g.accepts(t, token)
	g.Set(tokentest.Start.Add(5 * time.Minute))
	g.accepts(t, token)
	g.Set(tokentest.Start.Add(5*time.Minute + time.Second))
	for _, v := range []*Verifier{g.verifier, g.another()} {
		tok, err := v.Verify(token, g.audiences)
		tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
		if tok != nil {
			t.Error("a token comes with the error")
		}
		if x := v.Explain(token, g.audiences); x.Accepted {
			t.Error("Explain accepts what Verify cannot answer")
		}
	}
	never := NewVerifier(tokentest.Issuer, g.keySet, NewRevocationSet(), 5*time.Minute, g.Now)
	_, err := never.Verify(token, g.audiences)
	tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
	empty := NewVerifier(tokentest.Issuer, new(keys.Set), g.revocations, 5*time.Minute, g.Now)
	_, err = empty.Verify(token, g.audiences)
	tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
}

func TestT68SubjectEqualToClientMarksAServerToken(t *testing.T) {
	g := newGate(t)
	for _, name := range []string{"client-1", "admin", "user-1"} {
		if got := g.accepts(t, g.good("sub", strconv.Quote(name), "client_id", strconv.Quote(name), "role", `"admin"`)); !got.IsServerToken() {
			t.Errorf("%s: taken for a user token", name)
		}
	}
	if g.accepts(t, g.good()).IsServerToken() {
		t.Error("a user token is taken for a server token")
	}
	if g.accepts(t, g.good("sub", `"Client-1"`)).IsServerToken() {
		t.Error("ids are not compared byte for byte")
	}
}

func TestExplainShowsEveryFaultAndNoClaimsOfAForgery(t *testing.T) {
	g := newGate(t)
	key := g.signing[oauth.ES256]
	outcome := func(x Explanation) string {
		var list []string
		for _, f := range x.Findings {
			list = append(list, f.Check+" "+f.Outcome)
		}
		return strings.Join(list, ", ")
	}
	for _, v := range []struct {
		name, token, want string
		claims            bool
	}{
		{"good", g.good(), "form passed, type passed, key passed, claims passed, issuer passed, audience passed, time passed, signature passed, revocation passed", true},
		{"no token", "x", "form failed, type not reached, key not reached, claims not reached, issuer not reached, audience not reached, time not reached, signature not reached, revocation not reached", false},
		{"everything wrong", testkeys.Sign(testkeys.Foreign()[oauth.ES256], testkeys.Header(key, "typ", `"JWT"`), g.claims("iss", `"x"`, "aud", `"x"`, "exp", "1")),
			"form passed, type failed, key passed, claims passed, issuer failed, audience failed, time failed, signature failed, revocation passed", false},
		{"expired, but ours", g.good("exp", "1"), "form passed, type passed, key passed, claims passed, issuer passed, audience passed, time failed, signature passed, revocation passed", true},
		{"unknown key", testkeys.Sign(key, testkeys.Header(key, "kid", `"x"`), g.claims()), "form passed, type passed, key failed, claims not reached, issuer not reached, audience not reached, time not reached, signature not reached, revocation not reached", false},
	} {
		t.Run(v.name, func(t *testing.T) {
			x := g.verifier.Explain(v.token, g.audiences)
			if outcome(x) != v.want {
				t.Errorf("got  %s\nwant %s", outcome(x), v.want)
			}
			if (x.Claims != nil) != v.claims {
				t.Errorf("claims %+v", x.Claims)
			}
		})
	}
}

// TestF17ATimeInTheFutureIsNotFresh: after a clock was set back, a dead feed would otherwise pass for fresh until the
// clock has caught up.
func TestF17ATimeInTheFutureIsNotFresh(t *testing.T) {
	set := NewRevocationSet()
	set.MarkFresh(tokentest.Start)
	if age := set.Age(tokentest.Start.Add(time.Minute)); age != time.Minute {
		t.Errorf("a minute later it is %s old", age)
	}
	if age := set.Age(tokentest.Start.Add(-time.Hour)); age < 24*time.Hour {
		t.Errorf("an hour before it is %s old", age)
	}
}
