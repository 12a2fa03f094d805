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

// exampleFile is what a newcomer runs.
const exampleFile = "../Caddyfile.example"

func readExample(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestExampleIsFormatted(t *testing.T) {
	text := readExample(t)
	if formatted := string(caddyfile.Format([]byte(text))); formatted != text {
		t.Errorf("run `caddy fmt --overwrite %s`:\n%s", exampleFile, formatted)
	}
}

func TestExampleValidates(t *testing.T) {
	emptyHome(t)
	if err := validate(t, readExample(t)); err != nil {
		t.Error(err)
	}
}

// demoClient is the client of the example with its secret.
var demoClient = regexp.MustCompile(`(?m)^\s*client (\S+) (\S+) \{$`)

// startExample runs the example as it is, but for its ports.
func startExample(t *testing.T) *gatehouse {
	t.Helper()
	site, upstream := freeAddr(t), freeAddr(t)
	port := func(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }
	text := strings.NewReplacer("8080", port(site), "8081", port(upstream)).Replace(readExample(t))
	g := startGatehouse(t, strings.Replace(text, "{\n", "{\n\tadmin ADMIN\n", 1))
	g.url = "http://localhost:" + port(site)
	return g
}

// TestExampleStartsWithAPage that links what there is, and nothing else.
func TestExampleStartsWithAPage(t *testing.T) {
	g := startExample(t)
	status, header, body := g.get("/", "")
	if status != http.StatusOK || header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("%d %v", status, header)
	}
	want := map[string]int{
		"/app": 200, "/portal": 401, "/oauth/account": 303, "/orders/17": 401, "/status": 200, "/.well-known/oauth-authorization-server": 200, "/oauth/jwks": 200,
	}
	links := regexp.MustCompile(`href="([^"]+)"`).FindAllStringSubmatch(body, -1)
	if len(links) != len(want) {
		t.Errorf("%d links: %s", len(links), body)
	}
	browser := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, link := range links {
		response, err := browser.Get(g.url + link[1])
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want[link[1]] {
			t.Errorf("%s: %d, want %d", link[1], response.StatusCode, want[link[1]])
		}
	}
}

// TestExampleServes sends what the README sends: a token request, a call without a token, a call with one.
func TestExampleServes(t *testing.T) {
	client := demoClient.FindStringSubmatch(readExample(t))
	if client == nil {
		t.Fatal("the example declares no client")
	}
	g := startExample(t)
	if status, _, body := g.get("/orders/1", ""); status != http.StatusUnauthorized {
		t.Errorf("without a token: %d %s", status, body)
	}
	status, _, body := g.post("/oauth/token", url.Values{
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
	for path, want := range map[string]int{"/other": 404, "/index.html": 404, "/oauth/nothing": 404, "/.well-known/oauth-authorization-server": 200} {
		if status, _, body := g.get(path, ""); status != want {
			t.Errorf("%s: %d %s, want %d", path, status, body, want)
		}
	}
}

// examplePassword is what the example says of its people.
var examplePassword = regexp.MustCompile(`The password of each is ([a-z-]+);`)

// TestExampleSignsPeopleIn clicks through what a newcomer sees: a page that needs a person, the browser application with
// its consent, and an admin who obtains a token for a manager.
func TestExampleSignsPeopleIn(t *testing.T) {
	found := examplePassword.FindStringSubmatch(readExample(t))
	if found == nil {
		t.Fatal("the example does not say the password")
	}
	password := found[1]
	g := startExample(t)

	b := g.browser()
	p := b.fetch(http.MethodGet, "/portal", "", "Accept", "text/html", "Sec-Fetch-Mode", "navigate")
	if p.status != http.StatusSeeOther {
		t.Fatalf("the portal: %d %s", p.status, p.body)
	}
	p = b.signIn(b.open(p.header.Get("Location")), "grace@acme.example", password)
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
	p = b.open(r.path())
	if !strings.Contains(p.body, "Acme Notes") || !strings.Contains(p.body, "grace@acme.example") {
		t.Fatalf("the consent page: %d %s", p.status, p.body)
	}
	got := g.obtain(r.exchange(b.decide(p, "allow").location().Query().Get("code")))
	_, _, body := g.get("/orders/17", got.AccessToken)
	if want := "GET /orders/17 from subject=u-grace client=notes role=group_manager scope=trusted public\n"; body != want {
		t.Errorf("the application's call: %q, want %q", body, want)
	}

	admin := g.obtain(url.Values{
		"grant_type": {"password"}, "email": {"ada@acme.example"}, "password": {password}, "scope": {"trusted"},
	})
	status, _, body := g.do(http.MethodPost, "/api/v1/organisations/me/users/u-ben/access_tokens",
		`{"data":{"id":"u-ben","type":"users"}}`, "Content-Type", "application/vnd.api+json", "Authorization", "Bearer "+admin.AccessToken)
	if status != http.StatusCreated {
		t.Fatalf("a token for a member: %d %s", status, body)
	}
	minted := member(t, body, "access_token")
	if status, _, body = g.get("/portal", minted); status != http.StatusOK || !strings.Contains(body, "subject=u-ben") {
		t.Errorf("the member's token at the portal: %d %s", status, body)
	}
}
