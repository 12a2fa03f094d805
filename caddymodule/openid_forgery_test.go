package caddymodule

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

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

// TestT167AForgedHintSaysNothing: a forged id_token_hint at prompt=none and sign-out → login_required, and a page that asks, leads nowhere and
// names no client. The good hint is accepted, so each forgery is refused for its own defect. TestT169HintsThatAreNotOurs has every other defect.
func TestT167AForgedHintSaysNothing(t *testing.T) {
	g, shop := startSignOut(t)
	b, good := buyer(t, g, shop, "ada@acme.example")
	silent := func(hint string) request {
		r := openIDRequestOf("shop", "openid", "prompt", "none", "id_token_hint", hint)
		r.redirectURI, r.secret = shop.redirectURI, shop.secret
		return r
	}
	b.codeToClient(t, b.open(silent(good.IDToken).path()), silent(good.IDToken))
	key, parts, payload := g.signingKey(oauth.RS256), strings.Split(good.IDToken, "."), decodedPart(t, good.IDToken, 1)
	header := testkeys.Header(key, "typ", `"JWT"`)
	for name, hint := range map[string]string{
		"none":                       tokentest.Encode(`{"alg":"none"}`) + "." + parts[1] + ".",
		"a foreign key with our kid": testkeys.Sign(testkeys.Foreign()[oauth.RS256], header, payload),
		"another issuer":             testkeys.Sign(key, header, strings.Replace(payload, `"iss":"`+g.url, `"iss":"https://evil.example`, 1)),
		"changed":                    parts[0] + "." + tokentest.Encode(strings.Replace(payload, `"sub":"u-ada"`, `"sub":"u-grace"`, 1)) + "." + parts[2],
		"an access token":            good.AccessToken,
		"a refresh token":            good.RefreshToken,
		"garbage":                    "x.y.z",
		"long":                       strings.Repeat("x", 6<<10),
		"two hints":                  good.IDToken + " " + good.IDToken,
	} {
		t.Run("T167 "+name, func(t *testing.T) {
			r := silent(hint)
			b.errorToClient(t, b.open(r.path()), r, "login_required", "")
			path := leave("id_token_hint", hint, "post_logout_redirect_uri", signedOutAt, "state", "s")
			p := b.open(path)
			if b.holdAsked(t, p); strings.Contains(p.header.Get("Content-Security-Policy"), "shop.example") || strings.Contains(p.body, "The shop") {
				t.Errorf("sign-out: %v %s", p.header, p.body)
			}
			victim := g.browser() // its user consents
			victim.signIn(victim.open("/oauth/login"), "ben@acme.example", peoplePassword)
			victim.sayYes(t, victim.open(path), "/oauth/logout")
		})
	}
	if p := b.open(leave("id_token_hint", good.IDToken, "post_logout_redirect_uri", signedOutAt, "state", "s")); p.header.Get("Location") != signedOutAt+"&state=s" {
		t.Errorf("the good hint: %d to %s", p.status, p.header.Get("Location"))
	}
	b.holdSignedOut(t, shop, good)
}

// TestT168T178NoIDOrLogoutTokenIsACredential: a logout or ID token, also with typ at+jwt, as bearer, code, refresh token or in introspection → 401,
// invalid_grant, inactive; revoked → nothing ends.
func TestT168T178NoIDOrLogoutTokenIsACredential(t *testing.T) {
	g, shop := startSignOut(t)
	shop.scope = "openid trusted"
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
				g.refused(shop.refresh(tok), http.StatusBadRequest, "invalid_grant")
			})
		}
	}
}
