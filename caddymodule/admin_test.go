package caddymodule

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// durableSite is site with an SQLite store, which survives a reload.
var durableSite = strings.Replace(site, "store memory", "store sqlite DIR/state/oauth.db", 1)

// operate sends a request with an application/json body to the admin endpoint.
func (g *gatehouse) operate(method, path, body string) (int, http.Header, string) {
	g.t.Helper()
	return g.operateAs("application/json", method, path, body)
}

func (g *gatehouse) operateAs(contentType, method, path, body string) (int, http.Header, string) {
	g.t.Helper()
	request, err := http.NewRequest(method, "http://"+g.admin+path, strings.NewReader(body))
	check(g.t, err)
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	a := answerTo(g.t, &http.Client{Transport: oneShot(new(net.Dialer)), Timeout: patience}, request)
	checkDescribed(g.t, method, path, a.status, a.body)
	return a.status, a.header, a.body
}

// must is like operate and requires the status.
func (g *gatehouse) must(status int, method, path, body string) string {
	g.t.Helper()
	got, _, answer := g.operate(method, path, body)
	if got != status {
		g.t.Fatalf("%s %s %s: %d %s, want %d", method, path, body, got, answer, status)
	}
	return answer
}

// tokenFor requests a server token and returns the status and the token.
func (g *gatehouse) tokenFor(id, secret string) (int, string) {
	g.t.Helper()
	status, _, body := g.post("/oauth/token", url.Values{
		"grant_type": {"client_credentials"}, "client_id": {id}, "client_secret": {secret},
	})
	if status != http.StatusOK {
		return status, ""
	}
	return status, member(g.t, body, "access_token")
}

// gate returns the status of a request with the token.
func (g *gatehouse) gate(token string) int {
	g.t.Helper()
	status, _, _ := g.get("/any/x", token)
	return status
}

// TestG99ErrorsOfTheAdminAPI checks that an error is {"error":"…"} with a fitting status, and that nothing changes.
func TestG99ErrorsOfTheAdminAPI(t *testing.T) {
	g := startGatehouse(t, site)
	before := g.must(http.StatusOK, "GET", "/oauth/clients", ``)
	const asJSON = "application/json"
	for _, test := range []struct {
		contentType, method, path, body string
		want                            int
		allow                           string
	}{
		{asJSON, "GET", "/oauth/", ``, 404, ""},
		{asJSON, "GET", "/oauth/nothing", ``, 404, ""},
		{asJSON, "GET", "/oauth/clients/", ``, 404, ""},
		{asJSON, "GET", "/oauth/clients/nobody", ``, 404, ""},
		{asJSON, "DELETE", "/oauth/clients/nobody", ``, 404, ""},
		{asJSON, "POST", "/oauth/clients/nobody/disable", `{}`, 404, ""},
		{asJSON, "POST", "/oauth/clients/nobody/rotate-secret", `{}`, 404, ""},
		{asJSON, "POST", "/oauth/clients/conf/nothing", `{}`, 404, ""},
		{asJSON, "DELETE", "/oauth/clients", ``, 405, "GET, POST"},
		{asJSON, "PUT", "/oauth/clients/conf", `{}`, 405, "GET, PATCH, DELETE"},
		{asJSON, "PATCH", "/oauth/clients/conf", `{}`, 409, ""},
		{asJSON, "POST", "/oauth/clients/conf/rotate-secret", `{"overlap":"1h"}`, 409, ""},
		{asJSON, "POST", "/oauth/clients/conf/disable", `{}`, 409, ""},
		{asJSON, "POST", "/oauth/clients/conf/enable", `{}`, 409, ""},
		{asJSON, "DELETE", "/oauth/clients/conf", ``, 409, ""},
		{asJSON, "POST", "/oauth/clients", `{"id":"conf","name":"Mine"}`, 409, ""},
		{asJSON, "POST", "/oauth/clients/conf", `{}`, 405, "GET, PATCH, DELETE"},
		{asJSON, "GET", "/oauth/clients/conf/disable", ``, 405, "POST"},
		{asJSON, "GET", "/oauth/tokens", ``, 405, "POST"},
		{asJSON, "POST", "/oauth/keys", `{}`, 405, "GET"},
		{"", "POST", "/oauth/clients", `{"name":"x"}`, 415, ""},
		{"text/plain", "POST", "/oauth/clients", `{"name":"x"}`, 415, ""},
		{"multipart/form-data", "POST", "/oauth/tokens", `{}`, 415, ""},
		{asJSON, "POST", "/oauth/clients", ``, 400, ""},
		{asJSON, "POST", "/oauth/clients", `nonsense`, 400, ""},
		{asJSON, "POST", "/oauth/clients", `{"name":"x"} {}`, 400, ""},
		{asJSON, "POST", "/oauth/clients", `{"name":"x","name":"y"}`, 400, ""},
		{asJSON, "POST", "/oauth/clients", `{"Name":"x"}`, 400, ""},
		{asJSON, "POST", "/oauth/clients", `{"name":"x","secret":"chosen"}`, 400, ""},
		{asJSON, "POST", "/oauth/clients", `{"name":7}`, 400, ""},
		{asJSON, "POST", "/oauth/clients", `{"name":"x","type":"wide"}`, 400, ""},
		{asJSON, "POST", "/oauth/clients", `{"name":"x","grants":["implicit"]}`, 400, ""},
		{asJSON, "POST", "/oauth/clients", `{"name":"x","scopes":["nothing"]}`, 400, ""},
		{asJSON, "POST", "/oauth/clients", `{"name":"x","id":"a\u0000b"}`, 400, ""},
		{asJSON, "POST", "/oauth/clients", `{"name":"` + strings.Repeat("x", 256) + `"}`, 400, ""},
		{asJSON, "POST", "/oauth/clients", `{"name":"` + strings.Repeat("x", 64<<10) + `"}`, 413, ""},
		{asJSON, "POST", "/oauth/clients/conf/rotate-secret", `{"overlap":"soon"}`, 400, ""},
		{asJSON, "POST", "/oauth/tokens", `{"client":"nobody"}`, 404, ""},
		{asJSON, "POST", "/oauth/tokens", `{"client":"conf","scope":"trusted"}`, 400, ""},
		{asJSON, "POST", "/oauth/tokens", `{"client":"conf","lifetime":"36d"}`, 400, ""},
		{asJSON, "POST", "/oauth/tokens", `{"client":"conf","lifetime":"soon"}`, 400, ""},
		{asJSON, "POST", "/oauth/tokens/explain", `{"tokn":""}`, 400, ""},
		{asJSON, "POST", "/oauth/revocations", `{}`, 400, ""},
		{asJSON, "POST", "/oauth/revocations", `{"jti":"a","client":"b"}`, 400, ""},
		{asJSON, "POST", "/oauth/revocations", `{"token":"a"}`, 400, ""},
	} {
		status, header, body := g.operateAs(test.contentType, test.method, test.path, test.body)
		var answer map[string]string
		err := json.Unmarshal([]byte(body), &answer)
		if status != test.want || err != nil || len(answer) != 1 || answer["error"] == "" {
			t.Errorf("%s %s %.60s: %d %s, want %d", test.method, test.path, test.body, status, body, test.want)
		}
		if header.Get("Content-Type") != "application/json" || header.Get("Cache-Control") != "no-store" || header.Get("Allow") != test.allow {
			t.Errorf("%s %s %.60s: %v", test.method, test.path, test.body, header)
		}
	}
	if after := g.must(http.StatusOK, "GET", "/oauth/clients", ``); after != before {
		t.Errorf("refused requests changed %s to %s", before, after)
	}
}

// TestG99Revocations: a family, a user, a token or a client revoked with the command → at once its access and refresh tokens are dead, and no
// others.
func TestG99Revocations(t *testing.T) {
	g := startGatehouse(t, staffed)
	g.must(http.StatusCreated, "POST", "/oauth/users", `{"id":"u-bob","email":"bob@acme.example","organisation":"acme","password":"bobs-password"}`)
	type held struct{ access, refresh string }
	all := make(map[string]*held)
	for name, by := range map[string][2]string{"bob": {"bob@acme.example", "bobs-password"}, "bob again": {"bob@acme.example", "bobs-password"}, "ada": {"ada@acme.example", adaPassword}} {
		h := new(held)
		h.access, h.refresh = g.staffTokens(by[0], by[1])
		all[name] = h
	}
	all["server"] = &held{access: g.token()}
	minted := g.must(http.StatusCreated, "POST", "/oauth/tokens", `{"client":"conf"}`)
	all["minted"] = &held{access: member(t, minted, "access_token")}
	family := member(t, g.must(http.StatusOK, "POST", "/oauth/tokens/explain", fmt.Sprintf(`{"token":%q}`, all["bob"].access)), "family")
	if _, err := g.run("", "token", "revoke", "--user", "u-away"); err == nil || !strings.Contains(err.Error(), "Use --force") {
		t.Errorf("an unknown user: %v", err)
	}
	dead := make(map[string]bool)
	for _, step := range []struct{ args, ends []string }{
		{[]string{"--family", family}, []string{"bob"}},
		{[]string{"--jti", member(t, minted, "jti")}, []string{"minted"}},
		{[]string{"--user", "u-bob"}, []string{"bob again"}},
		{[]string{"--user", "u-away", "--force"}, nil}, // another node may have declared the user
		{[]string{"--client", "conf"}, []string{"ada", "server"}},
	} {
		if out := g.ok(append([]string{"token", "revoke"}, step.args...)...); out != "" {
			t.Errorf("%q printed %q", step.args, out)
		}
		for _, name := range step.ends {
			dead[name] = true
		}
		for name, h := range all {
			if got := g.gate(h.access) != http.StatusOK; got != dead[name] {
				t.Errorf("after %q the access token of %s is dead: %t", step.args, name, got)
			}
			if h.refresh == "" {
				continue
			}
			status, body := g.staffRefresh(h.refresh)
			if (status != http.StatusOK) != dead[name] {
				t.Errorf("after %q the refresh token of %s: %d %s", step.args, name, status, body)
			} else if !dead[name] {
				h.access, h.refresh = member(t, body, "access_token"), member(t, body, "refresh_token")
			}
		}
	}
}
