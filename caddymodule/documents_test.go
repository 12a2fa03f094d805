package caddymodule

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// whole is a Caddyfile in a document that begins with its global options.
var whole = regexp.MustCompile("(?ms)^```caddyfile\n(\\{\n.*?)^```$")

// TestDocumentedCaddyfiles: what the documents tell people to write is formatted, and Caddy takes it.
func TestDocumentedCaddyfiles(t *testing.T) {
	emptyHome(t)
	key := filepath.Join(t.TempDir(), "kek")
	if err := os.WriteFile(key, []byte(strings.Repeat("ab", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BILLING_SECRET", confSecret)
	t.Setenv("PORTAL_SECRET", confSecret)
	t.Setenv("PARTNER_SECRET", confSecret)
	t.Setenv("SHOP_SECRET", confSecret)
	t.Setenv("GATEHOUSE_DSN", "postgres://gatehouse@127.0.0.1/gatehouse")
	found := 0
	for _, document := range []string{"../README.md", "../docs/deploy.md", "../docs/configuration.md", "../docs/operations.md", "../docs/other-proxies.md", "../docs/trust.md", "../docs/migration-doorkeeper.md"} {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range whole.FindAllStringSubmatch(string(text), -1) {
			found++
			if formatted := string(caddyfile.Format([]byte(block[1]))); formatted != block[1] {
				t.Errorf("%s: format this:\n%s", document, block[1])
			}
			config := strings.NewReplacer("/run/secrets/kek", key).Replace(block[1])
			if err := validate(t, config); err != nil {
				t.Errorf("%s: %v in\n%s", document, err, block[1])
			}
		}
	}
	if found < 3 {
		t.Errorf("only %d Caddyfiles were found: is the pattern still right?", found)
	}
}
