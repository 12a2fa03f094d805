package caddymodule

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestV12SecretsInTheWrongPlace: credentials in wrong headers, paths or parameters → in no log at any level.
func TestV12SecretsInTheWrongPlace(t *testing.T) {
	site := strings.ReplaceAll(patSite, "HASH", peopleHash())
	site = strings.Replace(site, "\thandle {\n\t\trespond 404", "\thandle /open/* {\n\t\tprotect {\n\t\t\tanonymous /open/*\n\t\t}\n\t\treverse_proxy UPSTREAM\n\t}\n"+
		"\thandle /optional/* {\n\t\tprotect {\n\t\t\toptional\n\t\t}\n\t\treverse_proxy UPSTREAM\n\t}\n\thandle_errors {\n\t\treverse_proxy UPSTREAM\n\t}\n\thandle {\n\t\trespond 404", 1)
	if !strings.Contains(site, "level DEBUG") {
		site = strings.Replace(site, "\t\toutput file LOG\n", "\t\toutput file LOG\n\t\tlevel DEBUG\n", 1)
	}
	g := startGatehouse(t, site)
	g.must(http.StatusCreated, "POST", "/oauth/users", `{"id":"u-eve","email":"eve@acme.example","password_hash":"`+peopleHash()+`","role":"member"}`)
	_, token := g.pat("eve@acme.example")
	escaped := "%67h%5Fpat" + strings.ReplaceAll(token[len("gh_pat"):], "_", "%5f")
	twice := url.QueryEscape(escaped)
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("x:"+token))
	kept := func(t *testing.T, asked string) {
		t.Helper()
		for _, seen := range g.upstream.seen() {
			if raw := strings.ReplaceAll(strings.ToLower(seen.Raw), "%5f", "_"); strings.Contains(raw, strings.ToLower(token[10:])) {
				t.Errorf("%s: the upstream got\n%s", asked, seen.Raw)
			}
		}
	}
	clean := func(t *testing.T, asked string) {
		t.Helper()
		kept(t, asked)
		if logs := g.logs(); strings.Contains(logs, token[10:]) || strings.Contains(logs, confSecret) {
			i := max(strings.Index(logs, token[10:]), strings.Index(logs, confSecret))
			t.Fatalf("%s: the logs hold …%s…", asked, logs[max(0, i-300):min(len(logs), i+60)])
		}
	}
	paths := []string{"/orders/1", "/relay/1", "/open/1", "/optional/1"}
	for _, shape := range []string{"T", `"T"`, "'T'", "token=T", "<T>", "<T", "Bearer T", "Bearer  T", `Bearer "T"`, "x, T", "T\tx", "{\"token\":\"T\"}", "Bearer T T"} {
		for _, text := range []string{token, escaped} {
			value := strings.ReplaceAll(shape, "T", text)
			for _, header := range []string{"X-Api-Key", "X-Any", "Referer", "User-Agent", "X-Forwarded-For", "Authorization", "Proxy-Authorization", "Cookie", "Private-Token"} {
				for _, path := range []string{"/relay/1", "/open/1"} {
					g.do("GET", path, "", header, value)
				}
				if header == "Cookie" || header == "Authorization" && value == "Bearer "+token { // an application's own, and where the token belongs: it is forwarded
					g.upstream.seen()
				}
				kept(t, header+": "+value)
			}
			clean(t, value)
		}
	}
	for _, text := range []string{token, escaped, twice, "x" + token + "y", "%22" + token + "%22", token[:len(token)-8]} {
		for _, path := range paths {
			for _, target := range []string{
				path + "/" + text, path + "/" + text + "/x", path + "?token=" + text, path + "?" + text, path + "?a=b&" + text + "=c", path + "?x=<" + text + ">", path + "?access_token=" + text,
				path + "?ACCESS_TOKEN=" + text, path + "?access.token=" + text, path + "?access+token=" + text, path + "?access_token[]=" + text, path + "?[access_token]=" + text, path + "?access%5Btoken=" + text,
			} {
				g.raw("GET " + target + " HTTP/1.1\r\nHost: " + g.addr + "\r\nConnection: close\r\n\r\n")
				g.raw("GET " + target + " HTTP/1.1\r\nHost: " + g.addr + "\r\nAuthorization: Bearer " + token + "\r\nConnection: close\r\n\r\n")
			}
			g.raw("GET " + path + " HTTP/1.1\r\nHost: " + g.addr + "\r\n" + strings.NewReplacer("%", "_").Replace(text) + ": x\r\nConnection: close\r\n\r\n")
		}
		for _, target := range []string{"/oauth/" + text, "/oauth/userinfo?x=" + text, "/oauth/userinfo/" + text, "/api/v1/organisations/me/users/" + text + "/access_tokens", "/.well-known/oauth-protected-resource/" + text} {
			g.raw("GET " + target + " HTTP/1.1\r\nHost: " + g.addr + "\r\nX-Any: " + text + "\r\nConnection: close\r\n\r\n")
		}
		clean(t, text)
	}
	for _, header := range []string{ // all are removed before the decision on the request
		"X-Auth-Subject", "X-Auth-Role", "X-Original-URL", "X-Rewrite-URL", "X-HTTP-Method-Override", "Forwarded", "X-Real-IP", "X-Forwarded-Prefix", "X-Forwarded-Uri",
		"X-Script-Name", "Connection", "Proxy", "HTTP2-Settings",
	} {
		for _, text := range []string{token, escaped, "x, " + token} {
			for _, path := range paths {
				status, _, _ := g.raw("GET " + path + " HTTP/1.1\r\nHost: " + g.addr + "\r\n" + header + ": " + text + "\r\nAuthorization: Bearer " + token + "\r\nConnection: close\r\n\r\n")
				if status != http.StatusBadRequest {
					t.Errorf("%s: %s on %s is %d", header, text, path, status)
				}
			}
		}
		clean(t, header)
	}
	often := escaped
	for range 9 {
		often = url.QueryEscape(often)
		for _, path := range paths {
			for _, target := range []string{path + "?a=" + often, "http://u:" + token + "@" + g.addr + path, "http://" + escaped + "@" + g.addr + path} {
				if status, _, _ := g.raw("GET " + target + " HTTP/1.1\r\nHost: " + g.addr + "\r\nConnection: close\r\n\r\n"); status != http.StatusBadRequest {
					t.Errorf("%s is %d", target, status)
				}
			}
		}
		clean(t, often)
		if logs := g.logs(); strings.Contains(logs, often[:40]) {
			t.Errorf("the logs hold what is encoded as %s", often)
		}
	}
	g.do("GET", "/relay/1", "", "Authorization", basic)
	for _, form := range []url.Values{
		{"client_id": {confSecret}, "client_secret": {"conf"}}, {"client_id": {confSecret}}, {"client_id": {token}}, {"client_id": {"conf"}, "client_secret": {token}},
		{"client_id": {confSecret}, "client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}, "client_assertion": {token}}, {"client_id": {token}, "client_secret": {confSecret}},
	} {
		for _, path := range []string{"/oauth/token", "/oauth/introspect", "/oauth/revoke", "/oauth/par"} {
			for _, grant := range []string{"client_credentials", "refresh_token", "authorization_code", confSecret, token} {
				form := url.Values{"client_id": form["client_id"], "client_secret": form["client_secret"], "client_assertion": form["client_assertion"], "client_assertion_type": form["client_assertion_type"]}
				form.Set("grant_type", grant)
				form.Set("token", confSecret)
				form.Set("refresh_token", confSecret)
				form.Set("code", confSecret)
				form.Set("scope", confSecret)
				g.do("POST", path, form.Encode(), "Content-Type", urlEncoded)
			}
		}
		g.raw("GET /oauth/authorize?response_type=code&" + form.Encode() + " HTTP/1.1\r\nHost: " + g.addr + "\r\nConnection: close\r\n\r\n")
	}
	for _, pair := range []string{confSecret + ":conf", token + ":x", confSecret + ":", "x:" + token} {
		g.do("POST", "/oauth/token", ccGrant, "Content-Type", urlEncoded, "Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(pair)))
	}
	clean(t, "swapped id and secret")
	if logs := g.logs(); !strings.Contains(logs, "personal_token_misplaced") || !strings.Contains(logs, "client unknown") {
		t.Error("the audit log does not say why")
	}
	if status, _, _ := g.get("/relay/1", token); status != http.StatusOK {
		t.Errorf("%d with the token where it belongs", status)
	}
}
