package grants

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// assertingAuthority is an issuer that signs upstream assertions and exchanges tokens for upstreams.
func assertingAuthority(tb testing.TB) *authority {
	tb.Helper()
	a := newAuthority(tb)
	a.UseAssertions()
	a.UseExchange()
	return a
}

// publishedKeys returns the Ed25519 keys of a key set by kid, as an independent reader would parse it.
func publishedKeys(tb testing.TB, jwks []byte) map[string]ed25519.PublicKey {
	tb.Helper()
	var set struct{ Keys []map[string]string }
	if err := json.Unmarshal(jwks, &set); err != nil {
		tb.Fatal(err)
	}
	keys := make(map[string]ed25519.PublicKey)
	for _, k := range set.Keys {
		if k["crv"] != "Ed25519" {
			continue
		}
		if k["kty"] != "OKP" || k["use"] != "sig" || k["alg"] != "EdDSA" || k["d"] != "" {
			tb.Errorf("published: %v", k)
		}
		x, err := base64.RawURLEncoding.DecodeString(k["x"])
		if err != nil {
			tb.Fatal(err)
		}
		print := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + k["x"] + `"}`))
		if want := base64.RawURLEncoding.EncodeToString(print[:]); k["kid"] != want {
			tb.Errorf("kid %s, want the thumbprint %s", k["kid"], want)
		}
		keys[k["kid"]] = x
	}
	return keys
}

// readAssertion verifies an assertion with an independent library, as an upstream would.
func (a *authority) readAssertion(tb testing.TB, assertion oauth.Secret, audience string, jwks []byte) (jwt.MapClaims, error) {
	tb.Helper()
	ks := publishedKeys(tb, jwks)
	parsed, err := jwt.Parse(assertion.Reveal(), func(t *jwt.Token) (any, error) {
		if t.Header["typ"] != keys.AssertionType || len(t.Header) != 3 {
			tb.Errorf("header %v", t.Header)
		}
		kid, _ := t.Header["kid"].(string)
		return ks[kid], nil
	}, jwt.WithValidMethods([]string{"EdDSA"}), jwt.WithIssuer(tokentest.Issuer), jwt.WithAudience(audience), jwt.WithTimeFunc(a.gate.Now),
		jwt.WithIssuedAt(), jwt.WithExpirationRequired())
	if err != nil {
		return nil, err
	}
	return parsed.Claims.(jwt.MapClaims), nil
}

// personsToken returns the gate's view of a user token that an admin created.
func (a *authority) personsToken() *token.AccessToken {
	now := a.gate.Now()
	return &token.AccessToken{
		Issuer: tokentest.Issuer, Subject: "u-ada", Audience: []string{tokentest.Audience}, ClientID: "conf", Scopes: oauth.Scopes{"public", "reports"},
		ID: "token-1", IssuedAt: now, ExpiresAt: now.Add(time.Hour), KeyID: a.signing[oauth.ES256].ID,
		SignIn: token.SignIn{FamilyID: "family-1", Organisation: "acme", Role: "admin", AuthTime: now.Add(-time.Minute)},
		Actors: []store.Actor{{Subject: "u-eve", ClientID: "portal"}},
	}
}

var ordersRequest = token.AssertedRequest{Audience: "https://orders.example", Method: "POST", Target: "/orders/1%2f2?x=%20&y"}

func (a *authority) assert(tb testing.TB, t *token.AccessToken) oauth.Secret {
	tb.Helper()
	assertion, err := a.Assert(t, ordersRequest)
	if err != nil {
		tb.Fatal(err)
	}
	return assertion
}

func (a *authority) jwks(tb testing.TB) []byte {
	tb.Helper()
	jwks, err := a.JWKS()
	if err != nil {
		tb.Fatal(err)
	}
	return jwks
}

// TestG94AssertionIsForOneUpstreamAndOneRequest: `forward assertion` → a JWT of at most 60 s with the upstream as aud, the method and the
// digest of the target.
func TestG94AssertionIsForOneUpstreamAndOneRequest(t *testing.T) {
	a := assertingAuthority(t)
	assertion := a.assert(t, a.personsToken())
	claims, err := a.readAssertion(t, assertion, ordersRequest.Audience, a.jwks(t))
	if err != nil {
		t.Fatal(err)
	}
	now := float64(a.gate.Now().Unix())
	hash := sha256.Sum256([]byte(ordersRequest.Target))
	id := claims["jti"]
	delete(claims, "jti")
	want := jwt.MapClaims{
		"iss": tokentest.Issuer, "sub": "u-ada", "aud": ordersRequest.Audience, "client_id": "conf", "scope": "public reports",
		"iat": now, "exp": now + 60, "sid": "family-1", "org": "acme", "role": "admin", "auth_time": now - 60,
		"htm": "POST", "htp": base64.RawURLEncoding.EncodeToString(hash[:]), "token_iss": tokentest.Issuer, "token_jti": "token-1",
		"act": map[string]any{"sub": "u-eve", "client_id": "portal"},
	}
	if !reflect.DeepEqual(claims, want) {
		t.Errorf("claims\n%v, want\n%v", claims, want)
	}
	if text, _ := id.(string); len(text) != 22 {
		t.Errorf("jti %v", id)
	}
	again, err := a.readAssertion(t, a.assert(t, a.personsToken()), ordersRequest.Audience, a.jwks(t))
	if err != nil || again["jti"] == id {
		t.Errorf("two assertions have the jti %v, %v", id, err)
	}
	if _, err := a.readAssertion(t, assertion, "https://stock.example", a.jwks(t)); err == nil {
		t.Error("another upstream takes it")
	}
	a.wait(token.AssertionLifetime)
	if _, err := a.readAssertion(t, assertion, ordersRequest.Audience, a.jwks(t)); err == nil {
		t.Error("it lives for more than a minute")
	}
}

// TestG94AssertionOfAnotherIssuersToken: the assertion names the subject and its issuer.
func TestG94AssertionOfAnotherIssuersToken(t *testing.T) {
	a := assertingAuthority(t)
	claims, err := a.readAssertion(t, a.assert(t, a.theirToken(t, `"sub": "u-ada", "act": {"sub": "first", "act": {"sub": "second", "client_id": "c"}},
		"org": ["acme", "globex"], "role": ["a", "b"], "token_iss": "https://evil.example"`)), ordersRequest.Audience, a.jwks(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{
		"iss": tokentest.Issuer, "token_iss": "https://login.example", "sub": "u-ada", "org": []any{"acme", "globex"}, "role": []any{"a", "b"},
		"act":       map[string]any{"sub": "first", "act": map[string]any{"sub": "second", "client_id": "c"}},
		"client_id": nil, "sid": nil, "token_jti": nil, "scope": nil,
	} {
		if !reflect.DeepEqual(claims[name], want) {
			t.Errorf("%s: %v, want %v", name, claims[name], want)
		}
	}
}

// theirToken returns a token of another issuer, whose introspection endpoint returns these claims.
func (a *authority) theirToken(tb testing.TB, claims string) *token.AccessToken {
	tb.Helper()
	const issuer = "https://login.example"
	now := a.gate.Now()
	answer := fmt.Sprintf(`{"active": true, "iss": %q, "aud": %q, "token_type": "Bearer", "exp": %d, %s}`, issuer, tokentest.Audience, now.Add(time.Hour).Unix(), claims)
	known, err := token.ParseIntrospection([]byte(answer), token.TrustedTokens{Issuer: issuer})
	if err != nil {
		tb.Fatal(err)
	}
	tok, err := known.Verify([]string{tokentest.Audience}, now)
	if err != nil {
		tb.Fatal(err)
	}
	return tok
}

// TestG25AssertionIsNoAccessToken: an upstream's assertion as a bearer, at a gate whose audience it names or at any endpoint that accepts our
// tokens → 401.
func TestG25AssertionIsNoAccessToken(t *testing.T) {
	a := assertingAuthority(t)
	assertion := a.assert(t, a.personsToken())
	tok, err := a.verifier.Verify(assertion.Reveal(), []string{ordersRequest.Audience, tokentest.Audience, tokentest.Issuer})
	tokentest.WantRefusal(t, tok, err, "header_unexpected")
	tok, err = a.verifier.VerifyForIssuer(assertion.Reveal())
	tokentest.WantRefusal(t, tok, err, "header_unexpected")
	if x := a.verifier.Explain(assertion.Reveal(), []string{ordersRequest.Audience}); x.Accepted {
		t.Errorf("explained as good: %+v", x)
	}
	if found, err := a.Introspect(t.Context(), issuer.Asker{ClientID: "conf"}, assertion); found != nil || err != nil {
		t.Errorf("introspected: %+v, %v", found, err)
	}
	if found, err := a.RevokeFor(t.Context(), a.client("conf"), assertion); found != nil || err != nil || len(a.store.list) > 0 {
		t.Errorf("revoked: %+v, %v", found, err)
	}
	// A verifier that ignores typ does not have the key, and an access token signed with the key is not accepted by any verifier.
	asserting, err := a.Assertions.Current(a.gate.Now(), a.Master)
	if err != nil {
		t.Fatal(err)
	}
	a.refuses(t, testkeys.Sign(asserting, testkeys.Header(asserting), a.claims()), "key_unknown")
	trusted := token.NewTrustedVerifier(token.TrustedTokens{Issuer: tokentest.Issuer, Types: []string{token.TypeAccessToken, token.TypeJWT, token.TypeNone}}, everyKey{asserting}, a.gate.Now)
	tok, err = trusted.Verify(assertion.Reveal(), []string{ordersRequest.Audience})
	tokentest.WantRefusal(t, tok, err, "header_unexpected")
}

// everyKey returns one key for every id.
type everyKey struct{ key *keys.SigningKey }

func (e everyKey) Find(string, oauth.Algorithm) (*keys.VerificationKey, error) {
	return &e.key.VerificationKey, nil
}
func (e everyKey) Generation() uint64 { return 1 }

// TestG94AssertionKeysRotateByThemselves: a key is published for a whole epoch before it signs and for one after. So an upstream that reads
// the keys now does not meet an unknown key.
func TestG94AssertionKeysRotateByThemselves(t *testing.T) {
	a := assertingAuthority(t)
	used := make(map[string]bool)
	for before := a.jwks(t); len(used) < 4; {
		assertion := a.assert(t, a.personsToken())
		if _, err := a.readAssertion(t, assertion, ordersRequest.Audience, before); err != nil {
			t.Fatalf("with the keys of 29 days before: %v", err)
		}
		used[signedBy(t, assertion.Reveal())] = true
		before = a.jwks(t)
		if n := len(publishedKeys(t, before)); n != 4 { // including the access tokens' keys
			t.Fatalf("%d Ed25519 keys are published", n)
		}
		a.wait(29 * store.Day)
		for id := range publishedKeys(t, before) {
			if id == signedBy(t, assertion.Reveal()) && publishedKeys(t, a.jwks(t))[id] == nil {
				t.Error("a key is gone that signed 29 days ago")
			}
		}
	}
	for id := range used {
		if a.signsAccessTokens(id) {
			t.Error("an assertion was signed with a key of access tokens")
		}
	}
}

// read parses a token without verifying its signature.
func read(tb testing.TB, token string) (header map[string]any, claims jwt.MapClaims) {
	tb.Helper()
	claims = make(jwt.MapClaims)
	t, _, err := jwt.NewParser().ParseUnverified(token, claims)
	if err != nil {
		tb.Fatal(err)
	}
	return t.Header, claims
}

// signedBy returns the kid of a token.
func signedBy(tb testing.TB, token string) string {
	tb.Helper()
	header, _ := read(tb, token)
	kid, _ := header["kid"].(string)
	return kid
}

// signsAccessTokens reports whether a kid is that of a key for access tokens.
func (a *authority) signsAccessTokens(kid string) bool {
	_, err := a.keySetState.Find(kid, oauth.EdDSA)
	return err == nil
}

// TestK8AssertionKeysOfAllNodes: all nodes with the same master key have the same assertion keys, and other nodes do not.
func TestK8AssertionKeysOfAllNodes(t *testing.T) {
	a, b := assertingAuthority(t), assertingAuthority(t)
	if string(a.jwks(t)) != string(b.jwks(t)) {
		t.Error("two nodes publish different keys")
	}
	b.Master = testkeys.Master(t, 8, tokentest.Start)
	b.delegate(new(keys.AssertionKeys))
	b.UseAssertions()
	theirs := publishedKeys(t, b.jwks(t))
	for id := range publishedKeys(t, a.jwks(t)) {
		if theirs[id] != nil && !a.signsAccessTokens(id) {
			t.Error("two master keys give one assertion key")
		}
	}
}

// TestAssertionKeysAreNotPublishedForNothing: without upstream assertions, the key set does not change.
func TestAssertionKeysAreNotPublishedForNothing(t *testing.T) {
	a := newAuthority(t)
	want, err := a.keySetState.JWKS()
	if err != nil || string(a.jwks(t)) != string(want) {
		t.Errorf("%s, want %s, %v", a.jwks(t), want, err)
	}
	_, err = a.Assert(a.personsToken(), ordersRequest)
	tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
}

func TestNoAssertionWithoutAMasterKey(t *testing.T) {
	a := assertingAuthority(t)
	a.Master = nil
	_, err := a.Assert(a.personsToken(), ordersRequest)
	tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
	_, err = a.JWKS()
	tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
}

func BenchmarkAssert(b *testing.B) {
	a := assertingAuthority(b)
	token := a.personsToken()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.Assert(token, ordersRequest); err != nil {
			b.Fatal(err)
		}
	}
}
