package token

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// strictMembers reads a JSON object with the standard library. It also rejects what that accepts: names that occur
// twice, at any depth, text that is not UTF-8, and trailing data.
func strictMembers(data []byte) (map[string]json.RawMessage, error) {
	if !utf8.Valid(data) || len(data) == 0 || data[0] != '{' {
		return nil, errors.New("no object of UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := walk(d); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("trailing data")
	}
	var members map[string]json.RawMessage
	return members, json.Unmarshal(data, &members)
}

func walk(d *json.Decoder) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	delim, ok := t.(json.Delim)
	if !ok {
		return nil
	}
	seen := make(map[string]bool)
	for d.More() {
		if delim == '{' {
			name, err := d.Token()
			if err != nil {
				return err
			}
			text, _ := name.(string)
			if seen[text] {
				return fmt.Errorf("%q twice", text)
			}
			seen[text] = true
		}
		if err := walk(d); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

// independentCheck verifies a token with the standard library alone. It may accept more than Verify, but never less.
func independentCheck(token string, keys map[oauth.Algorithm]*keys.SigningKey, now int64) error {
	parts := strings.Split(token, ".")
	if len(token) > 8192 || len(parts) != 3 {
		return errors.New("form")
	}
	var raw [3][]byte
	for i, part := range parts {
		b, err := base64.RawURLEncoding.DecodeString(part)
		if err != nil || base64.RawURLEncoding.EncodeToString(b) != part {
			return errors.New("base64")
		}
		raw[i] = b
	}
	head, err := strictMembers(raw[0])
	if err != nil {
		return fmt.Errorf("header: %w", err)
	}
	str := func(m map[string]json.RawMessage, name string) string {
		var s *string
		if json.Unmarshal(m[name], &s) != nil || s == nil {
			return ""
		}
		return *s
	}
	for name := range head {
		if name != "alg" && name != "typ" && name != "kid" {
			return errors.New("header member " + name)
		}
	}
	if typ := strings.ToLower(str(head, "typ")); typ != "at+jwt" && typ != "application/at+jwt" {
		return errors.New("typ")
	}
	key := keys[oauth.Algorithm(str(head, "alg")).Canonical()]
	if key == nil || key.ID != str(head, "kid") {
		return errors.New("key")
	}
	input := []byte(parts[0] + "." + parts[1])
	switch public := testkeys.Public(key).(type) {
	case *ecdsa.PublicKey:
		digest := sha256.Sum256(input)
		if len(raw[2]) != 64 || !ecdsa.Verify(public, digest[:], new(big.Int).SetBytes(raw[2][:32]), new(big.Int).SetBytes(raw[2][32:])) {
			return errors.New("signature")
		}
	case ed25519.PublicKey:
		if !ed25519.Verify(public, input, raw[2]) {
			return errors.New("signature")
		}
	}
	claims, err := strictMembers(raw[1])
	if err != nil {
		return fmt.Errorf("claims: %w", err)
	}
	for _, name := range []string{"sub", "client_id", "jti"} {
		if s := str(claims, name); s == "" || strings.Contains(s, "\x00") {
			return errors.New(name)
		}
	}
	if str(claims, "iss") != tokentest.Issuer {
		return errors.New("iss")
	}
	var list []string
	if json.Unmarshal(claims["aud"], &list) != nil {
		list = []string{str(claims, "aud")}
	}
	if !slices.Contains(list, tokentest.Audience) {
		return errors.New("aud")
	}
	var exp, iat, nbf *int64
	for name, at := range map[string]**int64{"exp": &exp, "iat": &iat, "nbf": &nbf} {
		if text, ok := claims[name]; ok && json.Unmarshal(text, at) != nil {
			return errors.New(name)
		}
	}
	if exp == nil || iat == nil || *exp < now-5 || *iat > now+60 || *exp-*iat > 35*24*3600 || *iat < 0 || nbf != nil && *nbf > now+5 {
		return errors.New("time")
	}
	for name := range claims {
		for _, own := range []string{"iss", "sub", "aud", "exp", "nbf", "iat", "jti", "client_id", "scope", "org", "role", "sid"} {
			if name != own && strings.EqualFold(name, own) {
				return errors.New("case variant")
			}
		}
	}
	return nil
}

func FuzzVerifyJWT(f *testing.F) {
	ks := testkeys.Fixed(f)
	g := &gate{Clock: tokentest.NewClock(), keySet: new(keys.Set), revocations: NewRevocationSet(), audiences: []string{tokentest.Audience}, signing: ks}
	if err := g.keySet.Replace([]*keys.SigningKey{ks[oauth.EdDSA], ks[oauth.ES256]}, oauth.ES256); err != nil {
		f.Fatal(err)
	}
	g.revocations.MarkFresh(tokentest.Start)
	verifier := g.another()

	es := ks[oauth.ES256]
	good := g.good()
	input, signature := cutLast(good)
	for _, raw := range []string{
		good, testkeys.Sign(ks[oauth.EdDSA], testkeys.Header(ks[oauth.EdDSA]), g.claims()), input + "=." + signature, input + ".", good + "\n", "", "..", "...",
		rfc7515A1Token, rfc7515A2Token, rfc7515A3Token, rfc7515A5Token, rfc7797Token, rfc8037Token, strings.Repeat(".", 9000),
	} {
		f.Add(byte(0), raw, "", "")
	}
	for mode := range byte(3) {
		for _, h := range []string{testkeys.Header(es), testkeys.Header(ks[oauth.EdDSA]), testkeys.Header(es, "crit", `["b64"]`), testkeys.Header(es, "jwk", "{}"), testkeys.Header(es, "alg", `"none"`), testkeys.Header(es, "typ", `"JWT"`), testkeys.Header(es, "typ", `"application/AT+JWT"`)} {
			f.Add(mode, "", h, g.claims())
		}
		for _, edits := range [][]string{
			{"exp", "1e999"}, {"exp", "1.5"}, {"exp", "-1"}, {"exp", "9223372036854775807"}, {"nbf", "9223372036854775807"}, {"iat", "9223372036854775807"}, {"aud", `["x","` + tokentest.Audience + `"]`},
			{"aud", `["` + tokentest.Audience + `",null]`}, {"EXP", "1"}, {"sub", `"a\u0000"`}, {"scope", `["a"]`}, {"x", `{"a":[1,"b",null,true]}`}, {"\u017fub", `"x"`},
		} {
			f.Add(mode, "", testkeys.Header(es), g.claims(edits...))
			f.Add(mode, "", testkeys.Header(ks[oauth.EdDSA]), g.claims(edits...))
		}
	}
	for _, id := range []int{18, 32, 33, 341, 345, 360, 378, 391} {
		_, token := wycheproofJWS(f, id)
		f.Add(byte(0), token, "", "")
	}
	f.Fuzz(func(t *testing.T, mode byte, raw, head, claims string) {
		token := raw
		switch mode % 3 { // a good signature, so the fuzzer gets past it
		case 1:
			token = testkeys.Sign(ks[oauth.ES256], head, claims)
		case 2:
			token = testkeys.Sign(ks[oauth.EdDSA], head, claims)
		}
		got, err := verifier.Verify(token, g.audiences)
		if (got == nil) == (err == nil) {
			t.Fatalf("%+v, %v", got, err)
		}
		if x := verifier.Explain(token, g.audiences); x.Accepted != (err == nil) {
			t.Fatalf("Verify says %v, Explain %+v", err, x)
		}
		if err != nil {
			if e := oauth.AsError(err); e.Code != oauth.InvalidToken {
				t.Fatalf("%v", err)
			}
			return
		}
		if err := independentCheck(token, ks, tokentest.Start.Unix()); err != nil {
			t.Fatalf("accepted %q\n%s", token, err)
		}
		if got.Issuer != tokentest.Issuer || !got.HasAudience(g.audiences) || got.Subject == "" || got.ExpiresAt.Add(store.Leeway).Before(tokentest.Start) || got.ExpiresAt.Sub(got.IssuedAt) > store.MaxLifetime {
			t.Fatalf("accepted as %+v", got)
		}
		if again, err := g.another().Verify(token, g.audiences); err != nil || again.ID != got.ID || !slices.Equal(again.Scopes, got.Scopes) {
			t.Fatalf("twice: %+v, %v", again, err)
		}
	})
}

// TestTheIndependentCheckAcceptsGoodTokens: if independentCheck refused everything, the invariant of FuzzVerifyJWT
// would be empty.
func TestTheIndependentCheckAcceptsGoodTokens(t *testing.T) {
	g := newGate(t)
	for _, a := range []oauth.Algorithm{oauth.ES256, oauth.EdDSA} {
		key := g.signing[a]
		if err := independentCheck(testkeys.Sign(key, testkeys.Header(key), g.claims()), g.signing, tokentest.Start.Unix()); err != nil {
			t.Error(err)
		}
		if independentCheck(testkeys.Sign(testkeys.Foreign()[a], testkeys.Header(key), g.claims()), g.signing, tokentest.Start.Unix()) == nil {
			t.Error("a forgery is accepted")
		}
	}
}
