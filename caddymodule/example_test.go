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

// TestExampleServes sends what the README sends: a token request, a call without a token, a call with one. The example
// runs as it is, but for its ports.
func TestExampleServes(t *testing.T) {
	text := readExample(t)
	client := demoClient.FindStringSubmatch(text)
	if client == nil {
		t.Fatal("the example declares no client")
	}
	site, upstream := freeAddr(t), freeAddr(t)
	port := func(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }
	text = strings.NewReplacer("8080", port(site), "8081", port(upstream)).Replace(text)
	g := startGatehouse(t, strings.Replace(text, "{\n", "{\n\tadmin ADMIN\n", 1))
	g.url = "http://localhost:" + port(site)

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
	if want := "GET /orders/1 from subject=demo client=demo scope=public\n"; status != http.StatusOK || body != want {
		t.Errorf("with a token: %d %q, want %q", status, body, want)
	}
	status, _, body = g.do(http.MethodGet, "/status", "", "X-Auth-Subject", "admin")
	if want := "GET /status from subject= client= scope=\n"; status != http.StatusOK || body != want {
		t.Errorf("the open route: %d %q, want %q", status, body, want)
	}
	for path, want := range map[string]int{"/": 404, "/other": 404, "/oauth/nothing": 404, "/.well-known/oauth-authorization-server": 200} {
		if status, _, body := g.get(path, ""); status != want {
			t.Errorf("%s: %d %s, want %d", path, status, body, want)
		}
	}
}
