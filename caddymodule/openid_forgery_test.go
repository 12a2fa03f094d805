package caddymodule

import (
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// afterSignOut is the post-logout redirect URI of shop.
const afterSignOut = "https://shop.example/bye"

// startShop serves an application that needs no consent and has a post-logout redirect URI, and another one like it.
func startShop(t *testing.T) (g *gatehouse, shop, rival request) {
	t.Helper()
	g = startOpenID(t)
	list := make([]request, 2)
	for i, id := range []string{"shop", "rival"} {
		home := "https://" + id + ".example"
		list[i] = openIDRequestOf(id, "openid trusted")
		list[i].redirectURI = home + "/cb"
		list[i].secret = g.addClient(t, store.Client{
			ID: id, RedirectURIs: []string{home + "/cb"}, Scopes: oauth.Scopes{"openid", "trusted"}, FirstParty: true,
			Grants: []oauth.GrantType{oauth.AuthorizationCode}, ClientOpenID: store.ClientOpenID{PostLogoutRedirectURIs: []string{home + "/bye"}},
		})
	}
	return g, list[0], list[1]
}

// signingKey returns the issuer's signing key for an algorithm.
func (g *gatehouse) signingKey(algorithm oauth.Algorithm) *keys.SigningKey {
	g.t.Helper()
	key, err := g.app().node.Keys.SigningWith(algorithm, time.Now())
	check(g.t, err)
	return key
}

// decodedPart returns a decoded part of a token.
func decodedPart(t *testing.T, token string, i int) string {
	t.Helper()
	text, err := oauth.DecodeBase64URL(nil, strings.Split(token, ".")[i])
	check(t, err)
	return string(text)
}

// hs256 signs with a text as the secret.
func hs256(header, payload string, secret []byte) string {
	input := tokentest.Encode(header) + "." + tokentest.Encode(payload)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(input))
	return input + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// forgedHints returns hints forged from a good ID token, the public keys and other tokens of the issuer.
func (g *gatehouse) forgedHints(t *testing.T, good tokens) map[string]string {
	t.Helper()
	rs, es := g.signingKey(oauth.RS256), g.signingKey(oauth.ES256)
	foreign := testkeys.Foreign()[oauth.RS256]
	header := func(key *keys.SigningKey, edits ...string) string {
		return testkeys.Header(key, append([]string{"typ", `"JWT"`}, edits...)...)
	}
	payload := decodedPart(t, good.IDToken, 1)
	another := func(old, new string) string {
		changed := strings.Replace(payload, old, new, 1)
		if changed == payload {
			t.Fatalf("%s lacks %s", payload, old)
		}
		return changed
	}
	parts := strings.Split(good.IDToken, ".")
	der, err := x509.MarshalPKIXPublicKey(testkeys.Public(rs))
	check(t, err)
	_, _, jwks := g.get("/oauth/jwks", "")
	logout, err := (&token.LogoutToken{
		Issuer: g.url, ClientID: "shop", Subject: "u-ada", SessionID: member(t, payload, "sid"), IssuedAt: time.Now(),
	}).Sign(rs)
	check(t, err)
	return map[string]string{
		"none":                       tokentest.Encode(`{"alg":"none"}`) + "." + parts[1] + ".",
		"none, with the kid":         tokentest.Encode(header(rs, "alg", `"none"`)) + "." + parts[1] + "." + parts[2],
		"HS256 by the key in DER":    hs256(header(rs, "alg", `"HS256"`), payload, der),
		"HS256 by the key in PEM":    hs256(header(rs, "alg", `"HS256"`), payload, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})),
		"HS256 by the key set":       hs256(header(rs, "alg", `"HS256"`), payload, []byte(jwks)),
		"HS256 by the kid":           hs256(header(rs, "alg", `"HS256"`), payload, []byte(rs.ID)),
		"a foreign key with our kid": testkeys.Sign(foreign, header(rs), payload),
		"a foreign key with its kid": testkeys.Sign(foreign, header(foreign), payload),
		"a foreign key that is enclosed": testkeys.Sign(foreign, header(foreign, "jwk", `{"kty":"RSA","e":"AQAB","n":"`+
			base64.RawURLEncoding.EncodeToString(testkeys.Public(foreign).(*rsa.PublicKey).N.Bytes())+`"}`), payload),
		"a key by reference":          testkeys.Sign(foreign, header(foreign, "jku", strconv.Quote(g.upstream.addr)), payload),
		"our other key with this kid": testkeys.Sign(es, header(rs), payload),
		"without a kid":               testkeys.Sign(rs, header(rs, "kid", ""), payload),
		"another issuer":              testkeys.Sign(rs, header(rs), another(`"iss":"`+g.url+`"`, `"iss":"https://evil.example"`)),
		"the issuer with a slash":     testkeys.Sign(rs, header(rs), another(`"iss":"`+g.url+`"`, `"iss":"`+g.url+`/"`)),
		"changed":                     parts[0] + "." + tokentest.Encode(another(`"sub":"u-ada"`, `"sub":"u-grace"`)) + "." + parts[2],
		"typ of an access token":      testkeys.Sign(rs, header(rs, "typ", `"at+jwt"`), payload),
		"without typ":                 testkeys.Sign(rs, header(rs, "typ", ""), payload),
		"an access token":             good.AccessToken,
		"a logout token":              logout.Reveal(),
		"two hints":                   good.IDToken + " " + good.IDToken,
	}
}

// TestT167AForgedHintSaysNothing: a forged id_token_hint at prompt=none and sign-out → login_required, and a page
// that asks; a genuine one of another client or session → asks. The good hint is accepted, so each forgery is refused
// for its own defect.
func TestT167AForgedHintSaysNothing(t *testing.T) {
	g, shop, rival := startShop(t)
	b := g.browser()
	good := b.redeem(t, b.authorize(shop, "ada@acme.example"), shop)
	silent := func(hint string) request {
		r := openIDRequestOf("shop", "openid", "prompt", "none", "id_token_hint", hint)
		r.redirectURI, r.secret = shop.redirectURI, shop.secret
		return r
	}
	signOut := func(b *browser, hint string, more ...string) page {
		asked := url.Values{"id_token_hint": {hint}, "post_logout_redirect_uri": {afterSignOut}, "state": {"s"}}
		for i := 0; i < len(more); i += 2 {
			asked.Set(more[i], more[i+1])
		}
		return b.open("/oauth/logout?" + asked.Encode())
	}
	b.codeToClient(t, b.open(silent(good.IDToken).path()), silent(good.IDToken))
	for name, hint := range g.forgedHints(t, good) {
		t.Run("T167 "+name, func(t *testing.T) {
			r := silent(hint)
			b.errorToClient(t, b.open(r.path()), r, "login_required", "")
			p := signOut(b, hint)
			if p.status != http.StatusOK || p.header.Get("Location") != "" || strings.Contains(p.header.Get("Content-Security-Policy"), "shop.example") {
				t.Errorf("sign-out: %d %s %v", p.status, p.header.Get("Location"), p.header)
			}
			victim := g.browser() // its user consents
			victim.signIn(victim.open("/oauth/login"), "ben@acme.example", peoplePassword)
			action, fields := formIn(t, signOut(victim, hint))
			if p := victim.send(action, fields); p.status != http.StatusSeeOther || strings.Contains(p.header.Get("Location"), "shop.example") {
				t.Errorf("signed out: %d to %s", p.status, p.header.Get("Location"))
			}
		})
	}

	// Genuine ID tokens, but of another client, or of another browser of the same user.
	theirs := b.redeem(t, b.authorize(rival, "ada@acme.example"), rival)
	other := g.browser()
	elsewhere := other.redeem(t, other.authorize(shop, "ada@acme.example"), shop)
	for name, p := range map[string]page{
		"another client's, for this client":   signOut(b, theirs.IDToken, "client_id", "shop"),
		"another client's, to this client":    signOut(b, theirs.IDToken),
		"this client's, for another one":      signOut(b, good.IDToken, "client_id", "rival"),
		"this client's, to another one":       signOut(b, good.IDToken, "post_logout_redirect_uri", "https://rival.example/bye"),
		"of another session of the same user": signOut(b, elsewhere.IDToken),
	} {
		if p.status != http.StatusOK || p.header.Get("Location") != "" {
			t.Errorf("%s: %d to %s", name, p.status, p.header.Get("Location"))
		}
	}
	if !g.alive(good.AccessToken) || !g.alive(elsewhere.AccessToken) {
		t.Error("somebody was signed out")
	}
	if p := signOut(b, good.IDToken); p.status != http.StatusSeeOther || p.header.Get("Location") != afterSignOut+"?state=s" {
		t.Errorf("the good hint: %d to %s", p.status, p.header.Get("Location"))
	}
	b.errorToClient(t, b.open(silent(good.IDToken).path()), silent(good.IDToken), "login_required", "")
}

// TestT168ALogoutTokenIsNoCredential: a logout or ID token, also with typ at+jwt, as bearer, code or in introspection → 401,
// invalid_grant, inactive.
func TestT168ALogoutTokenIsNoCredential(t *testing.T) {
	g, shop, _ := startShop(t)
	good := g.userTokens(shop, "ada@acme.example")
	session := member(t, decodedPart(t, good.IDToken, 1), "sid")
	for _, algorithm := range []oauth.Algorithm{oauth.ES256, oauth.RS256, oauth.EdDSA} {
		key := g.signingKey(algorithm)
		logout, err := (&token.LogoutToken{Issuer: g.url, ClientID: "shop", Subject: "u-ada", SessionID: session, IssuedAt: time.Now()}).Sign(key)
		check(t, err)
		identity := decodedPart(t, good.IDToken, 1)
		for name, tok := range map[string]string{
			"a logout token":                logout.Reveal(),
			"an ID token":                   testkeys.Sign(key, testkeys.Header(key, "typ", `"JWT"`), identity),
			"an ID token as at+jwt":         testkeys.Sign(key, testkeys.Header(key), identity),
			"a logout token as at+jwt":      testkeys.Sign(key, testkeys.Header(key), decodedPart(t, logout.Reveal(), 1)),
			"access claims in an ID token":  testkeys.Sign(key, testkeys.Header(key, "typ", `"JWT"`), decodedPart(t, good.AccessToken, 1)),
			"access claims as logout token": testkeys.Sign(key, testkeys.Header(key, "typ", `"logout+jwt"`), decodedPart(t, good.AccessToken, 1)),
		} {
			t.Run("T168 "+name+" "+string(algorithm), func(t *testing.T) {
				for _, path := range []string{"/api/x", "/oauth/userinfo", "/oauth/token/info"} {
					if status, _, body := g.get(path, tok); status != http.StatusUnauthorized {
						t.Errorf("%s: %d %s", path, status, body)
					}
				}
				client := url.Values{"token": {tok}, "client_id": {"shop"}, "client_secret": {shop.secret}}
				if _, _, body := g.post("/oauth/introspect", client); body != `{"active":false}` {
					t.Errorf("introspection: %s", body)
				}
				if status, _, _ := g.post("/oauth/revoke", client); status != http.StatusOK || !g.alive(good.AccessToken) {
					t.Errorf("revocation: %d, and the access token lives: %t", status, g.alive(good.AccessToken))
				}
				g.refused(shop.exchange(tok), http.StatusBadRequest, "invalid_grant")
			})
		}
	}
}
