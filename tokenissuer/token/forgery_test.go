package token

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
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// refusesAll checks that each token is refused for one of the reasons.
func (g *gate) refusesAll(t *testing.T, tokens map[string]string, reasons ...string) {
	t.Helper()
	for name, token := range tokens {
		t.Run(name, func(t *testing.T) { g.refuses(t, token, reasons...) })
	}
}

// headed returns a token of ours with edits in its header.
func (g *gate) headed(edits ...string) string {
	key := g.signing[oauth.ES256]
	return testkeys.Sign(key, testkeys.Header(key, edits...), g.claims())
}

func inQuotes(texts ...string) string { return strconv.Quote(strings.Join(texts, "")) }

// TestG13AlgorithmNone: alg none in any case, with and without a signature → 401.
func TestG13AlgorithmNone(t *testing.T) {
	g := newGate(t)
	for _, alg := range []string{"none", "None", "NONE", "nOnE", ""} {
		signed := g.headed("alg", inQuotes(alg))
		input, _ := cutLast(signed)
		g.refusesAll(t, map[string]string{
			alg + " signed": signed, alg + " without signature": input + ".", alg + " without second dot": input,
			alg + " without kid": g.headed("alg", inQuotes(alg), "kid", ""),
		}, "algorithm_mismatch", "header_malformed", "token_malformed", "key_unknown")
	}
}

// TestG14PublicKeyAsHMACSecret: HS256 keyed with our public key in any encoding → 401.
func TestG14PublicKeyAsHMACSecret(t *testing.T) {
	g := newGate(t)
	for _, key := range g.signing {
		der, err := x509.MarshalPKIXPublicKey(testkeys.Public(key))
		if err != nil {
			t.Fatal(err)
		}
		block := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
		jwks, _ := g.keySet.JWKS()
		secrets := [][]byte{der, block, bytes.TrimSpace(block), jwks, []byte(key.ID), nil, []byte("secret")}
		switch public := testkeys.Public(key).(type) {
		case *ecdsa.PublicKey:
			point, _ := public.Bytes()
			secrets = append(secrets, point, point[1:], point[1:33])
		case *rsa.PublicKey:
			secrets = append(secrets, public.N.Bytes(), x509.MarshalPKCS1PublicKey(public))
		case ed25519.PublicKey:
			secrets = append(secrets, public)
		}
		for _, secret := range secrets {
			for _, edits := range [][]string{{"alg", `"HS256"`}, nil, {"alg", `"HS256"`, "kid", ""}} {
				input := tokentest.Encode(testkeys.Header(key, edits...)) + "." + tokentest.Encode(g.claims())
				mac := hmac.New(sha256.New, secret)
				mac.Write([]byte(input))
				g.refuses(t, input+"."+tokentest.Encode(string(mac.Sum(nil))), "algorithm_mismatch", "signature_wrong", "header_malformed", "key_unknown")
			}
		}
	}
}

// TestG15AnotherAlgorithm: a token signed with one of our keys under another algorithm → 401.
func TestG15AnotherAlgorithm(t *testing.T) {
	g := newGate(t)
	for _, key := range g.signing {
		for _, alg := range []string{"RS256", "RS384", "PS256", "PS384", "ES256", "ES384", "ES512", "ES256K", "EdDSA", "Ed25519", "Ed448", "HS256", "HS512"} {
			if alg != string(key.Algorithm) && (alg != "Ed25519" || key.Algorithm != oauth.EdDSA) { // RFC 9864 gives the one curve its own name
				g.refuses(t, testkeys.Sign(key, testkeys.Header(key, "alg", inQuotes(alg)), g.claims()), "algorithm_mismatch")
			}
		}
	}
	ours := g.signing[oauth.RS256]
	signed := func(alg string, hash crypto.Hash, options crypto.SignerOpts) string {
		input := tokentest.Encode(testkeys.Header(ours, "alg", inQuotes(alg))) + "." + tokentest.Encode(g.claims())
		h := hash.New()
		h.Write([]byte(input))
		signature, err := testkeys.Private(ours).Sign(rand.Reader, h.Sum(nil), options)
		if err != nil {
			t.Fatal(err)
		}
		return input + "." + tokentest.Encode(string(signature))
	}
	g.refuses(t, signed("RS256", crypto.SHA512, crypto.SHA512), "signature_wrong")
	for _, salt := range []int{rsa.PSSSaltLengthEqualsHash, 0, 20, 64} { // like TestG28: no salt length makes PS256 acceptable
		pss := &rsa.PSSOptions{SaltLength: salt, Hash: crypto.SHA256}
		g.refuses(t, signed("PS256", crypto.SHA256, pss), "algorithm_mismatch")
		g.refuses(t, signed("RS256", crypto.SHA256, pss), "signature_wrong")
	}
}

// TestG16To19HeaderMembers: alg or kid absent, of another type, twice, in another case, unknown, 10 KiB, a path, SQL, a pipe or a URL → 401.
func TestG16To19HeaderMembers(t *testing.T) {
	g := newGate(t)
	kid := g.signing[oauth.ES256].ID
	tokens := make(map[string]string)
	for _, edits := range [][]string{
		{"alg", ""}, {"alg", "null"}, {"alg", "256"}, {"alg", `["ES256"]`}, {"alg", `"es256"`}, {"alg", `"ES256 "`},
		{"kid", ""}, {"kid", `""`}, {"kid", `"unknown"`}, {"kid", inQuotes(strings.Repeat("k", 4000))}, {"kid", `[` + inQuotes(kid) + `]`},
		{"kid", inQuotes(kid, " ")}, {"kid", inQuotes(strings.ToUpper(kid))}, {"kid", `"` + kid + `\u0000"`},
		// G19: no path, query, command or URL in a kid is followed.
		{"kid", `"../../etc/passwd"`}, {"kid", `"/dev/null"`}, {"kid", `"' UNION SELECT 'x"`}, {"kid", `"| id"`}, {"kid", `"http://127.0.0.1:1/jwks"`}, {"kid", `"{env.HOME}"`},
	} {
		tokens[strings.Join(edits, " ")] = g.headed(edits...)
	}
	g.refusesAll(t, tokens, "header_malformed", "algorithm_mismatch", "key_unknown")
	g.refuses(t, g.headed("kid", inQuotes(strings.Repeat("k", 10<<10))), "token_too_long")
}

// TestG20G34OtherKeys: jku, x5u, x5c, jwk headers, or our kid with another environment's key → 401, no connection, even if the embedded key
// fits.
func TestG20G34OtherKeys(t *testing.T) {
	g := newGate(t)
	ours, theirs := g.signing[oauth.ES256], testkeys.Foreign()[oauth.ES256]
	point, _ := testkeys.Public(theirs).(*ecdsa.PublicKey).Bytes()
	jwk := `{"kty":"EC","crv":"P-256","x":` + inQuotes(tokentest.Encode(string(point[1:33]))) + `,"y":` + inQuotes(tokentest.Encode(string(point[33:]))) + `}`
	for _, edits := range [][]string{
		{"jwk", jwk}, {"jku", `"http://127.0.0.1:1/jwks"`}, {"x5u", `"http://127.0.0.1:1/jwks"`}, {"x5c", `["MIIB"]`}, {"x5t", `"AAAA"`}, {"jwk", jwk, "kid", `"theirs"`},
	} {
		for _, signer := range []*keys.SigningKey{ours, theirs} {
			g.refuses(t, testkeys.Sign(signer, testkeys.Header(ours, edits...), g.claims()), "header_unexpected")
		}
	}
	// G34: our kid with the key of another environment.
	g.refuses(t, testkeys.Sign(theirs, testkeys.Header(ours), g.claims()), "signature_wrong")
	g.refuses(t, testkeys.Sign(theirs, testkeys.Header(theirs), g.claims()), "key_unknown")
}

// TestG21To25Forms: crit, b64, JWE, nested or JSON form, detached payload, empty parts, another typ, our own codes and refresh tokens →
// 401.
func TestG21To25Forms(t *testing.T) {
	g := newGate(t)
	good := g.good()
	parts := strings.Split(good, ".")
	tokens := map[string]string{
		"JWE": tokentest.Encode(`{"alg":"dir","enc":"A128GCM"}`) + "..AAAA.AAAA.AAAA", "JWE of five": strings.Repeat("AAAA.", 4) + "AAAA",
		"nested": testkeys.Sign(g.signing[oauth.ES256], testkeys.Header(g.signing[oauth.ES256]), good), "JSON form": `{"payload":"` + parts[1] + `"}`,
		"JSON form in base64": tokentest.Encode(`{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`),
		"detached":            parts[0] + ".." + parts[2], "two parts": parts[0] + "." + parts[1], "four parts": good + "." + parts[2], "trailing dot": good + ".",
		"leading dot": "." + good, "dots": "..", "no header": "." + parts[1] + "." + parts[2], "no signature": parts[0] + "." + parts[1] + ".",
		"another's middle": parts[0] + "." + tokentest.Encode(g.claims("sub", `"admin"`)) + "." + parts[2], "the parts swapped": parts[1] + "." + parts[0] + "." + parts[2],
		"opaque": oauth.NewID(), "refresh token": strings.Repeat("A", 43), "empty": "",
	}
	for _, edits := range [][]string{
		{"crit", `["exp"]`, "exp", "1"}, {"crit", "[]"}, {"crit", `"b64"`}, {"crit", "null"}, {"b64", "false", "crit", `["b64"]`}, {"b64", "true"}, {"x", "1"}, {"zip", `"DEF"`}, {"cty", `"JWT"`},
		{"typ", `"JWT"`}, {"typ", ""}, {"typ", `"id_token"`}, {"typ", `"logout+jwt"`}, {"typ", `"dpop+jwt"`}, {"typ", `"gateway-assertion+jwt"`}, {"typ", `"at+jwt "`}, {"typ", "\"at+jw\u017f\""},
	} {
		tokens[strings.Join(edits, " ")] = g.headed(edits...)
	}
	g.refusesAll(t, tokens, "token_malformed", "header_malformed", "header_unexpected", "header_extension", "claims_malformed", "signature_wrong", "algorithm_mismatch")
	for _, typ := range []string{"at+jwt", "application/at+jwt", "AT+JWT", "Application/AT+JWT"} {
		g.accepts(t, g.headed("typ", inQuotes(typ)))
	}
}

// TestG26To31Signatures: DER, wrong length, r or s of 0, PS256, other base64 spellings, padding → 401.
func TestG26To31Signatures(t *testing.T) {
	g := newGate(t)
	input, encoded := cutLast(g.good())
	signature, _ := base64.RawURLEncoding.DecodeString(encoded)
	digest := sha256.Sum256([]byte(input))
	der, _ := testkeys.Private(g.signing[oauth.ES256]).Sign(rand.Reader, digest[:], crypto.SHA256)
	n, zero := elliptic.P256().Params().N, make([]byte, 32)
	order, r, s := n.FillBytes(make([]byte, 32)), signature[:32], signature[32:]
	tokens := make(map[string]string)
	for name, bad := range map[string][]byte{
		"DER": der, "63 bytes": signature[:63], "65 bytes": slices.Concat(signature, []byte{0}), "66 bytes": slices.Concat([]byte{0}, r, []byte{0}, s),
		"128 bytes": slices.Concat(signature, signature), "r is 0": slices.Concat(zero, s), "s is 0": slices.Concat(r, zero), "both are 0": make([]byte, 64),
		"both are n": slices.Concat(order, order), "r plus n": slices.Concat(new(big.Int).Add(new(big.Int).SetBytes(r), n).Bytes(), s), "swapped": slices.Concat(s, r),
	} {
		tokens[name] = input + "." + tokentest.Encode(string(bad))
	}
	g.refusesAll(t, tokens, "signature_wrong")
}

// TestG27TheOtherSignatureOfARevokedToken: the second valid signature of a revoked ECDSA token → 401. An ECDSA
// signature (r, s) has a second valid form (r, n-s), which yields another string for the same token.
func TestG27TheOtherSignatureOfARevokedToken(t *testing.T) {
	g := newGate(t)
	good := g.good()
	input, encoded := cutLast(good)
	signature, _ := base64.RawURLEncoding.DecodeString(encoded)
	s := new(big.Int).Sub(elliptic.P256().Params().N, new(big.Int).SetBytes(signature[32:]))
	second := input + "." + tokentest.Encode(string(slices.Concat(signature[:32], s.FillBytes(make([]byte, 32)))))
	g.accepts(t, good)
	g.accepts(t, second)
	g.revocations.Add(revocationOf("token-1"))
	g.refuses(t, good, "token_revoked")
	g.refuses(t, second, "token_revoked")
}

// TestG29ForgedPadding: PKCS #1 v1.5 padding forgeries → 401.
func TestG29ForgedPadding(t *testing.T) {
	g := newGate(t)
	ours := g.signing[oauth.RS256]
	key := testkeys.Private(ours).(*rsa.PrivateKey)
	input := tokentest.Encode(testkeys.Header(ours)) + "." + tokentest.Encode(g.claims())
	digest := sha256.Sum256([]byte(input))
	info, _ := base64.StdEncoding.DecodeString("MDEwDQYJYIZIAWUDBAIBBQAEIA==") // DigestInfo of SHA-256
	size := key.Size()
	signed := func(signature []byte) string { return input + "." + tokentest.Encode(string(signature)) }
	padded := func(kind byte, filling []byte, rest ...byte) string {
		message := slices.Concat([]byte{0, kind}, filling, []byte{0}, rest)
		message = append(message, bytes.Repeat([]byte{0xff}, max(0, size-len(message)))...)
		return signed(new(big.Int).Exp(new(big.Int).SetBytes(message), key.D, key.N).FillBytes(make([]byte, size)))
	}
	ones := func(n int) []byte { return bytes.Repeat([]byte{0xff}, n) }
	full, right := size-3-len(info)-len(digest), slices.Concat(info, digest[:])
	bare := slices.Concat([]byte{0x30, 0x2f, 0x30, 0x0b}, info[4:15], []byte{4, 0x20}, digest[:])
	good := padded(1, ones(full), right...)
	g.accepts(t, good) // so only the padding matters
	_, encoded := cutLast(good)
	signature, _ := base64.RawURLEncoding.DecodeString(encoded)
	g.refusesAll(t, map[string]string{
		"garbage behind, 8 of ff": padded(1, ones(8), right...), "garbage behind, none of ff": padded(1, nil, right...),
		"one of ff less": padded(1, ones(full-1), append(slices.Clone(right), 0)...), "type 2": padded(2, ones(full), right...), "type 0": padded(0, make([]byte, full), right...),
		"other filling": padded(1, bytes.Repeat([]byte{0xfe}, full), right...), "zero in the filling": padded(1, append(ones(full-2), 0, 0xff), right...),
		"no DigestInfo": padded(1, ones(size-3-len(digest)), digest[:]...), "no NULL in DigestInfo": padded(1, ones(size-3-len(bare)), bare...),
		"long form of a length": padded(1, ones(full-1), append([]byte{0x30, 0x81, 0x31}, right[2:]...)...), "another digest": padded(1, ones(full), append(slices.Clone(info), make([]byte, 32)...)...),
		"signature 0": signed(make([]byte, size)), "signature n": signed(key.N.FillBytes(make([]byte, size))),
		"a byte too long": signed(append([]byte{0}, signature...)), "a byte too short": signed(signature[1:]),
	}, "signature_wrong")
}

// TestG30OtherFormsOfAnEd25519Signature: Ed25519 with S + L or small-order points → 401.
func TestG30OtherFormsOfAnEd25519Signature(t *testing.T) {
	g := newGate(t)
	ours := g.signing[oauth.EdDSA]
	good := testkeys.Sign(ours, testkeys.Header(ours), g.claims())
	g.accepts(t, good)
	input, encoded := cutLast(good)
	signature, _ := base64.RawURLEncoding.DecodeString(encoded)
	order, _ := new(big.Int).SetString("7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)
	over := slices.Clone(signature[32:])
	slices.Reverse(over) // Ed25519 is little-endian
	over = new(big.Int).Add(new(big.Int).SetBytes(over), order).FillBytes(make([]byte, 32))
	slices.Reverse(over)
	low, one := make([]byte, 32), append([]byte{1}, make([]byte, 31)...)
	tokens := make(map[string]string)
	for name, bad := range map[string][]byte{
		"S plus L": slices.Concat(signature[:32], over), "S is 0": slices.Concat(signature[:32], low), "R is the neutral point": slices.Concat(one, signature[32:]),
		"R and S of nothing": slices.Concat(one, low), "R is not on the curve": slices.Concat(bytes.Repeat([]byte{0xff}, 32), signature[32:]), "63 bytes": signature[:63],
		"65 bytes": append(slices.Clone(signature), 0), "swapped": slices.Concat(signature[32:], signature[:32]), "of the key alone": slices.Concat(testkeys.Public(ours).(ed25519.PublicKey), low),
	} {
		tokens[name] = input + "." + tokentest.Encode(string(bad))
	}
	g.refusesAll(t, tokens, "signature_wrong")
}

// TestG32TokenLength: a token of 8,192 bytes → judged; longer → 401, then 431.
func TestG32TokenLength(t *testing.T) {
	g := newGate(t)
	sized := func(size int) string {
		for pad := size*3/4 - 700; ; pad++ {
			for _, typ := range []string{"at+jwt", "application/at+jwt"} { // base64 lengths come in steps
				key := g.signing[oauth.ES256]
				if token := testkeys.Sign(key, testkeys.Header(key, "typ", inQuotes(typ)), g.claims("pad", inQuotes(strings.Repeat("p", pad)))); len(token) == size {
					return token
				}
			}
			if pad > size {
				t.Fatalf("no token of %d bytes", size)
			}
		}
	}
	g.accepts(t, sized(MaxTokenBytes))
	g.refuses(t, sized(MaxTokenBytes+1), "token_too_long")
}

// TestG36Expiry: exp absent, a string, negative, huge, or passed beyond the leeway → 401.
func TestG36Expiry(t *testing.T) {
	g := newGate(t)
	for _, exp := range []string{"", "null", `"9999999999"`, "1.5e9", "1800003600.5", "-1", "1e999", "9223372036854775808", "18446744073709551616", "true", "[1800003600]"} {
		t.Run(exp, func(t *testing.T) { g.refuses(t, g.good("exp", exp), "claims_malformed") })
	}
}

// TestG37To40Claims: nbf or iat in the future, a life over five weeks, another iss or aud, sub, client_id or jti empty, numeric or with
// NUL → 401.
func TestG37To40Claims(t *testing.T) {
	g := newGate(t)
	tokens := make(map[string]string)
	for claim, values := range map[string][]string{
		"iss": {"", `"https://evil.test"`, inQuotes(tokentest.Issuer, "/"), inQuotes(strings.ToUpper(tokentest.Issuer)), "[" + inQuotes(tokentest.Issuer) + "]", `"` + tokentest.Issuer + `\u0000"`},
		"aud": {
			"", `""`, "[]", `"https://other.test"`, "[" + inQuotes(tokentest.Audience) + ",1]", inQuotes(tokentest.Audience, "/x"), "{" + inQuotes(tokentest.Audience) + ":true}",
			`["",` + inQuotes(tokentest.Audience) + `]`,
		},
		"sub": {"", `""`, "1", `"a\u0000b"`, `["a"]`}, "client_id": {"", `""`, "1", `"a\u0000b"`, `["a"]`}, "jti": {"", `""`, "1", `"a\u0000b"`, `["a"]`},
	} {
		for _, value := range values {
			tokens[claim+" "+value] = g.good(claim, value)
		}
	}
	g.refusesAll(t, tokens, "claims_malformed", "issuer_wrong", "audience_wrong")
	g.accepts(t, g.good("aud", `["https://other.test",`+inQuotes(tokentest.Audience)+`]`))
}

// TestG46NoCollisionInTheCache: tokens equal in their first 4 KiB, or but for the signature → never confused.
func TestG46NoCollisionInTheCache(t *testing.T) {
	g := newGate(t)
	key := g.signing[oauth.ES256]
	padded := func(subject string) string {
		return testkeys.Sign(key, testkeys.Header(key), `{"aa":"`+strings.Repeat("p", 3600)+`",`+g.claims("sub", inQuotes(subject))[1:])
	}
	first, second := padded("u-1"), padded("u-2")
	if first[:4096] != second[:4096] {
		t.Fatal("the tokens differ too early")
	}
	for range 2 {
		for token, subject := range map[string]string{first: "u-1", second: "u-2"} {
			if got, err := g.verifier.Verify(token, g.audiences); err != nil || got.Subject != subject {
				t.Errorf("%v %v, want %s", got, err, subject)
			}
		}
	}
	g.refuses(t, first[:len(first)-10]+"AAAAAAAAAA", "signature_wrong")
}
