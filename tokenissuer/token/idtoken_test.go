package token

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestT171WhatAnIDTokenSays: an ID token of each algorithm → header and claims as documented, at_hash by that algorithm's hash, the nonce
// byte for byte, over 32 KiB none.
func TestT171WhatAnIDTokenSays(t *testing.T) {
	hashes := map[oauth.Algorithm]string{
		oauth.RS256: "77QmUPtjPfzWtF2AnpK9RQ", oauth.ES256: "77QmUPtjPfzWtF2AnpK9RQ",
		oauth.EdDSA: "q7nS86GgvvFaZkzALLWqJYaJIKw2wCDAVfCAsm5CrBM",
	}
	for alg, key := range testkeys.Shared() {
		t.Run("T171 "+string(alg), func(t *testing.T) {
			header, claims := parsed(t, signed(t, newToken(), key), testkeys.Public(key), alg)
			if want := map[string]any{"alg": string(alg), "typ": "JWT", "kid": key.ID}; !reflect.DeepEqual(header, want) {
				t.Errorf("header %v, want %v", header, want)
			}
			want := map[string]any{
				"iss": tokentest.Issuer, "sub": "ada", "aud": "shop", "nonce": "n-0S6_WzA2Mj", "sid": "session", "acr": "1", "amr": []any{"pwd"},
				"iat": float64(tokentest.Start.Unix()), "exp": float64(tokentest.Start.Unix() + 3600), "auth_time": float64(tokentest.Start.Unix() - 60),
				"at_hash": hashes[alg],
			}
			if !reflect.DeepEqual(claims, want) {
				t.Errorf("claims\n%v, want\n%v", claims, want)
			}
		})
	}
}

func TestT171AnIDTokenOmitsWhatItDoesNotKnow(t *testing.T) {
	token := &IDToken{Issuer: tokentest.Issuer, Subject: "ada", ClientID: "shop", IssuedAt: tokentest.Start, ExpiresAt: tokentest.Start.Add(IDTokenLifetime)}
	claims := claimsOf(t, signed(t, token, testkeys.Shared()[oauth.EdDSA]))
	want := map[string]any{
		"iss": tokentest.Issuer, "sub": "ada", "aud": "shop", "iat": float64(tokentest.Start.Unix()), "exp": float64(tokentest.Start.Unix() + 3600),
	}
	if !reflect.DeepEqual(claims, want) {
		t.Errorf("%v, want %v", claims, want)
	}
}

func TestT171TheNonceIsSentBackExactly(t *testing.T) {
	for _, nonce := range []string{" a  b ", "a+b%20", `"\<>&`, "\u2028ü\U0001F511e\u0301", "\x00\x1f\x7f", strings.Repeat("n", 2048)} {
		token := newToken()
		token.Nonce = nonce
		if got := claimsOf(t, signed(t, token, testkeys.Shared()[oauth.EdDSA]))["nonce"]; got != nonce {
			t.Errorf("got %q, want %q", got, nonce)
		}
	}
}

func TestT171FurtherClaims(t *testing.T) {
	key := testkeys.Shared()[oauth.EdDSA]
	token := newToken()
	token.Claims = jsontext.Value(`{"name":"Ada","email_verified":true}`)
	if claims := claimsOf(t, signed(t, token, key)); claims["name"] != "Ada" || claims["email_verified"] != true {
		t.Errorf("claims %v", claims)
	}
	refused := map[string]func(*IDToken){
		"a claim twice":                 func(t *IDToken) { t.Claims = jsontext.Value(`{"sub":"eve"}`) },
		"a claim that is written twice": func(t *IDToken) { t.Claims = jsontext.Value(`{"a":1,"a":2}`) },
		"no object":                     func(t *IDToken) { t.Claims = jsontext.Value(`[]`) },
		"a nonce that is not UTF-8":     func(t *IDToken) { t.Nonce = "\xff" },
		"too long":                      func(t *IDToken) { t.Nonce = strings.Repeat("n", MaxIDTokenBytes) },
	}
	for name, change := range refused {
		t.Run(name, func(t *testing.T) {
			token := newToken()
			change(token)
			got, err := token.Sign(key)
			if !got.IsEmpty() {
				t.Error("a token came of it")
			}
			tokentest.WantCode(t, err, oauth.ServerError)
		})
	}
}

func TestT171WhatALogoutTokenSays(t *testing.T) {
	token := &LogoutToken{Issuer: tokentest.Issuer, ClientID: "shop", Subject: "ada", SessionID: "session", IssuedAt: tokentest.Start.Add(time.Millisecond)}
	for alg, key := range testkeys.Shared() {
		t.Run("T171 "+string(alg), func(t *testing.T) {
			header, claims := parsed(t, signed(t, token, key), testkeys.Public(key), alg)
			if want := map[string]any{"alg": string(alg), "typ": "logout+jwt", "kid": key.ID}; !reflect.DeepEqual(header, want) {
				t.Errorf("header %v, want %v", header, want)
			}
			if id, _ := claims["jti"].(string); len(id) < oauth.IDLength {
				t.Errorf("jti %q", id)
			}
			delete(claims, "jti")
			want := map[string]any{
				"iss": tokentest.Issuer, "sub": "ada", "aud": "shop", "sid": "session",
				"iat": float64(tokentest.Start.Unix()), "exp": float64(tokentest.Start.Unix() + 120),
				"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}},
			}
			if !reflect.DeepEqual(claims, want) {
				t.Errorf("claims\n%v, want\n%v", claims, want)
			}
		})
	}
	key := testkeys.Shared()[oauth.EdDSA]
	if claimsOf(t, signed(t, token, key))["jti"] == claimsOf(t, signed(t, token, key))["jti"] {
		t.Error("two logout tokens with one jti")
	}
}
