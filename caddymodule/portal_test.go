package caddymodule

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
)

const portalFile = "../examples/portal/Caddyfile"

// hashesWritten matches the password hashes in a Caddyfile.
var hashesWritten = regexp.MustCompile(`\$argon2id\S+`)

// startPortal runs a Caddyfile that users copy, unchanged except for its port.
func startPortal(t *testing.T, text string) *hostsGate {
	t.Helper()
	text = strings.ReplaceAll(text, "8080", "TCPPORT")
	if !strings.Contains(text, "{\n\thttp_port") {
		t.Fatal("no global options: the test runs something else")
	}
	return &hostsGate{startGatehouse(t, strings.Replace(text, "{\n\thttp_port", "{\n\tadmin ADMIN\n\thttp_port", 1))}
}

func (v *visitorOfHosts) sees(host, path, email string, status int, want string) {
	v.t.Helper()
	a, at := v.walk(v.gate.at(host, path), email)
	if a.status != status || !strings.Contains(a.body, want) {
		v.t.Errorf("%s%s of %q: %d at %s: %s", host, path, email, a.status, at, a.body)
	}
}

// TestThePortalExample signs people in as the example's first lines say. walk uses peoplePassword.
func TestThePortalExample(t *testing.T) {
	text, err := os.ReadFile(portalFile)
	check(t, err)
	if formatted := string(caddyfile.Format(text)); formatted != string(text) {
		t.Errorf("run `caddy fmt --overwrite %s`:\n%s", portalFile, formatted)
	}
	hashes := hashesWritten.FindAllString(string(text), -1)
	for _, hash := range hashes {
		if !passwords.Verify(oauth.NewSecret("gatehouse-demo"), oauth.NewSecret(hash)) {
			t.Errorf("%s is of another password than the file says", hash)
		}
	}
	if len(hashes) != 3 {
		t.Errorf("%d people", len(hashes))
	}
	g := startPortal(t, hashesWritten.ReplaceAllLiteralString(string(text), peopleHash()))

	ada := g.visitor(t)
	ada.sees("wiki", "/start?page=1", "ada@acme.example", http.StatusOK, "You are Ada Admin, in engineering")
	ada.sees("billing", "/", "", http.StatusOK, "You are ada@acme.example")
	grace := g.visitor(t)
	grace.sees("wiki", "/", "grace@acme.example", http.StatusOK, "Grace Group")
	grace.sees("billing", "/", "", http.StatusForbidden, "grace@acme.example")
	grace.sees("billing", "/prices", "", http.StatusOK, "free")
	g.visitor(t).sees("wiki", "/", "max@partner.example", http.StatusForbidden, "max@partner.example")
	g.visitor(t).sees("auth", "/", "max@partner.example", http.StatusOK, "max@partner.example")
}
