package caddymodule

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/identity"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
)

// Assertions, through a real reverse_proxy. The tests verify them with a third-party library and the published keys.

const assertionHeader = "X-Gate-Assertion"

var assertingRoutes = gated("/any/*", "forward assertion x-gate-assertion https://orders.example", "anonymous /any/pub/*") +
	gated("/beside/*", "forward assertion X-Gate-Assertion", "forward X-User sub") +
	gated("/alone/*", "forward off", "forward assertion X-Gate-Assertion", "optional") +
	gatedBelow("/stripped/*", "forward assertion X-Gate-Assertion https://orders.example") +
	gatedDown("/down/*", "forward assertion X-Gate-Assertion") + gated("") + errorsProxied

// readJWT verifies a JWT of the gate's issuer with the published keys.
func (g *gateway) readJWT(t *testing.T, token, typ, audience string) (jwt.MapClaims, error) {
	t.Helper()
	status, _, body := g.do(http.MethodGet, "/oauth/jwks", "")
	var set struct{ Keys []map[string]string }
	if err := json.Unmarshal([]byte(body), &set); status != http.StatusOK || err != nil {
		t.Fatalf("keys: %d %v", status, err)
	}
	parsed, err := jwt.Parse(token, func(token *jwt.Token) (any, error) {
		if token.Header["typ"] != typ || len(token.Header) != 3 {
			return nil, fmt.Errorf("header %v", token.Header)
		}
		i := slices.IndexFunc(set.Keys, func(k map[string]string) bool { return k["kid"] == token.Header["kid"] })
		if i < 0 {
			return nil, fmt.Errorf("kid %v is not published", token.Header["kid"])
		}
		return publicKey(set.Keys[i])
	}, jwt.WithValidMethods([]string{"EdDSA", "ES256"}), jwt.WithIssuer(g.url), jwt.WithAudience(audience),
		jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithLeeway(2*time.Second))
	if err != nil {
		return nil, err
	}
	return parsed.Claims.(jwt.MapClaims), nil
}

// publicKey parses a published key.
func publicKey(k map[string]string) (any, error) {
	x, err := base64.RawURLEncoding.DecodeString(k["x"])
	if err != nil || k["alg"] == "EdDSA" {
		return ed25519.PublicKey(x), err
	}
	y, err := base64.RawURLEncoding.DecodeString(k["y"])
	if err != nil {
		return nil, err
	}
	return ecdsa.ParseUncompressedPublicKey(elliptic.P256(), slices.Concat([]byte{4}, x, y))
}

// asserts verifies the assertion of a request as the upstream would, with nothing but the request.
func (g *gateway) asserts(t *testing.T, r *recorded, audience string) jwt.MapClaims {
	t.Helper()
	values := r.Header[assertionHeader]
	if len(values) != 1 {
		t.Fatalf("%d assertions in:\n%s", len(values), r.Raw)
	}
	claims, err := g.readJWT(t, values[0], keys.AssertionType, audience)
	check(t, err)
	hash := sha256.Sum256([]byte(r.Target))
	if claims["htm"] != r.Method || claims["htp"] != b64(hash[:]) {
		t.Errorf("the assertion is for %s and hash %s, and not for %s %s", claims["htm"], claims["htp"], r.Method, r.Target)
	}
	if life := claims["exp"].(float64) - claims["iat"].(float64); life > 60 {
		t.Errorf("it lives for %v seconds", life)
	}
	return claims
}

func TestG94AssertionReachesTheUpstream(t *testing.T) {
	g := startGate(t, siteWith("", assertingRoutes))
	token := g.user("u-ada", "acme", "admin", "public", "trusted")
	seen := g.passed(t, g.request("GET", "/any/x", bearer(token)))
	claims := g.asserts(t, seen, "https://orders.example")
	for name, want := range map[string]any{
		"sub": "u-ada", "client_id": "conf", "scope": "public trusted", "org": "acme", "role": "admin", "sid": "family-of-u-ada",
		"token_iss": g.url, "act": nil,
	} {
		if claims[name] != want {
			t.Errorf("%s: %v, want %v", name, claims[name], want)
		}
	}
	seen.has(t, identity.Subject, "u-ada") // the assertion does not replace the identity headers
	seen.has(t, "Authorization")
	if _, err := g.readJWT(t, seen.Header[assertionHeader][0], keys.AssertionType, "https://stock.example"); err == nil {
		t.Error("another upstream takes it")
	}
	if status, _, body := g.get("/oauth/token/info", seen.Header[assertionHeader][0]); status != http.StatusUnauthorized { // G25
		t.Errorf("as a bearer: %d %s", status, body)
	}
	seen = g.passed(t, g.request("GET", "/beside/x", bearer(token)))
	g.asserts(t, seen, g.url)
	seen.has(t, "X-User", "u-ada").has(t, identity.Subject)
	seen = g.passed(t, g.request("GET", "/alone/x", bearer(token)))
	g.asserts(t, seen, g.url)
	seen.has(t, identity.Subject)
	g.asserts(t, g.passed(t, g.request("GET", "/any/x?spoofed", bearer(token), "x-gate-assertion: mine")), "https://orders.example")
}

// TestG94AssertionIsForTheRequestOnTheWire checks that method and target equal those of the request line at the upstream, byte for byte, also of a
// WebSocket.
func TestG94AssertionIsForTheRequestOnTheWire(t *testing.T) {
	g := startBoth(t, siteWith("", assertingRoutes))
	token := g.server("public")
	for _, target := range []string{
		"/any/x", "/any/x?", "/any/x?a=1&b=%20&a=2", "/any/a%2fb", "/any/%41?q=a+b", "/any/x?a=1;b=2", "/any/x?%zz", "/any/ü?ü",
		"/any/a,b:c@d!$&'()*+=", "/stripped/any/x?y=1", "/any/x/", g.url + "/any/x?absolute", "/any/x?a=%2F/?",
	} {
		for _, method := range []string{"GET", "POST"} {
			seen := g.passed(t, g.request(method, target, bearer(token), "Content-Length: 0"))
			g.asserts(t, seen, "https://orders.example")
		}
	}
	g.audited()
	g.raw(g.request("HEAD", "/any/x", bearer(token), "Connection: close"))
	g.asserts(t, g.upstream.one(t), "https://orders.example")
	g.upstream.answer = websocketUpstream
	w := g.dial(t, g.request("GET", "/any/socket?x", append(slices.Clone(webSocket), bearer(token))...))
	w.echoes(t)
	g.asserts(t, g.upstream.one(t), "https://orders.example")
}

// TestG94InboundAssertionIsStripped checks every route and every spelling, as for the other identity headers.
func TestG94InboundAssertionIsStripped(t *testing.T) {
	g := startBoth(t, siteWith(`		expected_underscore_headers X_Gate_Assertion X-Gate_Assertion x_gate_assertion X_*
		expected_dot_headers X.Gate.Assertion X.gate-Assertion X.*`, assertingRoutes))
	token := g.user("u-ada", "acme", "admin", "public")
	genuine := g.passed(t, g.request("GET", "/any/x", bearer(token))).Header[assertionHeader][0]
	var spoofed []string
	for _, spelling := range []string{
		"X-Gate-Assertion", "x-gate-assertion", "X_Gate_Assertion", "X-Gate_Assertion", "X.Gate.Assertion", "X.gate-Assertion", "X~Gate~Assertion",
	} {
		spoofed = append(spoofed, spelling+": "+genuine)
	}
	for _, path := range []string{"/any/pub/x", "/alone/x"} {
		g.passed(t, g.request("GET", path, spoofed...)).has(t, assertionHeader)
	}
	for _, path := range []string{"/any/x", "/down/x;y"} { // on an error route
		_, _, _ = g.raw(g.request("GET", path, spoofed...))
		g.upstream.one(t).has(t, assertionHeader)
	}
	spoofed = append(spoofed, bearer(token))
	g.passed(t, g.request("GET", "/other", spoofed...)).has(t, assertionHeader)
	seen := g.passed(t, g.request("GET", "/any/y", append(spoofed, "Connection: close")...))
	if g.asserts(t, seen, "https://orders.example"); seen.Header[assertionHeader][0] == genuine {
		t.Error("the client's own copy reached the upstream")
	}
	_, _, _ = g.raw(g.request("GET", "/down/x", append(spoofed, "Connection: X-Gate-Assertion")...))
	g.upstream.one(t).has(t, assertionHeader)
}

// TestK8AssertionKeysArePublishedWhereTheyAreUsed checks that the key set of other configurations stays unchanged.
func TestK8AssertionKeysArePublishedWhereTheyAreUsed(t *testing.T) {
	g := startGate(t, site)
	count := func() int {
		_, header, body := g.get("/oauth/jwks", "")
		if header.Get("Cache-Control") != "public, max-age=300" || strings.Contains(body, `"d"`) {
			t.Errorf("%v %s", header, body)
		}
		return strings.Count(body, `"kid"`)
	}
	if n := count(); n != 1 {
		t.Errorf("%d keys without an assertion", n)
	}
	g.reload(siteWith("", assertingRoutes))
	if n := count(); n != 4 {
		t.Errorf("%d keys with one", n)
	}
	g.reload(site)
	if n := count(); n != 1 {
		t.Errorf("%d keys after it", n)
	}
}

// TestG94ATokenTooLongForAnAssertion checks that a token is refused if its claims do not fit into an assertion header.
func TestG94ATokenTooLongForAnAssertion(t *testing.T) {
	g := startGate(t, siteWith("", strings.TrimSuffix(assertingRoutes, errorsProxied)))
	long := g.user("u-ada", strings.Repeat("a", 3500), "", "public")
	g.refused(t, g.request("GET", "/any/x", bearer(long)), http.StatusUnauthorized)
	g.passed(t, g.request("GET", "/any/x", bearer(g.server("public"))))
}
