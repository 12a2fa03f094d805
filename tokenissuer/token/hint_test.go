package token

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

func TestT169HintsThatAreOurs(t *testing.T) {
	shared := testkeys.Shared()
	set := newSet(t, shared[oauth.ES256], shared[oauth.RS256], shared[oauth.EdDSA])
	want := Hint{Subject: "ada", ClientID: "shop", SessionID: "session", AuthTime: tokentest.Start.Add(-time.Minute)}
	for alg, key := range shared {
		if got, err := ReadHint(signed(t, newToken(), key), tokentest.Issuer, set); err != nil || got != want {
			t.Errorf("%s: %+v, %v", alg, got, err)
		}
	}
	expired := newToken()
	expired.IssuedAt, expired.ExpiresAt = time.Unix(1, 0), time.Unix(2, 0)
	if got, err := ReadHint(signed(t, expired, shared[oauth.RS256]), tokentest.Issuer, set); err != nil || got != want {
		t.Errorf("expired: %+v, %v", got, err)
	}
	least := &IDToken{Issuer: tokentest.Issuer, Subject: "ada", ClientID: "shop"}
	if got, err := ReadHint(signed(t, least, shared[oauth.RS256]), tokentest.Issuer, set); err != nil || got != (Hint{Subject: "ada", ClientID: "shop"}) {
		t.Errorf("with the least claims: %+v, %v", got, err)
	}
}

// goodClaims are the claims of a hint that is accepted, with edits as for tokentest.Object.
func goodClaims(edits ...string) string {
	return tokentest.Object([]string{"iss", `"` + tokentest.Issuer + `"`, "sub", `"ada"`, "aud", `"shop"`, "exp", "1800003600", "iat", "1800000000"}, edits)
}

// TestT169HintsThatAreNotOurs: an id_token_hint with alg none, HS256 under a public key, a foreign kid, `jwk`,
// `crit`, another typ or issuer, altered, `sub` twice, over 32 KiB → not one of ours.
func TestT169HintsThatAreNotOurs(t *testing.T) {
	shared, foreign := testkeys.Shared(), testkeys.Foreign()
	rs, es, ed := shared[oauth.RS256], shared[oauth.ES256], shared[oauth.EdDSA]
	set := newSet(t, es, rs, ed)
	good := testkeys.Sign(rs, header(rs), goodClaims())
	if _, err := ReadHint(good, tokentest.Issuer, set); err != nil {
		t.Fatalf("the hint that the others are made of: %v", err)
	}
	parts := strings.Split(good, ".")
	der, err := x509.MarshalPKIXPublicKey(testkeys.Public(rs))
	if err != nil {
		t.Fatal(err)
	}
	hs256 := func(secret []byte) string {
		input := tokentest.Encode(header(rs, "alg", `"HS256"`)) + "." + parts[1]
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(input))
		return input + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
	}
	logout := &LogoutToken{Issuer: tokentest.Issuer, ClientID: "shop", Subject: "ada", SessionID: "session", IssuedAt: tokentest.Start}
	for name, text := range map[string]string{
		"empty":                             "",
		"no JWT":                            "ada",
		"one dot":                           parts[0] + "." + parts[1],
		"three dots":                        good + ".",
		"no signature":                      parts[0] + "." + parts[1] + ".",
		"alg none":                          tokentest.Encode(header(rs, "alg", `"none"`)) + "." + parts[1] + ".",
		"alg none, signed":                  testkeys.Sign(rs, header(rs, "alg", `"none"`), goodClaims()),
		"HS256 with the public key in DER":  hs256(der),
		"HS256 with the public key in PEM":  hs256(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})),
		"another algorithm, by its key":     testkeys.Sign(es, header(rs), goodClaims()),
		"another key of the same algorithm": testkeys.Sign(foreign[oauth.RS256], header(rs), goodClaims()),
		"a foreign kid":                     testkeys.Sign(foreign[oauth.RS256], header(foreign[oauth.RS256]), goodClaims()),
		"no kid":                            testkeys.Sign(rs, header(rs, "kid", ""), goodClaims()),
		"an embedded key":                   testkeys.Sign(rs, header(rs, "jwk", `{"kty":"RSA"}`), goodClaims()),
		"an extension":                      testkeys.Sign(rs, header(rs, "crit", `["exp"]`), goodClaims()),
		"an access token":                   testkeys.Sign(rs, header(rs, "typ", `"at+jwt"`), goodClaims()),
		"a logout token":                    signed(t, logout, rs),
		"no typ":                            testkeys.Sign(rs, header(rs, "typ", ""), goodClaims()),
		"typ in another spelling":           testkeys.Sign(rs, header(rs, "typ", `"application/jwt"`), goodClaims()),
		"another payload":                   parts[0] + "." + tokentest.Encode(goodClaims("sub", `"eve"`)) + "." + parts[2],
		"another issuer":                    testkeys.Sign(rs, header(rs), goodClaims("iss", `"https://evil.example"`)),
		"the issuer with a slash":           testkeys.Sign(rs, header(rs), goodClaims("iss", `"`+tokentest.Issuer+`/"`)),
		"no issuer":                         testkeys.Sign(rs, header(rs), goodClaims("iss", "")),
		"no sub":                            testkeys.Sign(rs, header(rs), goodClaims("sub", "")),
		"no aud":                            testkeys.Sign(rs, header(rs), goodClaims("aud", "")),
		"several audiences":                 testkeys.Sign(rs, header(rs), goodClaims("aud", `["shop","x"]`)),
		"sub twice":                         testkeys.Sign(rs, header(rs), strings.Replace(goodClaims(), "{", `{"sub":"eve",`, 1)),
		"claims that are no object":         testkeys.Sign(rs, header(rs), `null`),
		"padding":                           good + "=",
		"a line break":                      parts[0] + "." + parts[1] + ".\n" + parts[2],
		"stray bits":                        strayBits(t, good),
		"too long":                          testkeys.Sign(rs, header(rs), goodClaims("x", `"`+strings.Repeat("x", MaxIDTokenBytes)+`"`)),
	} {
		t.Run("T169 "+name, func(t *testing.T) {
			got, err := ReadHint(text, tokentest.Issuer, set)
			if got != (Hint{}) {
				t.Errorf("read as %+v", got)
			}
			tokentest.WantCode(t, err, oauth.InvalidRequest)
		})
	}
}

// strayBits returns the token with its last character's unused bits set.
func strayBits(tb testing.TB, token string) string {
	tb.Helper()
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, token[len(token)-1])
	other := token[:len(token)-1] + string(alphabet[last^1])
	a, err1 := base64.RawURLEncoding.DecodeString(token[strings.LastIndexByte(token, '.')+1:])
	b, err2 := base64.RawURLEncoding.DecodeString(other[strings.LastIndexByte(other, '.')+1:])
	if err := errors.Join(err1, err2); err != nil || string(a) != string(b) {
		tb.Fatalf("%v: it is no other spelling of the same signature", err)
	}
	return other
}

// TestK32AHintOfAKeyThatIsGone: an ID token hint whose key is revoked or dropped → not one of ours, the sign-out
// asks.
func TestK32AHintOfAKeyThatIsGone(t *testing.T) {
	rs, es := testkeys.Shared()[oauth.RS256], testkeys.Shared()[oauth.ES256]
	hint := signed(t, newToken(), rs)
	set := newSet(t, es, rs)
	if _, err := ReadHint(hint, tokentest.Issuer, set); err != nil {
		t.Fatal(err)
	}
	if err := set.Replace([]*keys.SigningKey{es}, oauth.ES256); err != nil {
		t.Fatal(err)
	}
	_, err := ReadHint(hint, tokentest.Issuer, set)
	tokentest.WantCode(t, err, oauth.InvalidRequest)

	_, err = ReadHint(hint, tokentest.Issuer, new(keys.Set))
	tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
}

// FuzzIDTokenHint: an accepted hint is signed by us, yields its own claims, and has one spelling.
func FuzzIDTokenHint(f *testing.F) {
	fixed := testkeys.Fixed(f)
	es, ed := fixed[oauth.ES256], fixed[oauth.EdDSA]
	set := newSet(f, es, ed)
	f.Add(byte(0), signed(f, newToken(), es), "", "")
	f.Add(byte(0), signed(f, newToken(), ed), "", "")
	f.Add(byte(0), "..", "", "")
	for mode := range byte(3) {
		f.Add(mode, "", header(es), goodClaims())
		f.Add(mode, "", header(ed), goodClaims())
		f.Add(mode, "", testkeys.Header(ed), goodClaims("iss", `"x"`))
		f.Add(mode, "", header(ed, "alg", `"none"`), goodClaims("auth_time", "1e999"))
		f.Add(mode, "", header(ed), goodClaims("auth_time", "-9223372036854775808"))
	}
	f.Fuzz(func(t *testing.T, mode byte, text, head, claims string) {
		switch mode % 3 { // a good signature, so the fuzzer gets past it
		case 1:
			text = testkeys.Sign(es, head, claims)
		case 2:
			text = testkeys.Sign(ed, head, claims)
		}
		got, err := ReadHint(text, tokentest.Issuer, set)
		if err != nil {
			if oauth.AsError(err).Code != oauth.InvalidRequest || got != (Hint{}) {
				t.Fatalf("%+v, %v", got, err)
			}
			return
		}
		parts := strings.Split(text, ".")
		for _, key := range fixed {
			if parts[0] != tokentest.Encode(header(key)) {
				continue
			}
			parser := jwt.NewParser(jwt.WithoutClaimsValidation(), jwt.WithValidMethods([]string{string(key.Algorithm)}), jwt.WithStrictDecoding())
			if _, err := parser.Parse(text, func(*jwt.Token) (any, error) { return testkeys.Public(key), nil }); err != nil {
				t.Fatalf("accepted: %v", err)
			}
			says := claimsOf(t, text)
			if says["iss"] != tokentest.Issuer || says["sub"] != got.Subject || says["aud"] != got.ClientID || got.Subject == "" {
				t.Fatalf("%v read as %+v", says, got)
			}
			return
		}
		t.Fatalf("accepted with the header %q", parts[0])
	})
}
