package caddymodule

import (
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// exampleFile is the Caddyfile for a first try.
const exampleFile = "../Caddyfile.example"

func readExample(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(exampleFile)
	check(t, err)
	return string(text)
}

func TestExampleIsFormatted(t *testing.T) {
	text := readExample(t)
	if formatted := string(caddyfile.Format([]byte(text))); formatted != text {
		t.Errorf("run `caddy fmt --overwrite %s`:\n%s", exampleFile, formatted)
	}
}

// demoClient matches the client of the example with its secret.
var demoClient = regexp.MustCompile(`(?m)^\s*client (\S+) (\S+) \{$`)

// startExample runs the example with other ports. It returns the hosts of the applications and the issuer.
func startExample(t *testing.T) (apps, issuer *gatehouse) {
	t.Helper()
	site, upstream := freeAddr(t), freeAddr(t)
	port := func(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }
	text := strings.NewReplacer("8080", port(site), "8081", port(upstream)).Replace(readExample(t))
	g := startGatehouse(t, strings.Replace(text, "{\n", "{\n\tadmin ADMIN\n", 1))
	at := *g
	at.url, g.url = "http://id.localhost:"+port(site), "http://localhost:"+port(site)
	return g, &at
}

// TestExampleStartsWithAPage checks that the first page links everything that exists, and nothing else, and that the issuer has a page too.
func TestExampleStartsWithAPage(t *testing.T) {
	g, issuer := startExample(t)
	status, header, body := g.get("/", "")
	if status != http.StatusOK || header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("%d %v", status, header)
	}
	want := map[string]int{
		"/app": 200, "/portal": 401, "/orders/17": 401, "/status": 200, issuer.url + "/oauth/account": 303,
		issuer.url + "/.well-known/oauth-authorization-server": 200, issuer.url + "/oauth/jwks": 200,
	}
	links := regexp.MustCompile(`href="([^"]+)"`).FindAllStringSubmatch(body, -1)
	if len(links) != len(want) {
		t.Errorf("%d links: %s", len(links), body)
	}
	for _, link := range links {
		if p := g.browser().open(link[1]); p.status != want[link[1]] {
			t.Errorf("%s: %d, want %d", link[1], p.status, want[link[1]])
		}
	}
	if status, _, body := issuer.get("/", ""); status != http.StatusOK || !strings.Contains(body, `href="/oauth/account"`) {
		t.Errorf("the issuer's page: %d %s", status, body)
	}
}

// TestExampleServes sends the README's requests: a token request, a call without a token, a call with one.
func TestExampleServes(t *testing.T) {
	client := demoClient.FindStringSubmatch(readExample(t))
	if client == nil {
		t.Fatal("the example declares no client")
	}
	g, issuer := startExample(t)
	readme, err := os.ReadFile("../README.md")
	check(t, err)
	challenge := regexp.MustCompile(`(?m)^Www-Authenticate: (.*)$`).FindStringSubmatch(string(readme))[1]
	_, port, _ := strings.Cut(strings.TrimPrefix(g.url, "http://"), ":")
	if status, header, body := g.get("/orders/17", ""); status != http.StatusUnauthorized || header.Get("Www-Authenticate") != strings.ReplaceAll(challenge, "8080", port) {
		t.Errorf("without a token: %d %s %s", status, header.Get("Www-Authenticate"), body)
	}
	status, _, body := issuer.post("/oauth/token", url.Values{
		"grant_type": {"client_credentials"}, "client_id": {client[1]}, "client_secret": {client[2]},
	})
	if status != http.StatusOK {
		t.Fatalf("token: %d %s", status, body)
	}
	status, _, body = g.get("/orders/1", member(t, body, "access_token"))
	if want := "GET /orders/1 from subject=demo client=demo role= scope=public\n"; status != http.StatusOK || body != want {
		t.Errorf("with a token: %d %q, want %q", status, body, want)
	}
	status, _, body = g.do(http.MethodGet, "/status", "", "X-Auth-Subject", "admin")
	if want := "GET /status from subject= client= role= scope=\n"; status != http.StatusOK || body != want {
		t.Errorf("the open route: %d %q, want %q", status, body, want)
	}
	for path, want := range map[string]int{"/oauth/nothing": 404, "/.well-known/oauth-authorization-server": 200} {
		if status, _, body := issuer.get(path, ""); status != want {
			t.Errorf("%s: %d %s, want %d", path, status, body, want)
		}
	}
}

// examplePassword matches the password of the example's users.
var examplePassword = regexp.MustCompile(`The password of each is ([a-z-]+);`)

// TestExampleSignsPeopleIn clicks through the example's pages: a page that requires a user, the browser application with its consent, and
// an admin who obtains a token for a manager.
func TestExampleSignsPeopleIn(t *testing.T) {
	found := examplePassword.FindStringSubmatch(readExample(t))
	if found == nil {
		t.Fatal("the example does not say the password")
	}
	password := found[1]
	g, issuer := startExample(t)

	b := g.browser()
	p := b.fetch(http.MethodGet, "/portal", "", "Accept", "text/html", "Sec-Fetch-Mode", "navigate")
	if p.status != http.StatusSeeOther {
		t.Fatalf("the portal: %d %s", p.status, p.body)
	}
	b.gatehouse = issuer
	p = b.signIn(b.open(p.header.Get("Location")), "grace@acme.example", password)
	b.gatehouse = g
	p = b.open(p.header.Get("Location")) // the callback of the host
	if want := g.url + "/portal"; p.header.Get("Location") != want {
		t.Fatalf("after signing in: %d %q, want %q", p.status, p.header.Get("Location"), want)
	}
	p = b.open("/portal")
	if want := "GET /portal from subject=u-grace client=gatehouse role=group_manager scope="; !strings.HasPrefix(p.body, want) {
		t.Errorf("the portal says %d %q, want %q…", p.status, p.body, want)
	}

	if app := b.open("/app"); app.status != http.StatusOK || !strings.Contains(app.body, "Connect your Acme account") {
		t.Errorf("the application: %d %s", app.status, app.body)
	}
	r := request{clientID: "notes", redirectURI: g.url + "/app", scope: "trusted public", state: "s", verifier: strings.Repeat("v", 43)}
	b.gatehouse = issuer
	p = b.open(r.path())
	if !strings.Contains(p.body, "Acme Notes") || !strings.Contains(p.body, "grace@acme.example") {
		t.Fatalf("the consent page: %d %s", p.status, p.body)
	}
	got := issuer.obtain(r.exchange(b.decide(p, "allow").location().Query().Get("code")))
	_, _, body := g.get("/orders/17", got.AccessToken)
	if want := "GET /orders/17 from subject=u-grace client=notes role=group_manager scope=trusted public\n"; body != want {
		t.Errorf("the application's call: %q, want %q", body, want)
	}

	admin := issuer.obtain(url.Values{
		"grant_type": {"password"}, "email": {"ada@acme.example"}, "password": {password}, "scope": {"trusted"},
	})
	status, _, body := issuer.do(http.MethodPost, "/api/v1/organisations/me/users/u-ben/access_tokens",
		`{"data":{"id":"u-ben","type":"users"}}`, "Content-Type", "application/vnd.api+json", "Authorization", "Bearer "+admin.AccessToken)
	if status != http.StatusCreated {
		t.Fatalf("a token for a member: %d %s", status, body)
	}
	minted := member(t, body, "access_token")
	if status, _, body = g.get("/portal", minted); status != http.StatusOK || !strings.Contains(body, "subject=u-ben") {
		t.Errorf("the member's token at the portal: %d %s", status, body)
	}
}
