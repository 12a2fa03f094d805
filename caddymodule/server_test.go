package caddymodule

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// aliased is staffed with a second path for the token endpoint, and an upstream for all other paths.
var aliased = strings.NewReplacer("\toauth_server\n", "\toauth_server {\n\t\ttoken_alias /api/v1/tokens\n\t}\n",
	"respond 404", "reverse_proxy UPSTREAM").Replace(staffed)

// TestTokenAlias: the second path accepts the password grant and the refresh exchange in the form of existing
// clients.
func TestTokenAlias(t *testing.T) {
	g := startGatehouse(t, aliased)
	credentials := url.Values{"client_id": {"conf"}, "client_secret": {confSecret}}
	with := func(pairs ...string) url.Values {
		form := url.Values{}
		for name, values := range credentials {
			form[name] = values
		}
		for i := 0; i < len(pairs); i += 2 {
			form.Set(pairs[i], pairs[i+1])
		}
		return form
	}
	password := with("grant_type", "password", "email", "ada@acme.example", "password", adaPassword, "scope", "public refresh_token")
	status, header, body := g.post("/api/v1/tokens", password)
	refresh := member(t, body, "refresh_token")
	if status != http.StatusOK || refresh == "" || header.Get("Cache-Control") != "no-store" {
		t.Fatalf("the password grant: %d %v %s", status, header, body)
	}
	status, _, body = g.post("/api/v1/tokens?x=1", with("grant_type", "refresh_token", "refresh_token", refresh))
	if status != http.StatusOK || g.gate(member(t, body, "access_token")) != http.StatusOK {
		t.Errorf("the refresh exchange: %d %s", status, body)
	}
	g.upstream.seen()
	for _, grant := range []string{"client_credentials", "authorization_code"} {
		status, _, body = g.post("/api/v1/tokens", with("grant_type", grant))
		if status != http.StatusBadRequest || member(t, body, "error") != "unsupported_grant_type" {
			t.Errorf("%s: %d %s", grant, status, body)
		}
	}
	for _, method := range []string{"GET", "PUT", "DELETE", "OPTIONS"} {
		status, header, _ := g.do(method, "/api/v1/tokens", "")
		if status != http.StatusMethodNotAllowed || header.Get("Allow") != "POST" {
			t.Errorf("%s: %d %v", method, status, header)
		}
	}
	g.upstream.none(t)
	g.gate("last") // appears in the access log
	g.eventually("the access log has the last request", func() bool { return strings.Contains(g.logs(), `"uri":"/any/x"`) })
	for line := range strings.Lines(g.logs()) {
		if strings.Contains(line, `"logger":"http.log.access`) && strings.Contains(line, "/api/v1/tokens") {
			t.Errorf("the access log has %s", line)
		}
	}
}

// TestG148EverySpellingOfTheAliasIsOurs: other spellings of the token alias → 404 from us. It covers a client that
// appended a slash to the alias: the application behind received the credentials in the body. A path that no server
// reads as the alias reaches the upstream.
func TestG148EverySpellingOfTheAliasIsOurs(t *testing.T) {
	g := startGatehouse(t, aliased)
	form := url.Values{"grant_type": {"password"}, "email": {"ada@acme.example"}, "password": {adaPassword}, "client_id": {"conf"}, "client_secret": {confSecret}}
	for _, path := range []string{
		"/api/v1/tokens/", "/API/v1/tokens", "/api/v1/%74okens", "/api//v1/tokens", "//api/v1/tokens", "/api/v1/./tokens", "/api/v1/x/../tokens",
		"/api/v1/tokens;x", "/api/v1/tokens%2f", "/api%2fv1/tokens", "/api/v1/%2574okens", `/api\v1\tokens`, "/api/v1/tokens%00", "/x/..;/api/v1/tokens", "/api/v1/tokens.",
	} {
		status, _, body := g.post(path, form)
		if status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, status, body)
		}
		g.upstream.none(t)
	}
	for _, path := range []string{"/api/v1/token", "/api/v1/tokens/x", "/api/v1/tokensx", "/x/api/v1/tokens", "/api/v1", "/api/v2/tokens"} {
		// Without a body, because Caddy's access log reads its length while reverse_proxy may still be copying it.
		status, _, body := g.do(http.MethodPost, path, "")
		if status != http.StatusOK || body != "ok" {
			t.Errorf("%s: %d %s", path, status, body)
		}
		g.upstream.one(t)
	}
}

// TestNoGraceByConfiguration: with refresh_grace 0, a second use of a refresh token is a reuse and ends the family.
func TestNoGraceByConfiguration(t *testing.T) {
	g := startGatehouse(t, strings.Replace(staffed, "limits {", "tokens {\n\t\t\trefresh_grace 0\n\t\t}\n\t\tlimits {", 1))
	access, refresh := g.staffTokens("ada@acme.example", adaPassword)
	for _, want := range []int{http.StatusOK, http.StatusBadRequest} {
		if status, body := g.staffRefresh(refresh); status != want {
			t.Errorf("%d %s, want %d", status, body, want)
		}
	}
	if g.gate(access) != http.StatusUnauthorized {
		t.Error("the family's access token is accepted")
	}
}

const aliasUsage = ": use one exact path that starts with a slash, as clients send it, at Caddyfile:3"

func TestAdaptRefusesOptionsOfTheServer(t *testing.T) {
	for directive, want := range map[string]string{
		"oauth_server trusted":                                  "wrong argument count or unexpected line ending after 'trusted', at Caddyfile:2",
		"oauth_server /x trusted":                               "wrong argument count or unexpected line ending after 'trusted', at Caddyfile:2",
		"oauth_server @typo":                                    "unrecognized matcher name: @typo",
		"oauth_server {\n\tnonsense\n}":                         `unknown oauth_server option "nonsense", at Caddyfile:3`,
		"oauth_server {\n\ttoken_alias\n}":                      "wrong argument count or unexpected line ending after 'token_alias', at Caddyfile:3",
		"oauth_server {\n\ttoken_alias /a /b\n}":                "wrong argument count or unexpected line ending after '/a', at Caddyfile:3",
		"oauth_server {\n\ttoken_alias /a\n\ttoken_alias /b\n}": "token_alias is set twice, at Caddyfile:4",
		"oauth_server {\n\ttoken_alias token\n}":                `token_alias "token"` + aliasUsage,
		"oauth_server {\n\ttoken_alias https://a.example/t\n}":  `token_alias "https://a.example/t"` + aliasUsage,
		"oauth_server {\n\ttoken_alias //a.example/t\n}":        `token_alias "//a.example/t"` + aliasUsage,
		"oauth_server {\n\ttoken_alias /t*\n}":                  `token_alias "/t*"` + aliasUsage,
		"oauth_server {\n\ttoken_alias /t?x=1\n}":               `token_alias "/t?x=1"` + aliasUsage,
		"oauth_server {\n\ttoken_alias {path}\n}":               `token_alias "{http.request.uri.path}"` + aliasUsage,
		"oauth_server {\n\ttoken_alias \"/a b\"\n}":             `token_alias "/a b"` + aliasUsage,
		"oauth_server {\n\ttoken_alias /oauth\n}":               "token_alias /oauth: paths below /oauth/ are the issuer's own, at Caddyfile:3",
		"oauth_server {\n\ttoken_alias /oauth/refresh\n}":       "token_alias /oauth/refresh: paths below /oauth/ are the issuer's own, at Caddyfile:3",
	} {
		_, err := adapt("http://a.example {\n" + directive + "\n}\n")
		checkRefusal(t, err, "parsing caddyfile tokens for 'oauth_server': "+want)
	}
}
