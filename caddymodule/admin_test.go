package caddymodule

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
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
	if err != nil {
		g.t.Fatal(err)
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	a := answerTo(g.t, &http.Client{Transport: oneShot(new(net.Dialer)), Timeout: patience}, request)
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

// TestG99ClientLifecycle: admin API → GET shows no secret or hash, only mutating methods change.
func TestG99ClientLifecycle(t *testing.T) {
	clock := setClock(t)
	g := startGatehouse(t, site)
	added := g.must(http.StatusCreated, "POST", "/oauth/clients", `{"id":"acme","name":"Acme"}`)
	secret := member(t, added, "client_secret")
	status, token := g.tokenFor("acme", secret)
	if status != http.StatusOK || g.gate(token) != http.StatusOK {
		t.Fatalf("the new client: %d, its token: %d", status, g.gate(token))
	}
	g.must(http.StatusConflict, "POST", "/oauth/clients", `{"id":"acme","name":"Another"}`)

	rotated := g.must(http.StatusOK, "POST", "/oauth/clients/acme/rotate-secret", `{"overlap":"1h"}`)
	second := member(t, rotated, "client_secret")
	for _, s := range []string{secret, second} {
		if status, _ := g.tokenFor("acme", s); status != http.StatusOK {
			t.Errorf("within the overlap: %d", status)
		}
	}
	clock.advance(time.Hour + time.Second)
	g.eventually("the revocations are fresh", func() bool { return g.app().node.Revocations.Age(g.app().node.Now()) < time.Minute })
	if status, _ := g.tokenFor("acme", secret); status != http.StatusUnauthorized {
		t.Errorf("the old secret after the overlap: %d", status)
	}
	third := second
	for _, body := range []string{`{"overlap":"0s"}`, `{}`} {
		former := third
		third = member(t, g.must(http.StatusOK, "POST", "/oauth/clients/acme/rotate-secret", body), "client_secret")
		if status, _ := g.tokenFor("acme", former); status != http.StatusUnauthorized {
			t.Errorf("the old secret after %s: %d", body, status)
		}
	}
	if status, _ := g.tokenFor("acme", third); status != http.StatusOK {
		t.Errorf("the new secret: %d", status)
	}

	_, token = g.tokenFor("acme", third)
	g.must(http.StatusNoContent, "POST", "/oauth/clients/acme/disable", `{}`)
	if status := g.gate(token); status != http.StatusUnauthorized {
		t.Errorf("a disabled client's token: %d", status)
	}
	if status, _ := g.tokenFor("acme", third); status != http.StatusUnauthorized {
		t.Errorf("a disabled client: %d", status)
	}
	g.must(http.StatusNoContent, "POST", "/oauth/clients/acme/enable", `{}`)
	clock.advance(10 * time.Second) // tokens issued earlier stay revoked
	status, again := g.tokenFor("acme", third)
	if status != http.StatusOK || g.gate(again) != http.StatusOK || g.gate(token) != http.StatusUnauthorized {
		t.Errorf("an enabled client: %d, its token: %d, its old token: %d", status, g.gate(again), g.gate(token))
	}

	g.must(http.StatusNoContent, "DELETE", "/oauth/clients/acme", ``)
	if status := g.gate(again); status != http.StatusUnauthorized {
		t.Errorf("a removed client's token: %d", status)
	}
	if status, _ := g.tokenFor("acme", third); status != http.StatusUnauthorized {
		t.Errorf("a removed client: %d", status)
	}
	g.must(http.StatusNotFound, "GET", "/oauth/clients/acme", ``)
	g.must(http.StatusConflict, "POST", "/oauth/clients", `{"id":"acme","name":"The next Acme"}`)
	g.upstream.seen()
}

// TestG99DeclaredClients checks that declared clients are listed and refuse every change.
func TestG99DeclaredClients(t *testing.T) {
	g := startGatehouse(t, site)
	var clients []clientView
	if err := json.Unmarshal([]byte(g.must(http.StatusOK, "GET", "/oauth/clients", ``)), &clients); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, c := range clients {
		ids = append(ids, c.ID)
		if c.Source != "config" {
			t.Errorf("%s has the source %s", c.ID, c.Source)
		}
	}
	if want := []string{"conf", "legacy", "other", "pub"}; !slices.Equal(ids, want) {
		t.Errorf("listed %q, want %q", ids, want)
	}
	for _, change := range [][3]string{
		{"POST", "/oauth/clients/conf/rotate-secret", `{"overlap":"1h"}`},
		{"POST", "/oauth/clients/conf/disable", `{}`},
		{"POST", "/oauth/clients/conf/enable", `{}`},
		{"DELETE", "/oauth/clients/conf", ``},
	} {
		answer := g.must(http.StatusConflict, change[0], change[1], change[2])
		if want := `{"error":"it is declared in the configuration: change it there"}`; answer != want {
			t.Errorf("%s %s: %s", change[0], change[1], answer)
		}
	}
	g.must(http.StatusConflict, "POST", "/oauth/clients", `{"id":"conf","name":"Mine"}`)
	if status, token := g.tokenFor("conf", confSecret); status != http.StatusOK || g.gate(token) != http.StatusOK {
		t.Errorf("the declared client: %d", status)
	}
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
		{asJSON, "POST", "/oauth/clients/conf", `{}`, 405, "GET, PATCH, DELETE"},
		{asJSON, "GET", "/oauth/clients/conf/disable", ``, 405, "POST"},
		{asJSON, "GET", "/oauth/clients/conf/rotate-secret", ``, 405, "POST"},
		{asJSON, "GET", "/oauth/tokens", ``, 405, "POST"},
		{asJSON, "GET", "/oauth/revocations", ``, 405, "POST"},
		{asJSON, "POST", "/oauth/keys", `{}`, 405, "GET"},
		{asJSON, "DELETE", "/oauth/keys", ``, 405, "GET"},
		{"", "POST", "/oauth/clients", `{"name":"x"}`, 415, ""},
		{"text/plain", "POST", "/oauth/clients", `{"name":"x"}`, 415, ""},
		{"application/x-www-form-urlencoded", "POST", "/oauth/clients", `{"name":"x"}`, 415, ""},
		{"multipart/form-data", "POST", "/oauth/tokens", `{}`, 415, ""},
		{asJSON, "POST", "/oauth/clients", ``, 400, ""},
		{asJSON, "POST", "/oauth/clients", `nonsense`, 400, ""},
		{asJSON, "POST", "/oauth/clients", `[]`, 400, ""},
		{asJSON, "POST", "/oauth/clients", `{"name":"x"} {}`, 400, ""},
		{asJSON, "POST", "/oauth/clients", `{"name":"x","name":"y"}`, 400, ""},
		{asJSON, "POST", "/oauth/clients", `{"Name":"x"}`, 400, ""},
		{asJSON, "POST", "/oauth/clients", `{"name":"x","client_secret":"chosen"}`, 400, ""},
		{asJSON, "POST", "/oauth/clients", `{"name":"x","secret":"chosen"}`, 400, ""},
		{asJSON, "POST", "/oauth/clients", `{"name":7}`, 400, ""},
		{asJSON, "POST", "/oauth/clients", `{"name":"x","type":"wide"}`, 400, ""},
		{asJSON, "POST", "/oauth/clients", `{"name":"x","grants":["implicit"]}`, 400, ""},
		{asJSON, "POST", "/oauth/clients", `{"name":"x","scopes":["nothing"]}`, 400, ""},
		{asJSON, "POST", "/oauth/clients", `{"name":"x","redirect_uris":["/x"]}`, 400, ""},
		{asJSON, "POST", "/oauth/clients", `{"name":"x","id":"a\u0000b"}`, 400, ""},
		{asJSON, "POST", "/oauth/clients", `{"name":"` + strings.Repeat("x", 256) + `"}`, 400, ""},
		{asJSON, "POST", "/oauth/clients", `{"name":"` + strings.Repeat("x", 64<<10) + `"}`, 413, ""},
		{asJSON, "POST", "/oauth/clients/conf/rotate-secret", `{"overlap":"soon"}`, 400, ""},
		{asJSON, "POST", "/oauth/tokens", `{}`, 404, ""},
		{asJSON, "POST", "/oauth/tokens", `{"client":"nobody"}`, 404, ""},
		{asJSON, "POST", "/oauth/tokens", `{"client":"conf","scope":"trusted"}`, 400, ""},
		{asJSON, "POST", "/oauth/tokens", `{"client":"conf","scope":"nothing"}`, 400, ""},
		{asJSON, "POST", "/oauth/tokens", `{"client":"conf","lifetime":"36d"}`, 400, ""},
		{asJSON, "POST", "/oauth/tokens", `{"client":"conf","lifetime":"-1h"}`, 400, ""},
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

// TestG99NothingSecretIsShown checks that a secret occurs in exactly one answer. Neither the secret nor its digest occurs anywhere else,
// including logs.
func TestG99NothingSecretIsShown(t *testing.T) {
	g := startGatehouse(t, durableSite)
	added := g.must(http.StatusCreated, "POST", "/oauth/clients", `{"id":"acme","name":"Acme"}`)
	rotated := g.must(http.StatusOK, "POST", "/oauth/clients/acme/rotate-secret", `{"overlap":"1h"}`)
	minted := g.must(http.StatusCreated, "POST", "/oauth/tokens", `{"client":"acme"}`)
	secrets := []string{
		member(t, added, "client_secret"), member(t, rotated, "client_secret"), member(t, minted, "access_token"), confSecret,
	}
	if slices.Contains(secrets, "") {
		t.Fatalf("a secret is missing in %q", secrets)
	}
	token := g.token()
	g.gate(token)
	g.must(http.StatusOK, "POST", "/oauth/tokens/explain", fmt.Sprintf(`{"token":%q}`, token))
	secrets = append(secrets, token)

	shown := g.logs()
	for _, path := range []string{"/oauth/clients", "/oauth/clients/acme", "/oauth/clients/conf", "/oauth/keys"} {
		shown += g.must(http.StatusOK, "GET", path, ``)
	}
	for _, secret := range secrets {
		digest := oauth.NewSecret(secret).Digest()
		for _, form := range []string{secret, fmt.Sprintf("%x", digest), fmt.Sprintf("%X", digest), b64(digest[:])} {
			if at := strings.Index(shown, form); at >= 0 {
				t.Errorf("%s is shown in …%s…", form, shown[max(0, at-200):at+len(form)])
			}
		}
	}
}

// TestG99AfterAnInvalidReload checks that the old configuration and its admin API keep running.
func TestG99AfterAnInvalidReload(t *testing.T) {
	g := startGatehouse(t, site)
	g.must(http.StatusCreated, "POST", "/oauth/clients", `{"id":"acme","name":"Acme"}`)
	app := g.app()
	for name, broken := range map[string]string{
		"provision": strings.Replace(site, "protect trusted", "protect nothing", 1),
		"start":     strings.Replace(site, "store memory", "store sqlite LOG/oauth.db", 1), // LOG is a file
	} {
		if err := g.tryReload(broken); err == nil {
			t.Fatalf("%s: a broken configuration was loaded", name)
		}
		if g.app() != app {
			t.Errorf("%s: another app is the running one", name)
		}
		g.must(http.StatusOK, "GET", "/oauth/clients/acme", ``)
		if status := g.gate(g.token()); status != http.StatusOK {
			t.Errorf("%s: the gate answers %d", name, status)
		}
	}
}

// TestG99WithoutAnIssuer checks that the routes exist in every Caddy with this plugin and explain why they cannot do anything.
func TestG99WithoutAnIssuer(t *testing.T) {
	g := startGatehouse(t, "{\n\tadmin ADMIN\n}\nhttp://ADDR {\n\trespond hello\n}\n")
	answer := g.must(http.StatusServiceUnavailable, "GET", "/oauth/clients", ``)
	if !strings.Contains(answer, "no oauth app is running") {
		t.Error(answer)
	}
}

// TestG99Revocations checks that each kind revokes the tokens that it names, at once, and no others.
func TestG99Revocations(t *testing.T) {
	g := startGatehouse(t, site)
	user := func(id, family string) string {
		return g.issue(issuer.Grant{
			Type: oauth.AuthorizationCode, User: &store.User{ID: id, Organisation: "acme", Role: "member"},
			Family: &store.TokenFamily{ID: family}, Scopes: oauth.Scopes{"public"},
		})
	}
	ada, bob := user("u-ada", "f-ada"), user("u-bob", "f-bob")
	carol, dan := user("u-carol", "f-carol"), user("u-dan", "f-dan")
	server, other := g.token(), g.must(http.StatusCreated, "POST", "/oauth/tokens", `{"client":"other"}`)
	id := member(t, other, "jti")
	accepted := func(want map[string]int) {
		t.Helper()
		for token, status := range want {
			if got := g.gate(token); got != status {
				t.Errorf("the gate answers %d, want %d", got, status)
			}
		}
	}
	other = member(t, other, "access_token")
	accepted(map[string]int{ada: 200, bob: 200, carol: 200, dan: 200, server: 200, other: 200})
	g.must(http.StatusNoContent, "POST", "/oauth/revocations", `{"user":"u-ada","force":true}`) // another node may have declared her
	accepted(map[string]int{ada: 401, bob: 200, carol: 200, dan: 200, server: 200, other: 200})
	g.must(http.StatusNoContent, "POST", "/oauth/revocations", `{"family":"f-bob"}`)
	accepted(map[string]int{ada: 401, bob: 401, carol: 200, dan: 200, server: 200, other: 200})
	g.must(http.StatusNoContent, "POST", "/oauth/revocations", `{"jti":"`+id+`"}`)
	accepted(map[string]int{ada: 401, bob: 401, carol: 200, dan: 200, server: 200, other: 401})
	g.must(http.StatusNoContent, "POST", "/oauth/revocations", `{"client":"conf"}`)
	accepted(map[string]int{ada: 401, bob: 401, carol: 401, dan: 401, server: 401, other: 401})
}
