package caddymodule

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestT179T190WhomUserInfoAnswers: userinfo with a token by header or form → 200; by query or cookie → 401; two ways at once → 400; ID token,
// refresh token, one of a code that was used twice, whose refresh token is dead too, or of a disabled user → 401; without openid → 403.
func TestT179T190WhomUserInfoAnswers(t *testing.T) {
	g := startOpenID(t)
	r := openIDRequestOf("conf", "openid email refresh_token")
	got := g.userTokens(r, "ada@acme.example")
	plain := g.userTokens(requestOf("conf"), "ada@acme.example")
	code := g.code(r, "grace@acme.example")
	replayed := g.obtain(r.exchange(code))
	g.refused(r.exchange(code), http.StatusBadRequest, "invalid_grant")
	g.refused(r.refresh(replayed.RefreshToken), http.StatusBadRequest, "invalid_grant")
	own := "Bearer " + got.AccessToken
	form := url.Values{"access_token": {got.AccessToken}}.Encode()
	for name, c := range map[string]struct {
		method, path, body string
		headers            []string
		status             int
		code               string
	}{
		"GET":                   {"GET", "", "", []string{"Authorization", own}, 200, ""},
		"HEAD":                  {"HEAD", "", "", []string{"Authorization", own}, 200, ""},
		"POST, header":          {"POST", "", "", []string{"Authorization", own}, 200, ""},
		"POST, header, a form":  {"POST", "", "x=y", []string{"Authorization", own, "Content-Type", urlEncoded}, 200, ""},
		"POST, header, JSON":    {"POST", "", "{}", []string{"Authorization", own, "Content-Type", "application/json"}, 200, ""},
		"POST, form":            {"POST", "", form, []string{"Content-Type", urlEncoded}, 200, ""},
		"POST, form, charset":   {"POST", "", form, []string{"Content-Type", urlEncoded + "; charset=UTF-8"}, 200, ""},
		"POST, both":            {"POST", "", form, []string{"Authorization", own, "Content-Type", urlEncoded}, 400, "invalid_request"},
		"POST, body and query":  {"POST", "?" + form, form, []string{"Content-Type", urlEncoded}, 400, "invalid_request"},
		"POST, form twice":      {"POST", "", form + "&" + form, []string{"Content-Type", urlEncoded}, 400, "invalid_request"},
		"POST, JSON":            {"POST", "", `{"access_token":"` + got.AccessToken + `"}`, []string{"Content-Type", "application/json"}, 401, ""},
		"POST, no media type":   {"POST", "", form, nil, 401, ""},
		"POST, empty":           {"POST", "", "access_token=", []string{"Content-Type", urlEncoded}, 401, ""},
		"POST, garbage":         {"POST", "", "access_token=%ff", []string{"Content-Type", urlEncoded}, 400, "invalid_request"},
		"GET, form":             {"GET", "", form, []string{"Content-Type", urlEncoded}, 401, ""},
		"GET, query":            {"GET", "?" + form, "", nil, 401, ""},
		"GET, header and query": {"GET", "?" + form, "", []string{"Authorization", own}, 400, "invalid_request"},
		"two headers":           {"GET", "", "", []string{"Authorization", own, "Authorization", own}, 400, "invalid_request"},
		"nothing":               {"GET", "", "", nil, 401, ""},
		"Basic":                 {"GET", "", "", []string{"Authorization", "Basic Y29uZjp4"}, 401, ""},
		"a cookie":              {"GET", "", "", []string{"Cookie", "accessToken=" + got.AccessToken}, 401, ""},
		"garbage":               {"GET", "", "", []string{"Authorization", "Bearer garbage"}, 401, "invalid_token"},
		"changed":               {"GET", "", "", []string{"Authorization", own[:len(own)-6] + "AAAAAA"}, 401, "invalid_token"},
		"an ID token":           {"GET", "", "", []string{"Authorization", "Bearer " + got.IDToken}, 401, "invalid_token"},
		"a refresh token":       {"GET", "", "", []string{"Authorization", "Bearer " + got.RefreshToken}, 401, "invalid_token"},
		"of a replayed code":    {"GET", "", "", []string{"Authorization", "Bearer " + replayed.AccessToken}, 401, "invalid_token"},
		"without openid":        {"GET", "", "", []string{"Authorization", "Bearer " + plain.AccessToken}, 403, "insufficient_scope"},
		"a server's":            {"GET", "", "", []string{"Authorization", "Bearer " + g.token()}, 403, "insufficient_scope"},
		"PUT":                   {"PUT", "", "", []string{"Authorization", own}, 405, ""},
	} {
		t.Run(name, func(t *testing.T) {
			status, header, body := g.do(c.method, "/oauth/userinfo"+c.path, c.body, c.headers...)
			if status != c.status {
				t.Fatalf("%d %s, want %d", status, body, c.status)
			}
			if header.Get("Cache-Control") != "no-store" || header.Get("Set-Cookie") != "" {
				t.Errorf("%v", header)
			}
			challenge := header.Get("WWW-Authenticate")
			switch {
			case status == 200 && c.method != "HEAD" && (member(t, body, "sub") != "u-ada" || member(t, body, "email") != "ada@acme.example" || header.Get("Content-Type") != "application/json; charset=utf-8"):
				t.Errorf("%v %s", header, body)
			case (status == 401 || status == 403) && !strings.HasPrefix(challenge, `Bearer realm="`), c.code != "" && !strings.Contains(challenge, `error="`+c.code+`"`),
				status == 401 && c.code == "" && strings.Contains(challenge, "error="), c.code == "insufficient_scope" && !strings.Contains(challenge, `scope="openid"`):
				t.Errorf("challenge %q", challenge)
			}
		})
	}
	g.notLogged(t, got.AccessToken)
	t.Run("the user is disabled, or gone", func(t *testing.T) {
		for name, end := range map[string]func(id string) error{
			"disabled": func(id string) error {
				return g.app().registry.People.SetUserStatus(t.Context(), id, store.UserDisabled)
			},
			"removed": func(id string) error { return g.app().registry.People.RemoveUser(t.Context(), id) },
		} {
			id := g.addUser(name+"@acme.example", "acme", "member")
			got := g.userTokens(r, name+"@acme.example")
			if claims := g.told(t, got.AccessToken); claims["sub"] != id {
				t.Errorf("%s: %v", name, claims)
			}
			check(t, end(id))
			if status, _, body := g.get("/oauth/userinfo", got.AccessToken); status != http.StatusUnauthorized {
				t.Errorf("%s: %d %s", name, status, body)
			}
		}
	})
}

// TestT191WhatUserInfoTells: userinfo → `sub` and what the scopes and single claims name, of what there is.
func TestT191WhatUserInfoTells(t *testing.T) {
	g := startOpenID(t)
	for _, c := range []struct {
		scope, claims string
		want          []string
	}{
		{"openid", "", []string{"sub"}},
		{"openid profile", "", []string{"name", "sub"}},
		{"openid email", "", []string{"email", "email_verified", "sub"}},
		{"openid phone address groups", "", []string{"sub"}},
		{"openid", `{"userinfo":{"email":null,"phone_number":{"essential":true},"nickname":null},"id_token":{"name":null}}`, []string{"email", "sub"}},
		{"openid email", `{"userinfo":{"name":{"essential":true}}}`, []string{"email", "email_verified", "name", "sub"}},
	} {
		r := openIDRequestOf("conf", c.scope, "claims", c.claims)
		claims := g.told(t, g.userTokens(r, "ada@acme.example").AccessToken)
		delete(claims, "updated_at") // a declared user may have none
		if names := slices.Sorted(maps.Keys(claims)); !slices.Equal(names, c.want) || claims["sub"] != "u-ada" {
			t.Errorf("%s %s: %v, want %q", c.scope, c.claims, claims, c.want)
		}
		if verified, has := claims["email_verified"]; has && verified != false {
			t.Errorf("email_verified: %v", verified)
		}
	}
}

// TestT192WhoseScriptsMayReadUserInfo: userinfo from a page of a public client → readable without credentials; from another origin → not.
func TestT192WhoseScriptsMayReadUserInfo(t *testing.T) {
	g := startOpenID(t)
	token := g.userTokens(openIDRequestOf("pub", "openid"), "ada@acme.example").AccessToken
	for origin, allowed := range map[string]string{"https://pub.example": "https://pub.example", "https://evil.example": "", "null": ""} {
		status, header, _ := g.do("OPTIONS", "/oauth/userinfo", "", "Origin", origin, "Access-Control-Request-Method", "GET", "Access-Control-Request-Headers", "authorization")
		if header.Get("Access-Control-Allow-Origin") != allowed || allowed != "" && (status != http.StatusNoContent || header.Get("Access-Control-Allow-Headers") != "Authorization, *" || header.Get("Access-Control-Allow-Methods") != "GET, HEAD, POST") {
			t.Errorf("preflight of %s: %d %v", origin, status, header)
		}
		for _, credential := range []string{"Bearer " + token, "Bearer x"} {
			_, header, _ = g.do("GET", "/oauth/userinfo", "", "Origin", origin, "Authorization", credential)
			if header.Get("Access-Control-Allow-Origin") != allowed || header.Get("Access-Control-Allow-Credentials") != "" || !slices.Contains(header.Values("Vary"), "Origin") {
				t.Errorf("%s: %v", origin, header)
			}
		}
	}
}

// TestT193TheDiscoveryDocument: discovery with foreign Host or forwarded headers → the configured issuer, also for an issuer with a path.
func TestT193TheDiscoveryDocument(t *testing.T) {
	for _, path := range []string{"", "/auth"} {
		g := startOpenID(t, "issuer http://ADDR", "issuer http://ADDR"+path)
		issuer := g.url + path
		places := []string{path + "/.well-known/openid-configuration", "/.well-known/openid-configuration" + path, "/.well-known/oauth-authorization-server" + path}
		for _, place := range places {
			status, header, body := g.do("GET", place, "", "X-Forwarded-Host", "evil.example", "X-Forwarded-Proto", "https", "Forwarded", "host=evil.example")
			var m map[string]any
			if err := json.Unmarshal([]byte(body), &m); err != nil || status != http.StatusOK || strings.Contains(body, "evil") {
				t.Fatalf("%s: %d %s", place, status, body)
			}
			if header.Get("Access-Control-Allow-Origin") != "*" || header.Get("ETag") == "" || !strings.Contains(header.Get("Cache-Control"), "max-age") {
				t.Errorf("%s: %v", place, header)
			}
			for name, want := range map[string]any{
				"issuer": issuer, "authorization_endpoint": issuer + "/oauth/authorize", "token_endpoint": issuer + "/oauth/token", "userinfo_endpoint": issuer + "/oauth/userinfo",
				"end_session_endpoint": issuer + "/oauth/logout", "jwks_uri": issuer + "/oauth/jwks", "claims_parameter_supported": true, "request_parameter_supported": false,
				"request_uri_parameter_supported": false, "backchannel_logout_supported": true, "backchannel_logout_session_supported": true, "authorization_response_iss_parameter_supported": true,
			} {
				if m[name] != want {
					t.Errorf("%s: %s is %v, want %v", place, name, m[name], want)
				}
			}
			for name, want := range map[string]string{
				"subject_types_supported": `["public"]`, "response_types_supported": `["code"]`, "response_modes_supported": `["query","form_post"]`,
				"prompt_values_supported": `["none","login","consent","select_account"]`, "acr_values_supported": `["1"]`, "code_challenge_methods_supported": `["S256"]`,
			} {
				if got, _ := json.Marshal(m[name]); string(got) != want {
					t.Errorf("%s: %s is %s, want %s", place, name, got, want)
				}
			}
			for name, wanted := range map[string][]string{
				"id_token_signing_alg_values_supported": {"RS256", "ES256", "EdDSA"}, "scopes_supported": {"openid", "profile", "email", "phone", "address", "groups", "offline_access"},
				"claims_supported": {"sub", "iss", "auth_time", "name", "email", "email_verified", "phone_number", "address", "groups", "updated_at"},
			} {
				listed, _ := m[name].([]any)
				for _, want := range wanted {
					if !slices.Contains(listed, any(want)) {
						t.Errorf("%s: %s lacks %s: %v", place, name, want, listed)
					}
				}
			}
		}
	}
}
