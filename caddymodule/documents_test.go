package caddymodule

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// whole matches a Caddyfile in a document that begins with its global options.
var whole = regexp.MustCompile("(?ms)^```caddyfile\n(\\{\n.*?)^```$")

// TestDocumentedCaddyfiles checks that the Caddyfiles of the documents are formatted and that Caddy accepts them.
func TestDocumentedCaddyfiles(t *testing.T) {
	emptyHome(t)
	key := filepath.Join(t.TempDir(), "kek")
	check(t, os.WriteFile(key, []byte(strings.Repeat("ab", 32)), 0o600))
	t.Setenv("BILLING_SECRET", confSecret)
	t.Setenv("PORTAL_SECRET", confSecret)
	t.Setenv("PARTNER_SECRET", confSecret)
	t.Setenv("SHOP_SECRET", confSecret)
	for _, provider := range []string{"GOOGLE", "ENTRA", "KEYCLOAK", "GITHUB"} {
		t.Setenv(provider+"_SECRET", confSecret)
	}
	t.Setenv("ADA_HASH", peopleHash())
	t.Setenv("BEN_HASH", peopleHash())
	t.Setenv("GATEHOUSE_DSN", "postgres://gatehouse@127.0.0.1/gatehouse")
	found := 0
	for _, document := range []string{"../README.md", "../docs/configuration.md", "../docs/operations.md", "../docs/other-proxies.md", "../docs/trust.md", "../docs/migration-doorkeeper.md", "../docs/guides/README.md", "../docs/guides/sign-in-with.md"} {
		text, err := os.ReadFile(document)
		check(t, err)
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

var (
	fenced      = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	heading     = regexp.MustCompile(`(?m)^#+ (.*)$`)
	pageLink    = regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]*))?\)`)
	notInAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestDocumentedLinks checks that each link between pages leads to an existing file and heading.
func TestDocumentedLinks(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	check(t, err)
	texts, anchors := map[string]string{}, map[string]bool{}
	guides, err := filepath.Glob("../docs/guides/*.md")
	check(t, err)
	for _, path := range append(slices.Concat(pages, guides), "../README.md", "../CONTRIBUTING.md", "../SECURITY.md") {
		text, err := os.ReadFile(path)
		check(t, err)
		texts[path] = fenced.ReplaceAllString(string(text), "")
		for _, h := range heading.FindAllStringSubmatch(texts[path], -1) {
			anchors[path+"#"+strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-")] = true
		}
	}
	for path, text := range texts {
		for _, link := range pageLink.FindAllStringSubmatch(text, -1) {
			target := path
			if link[1] != "" {
				target = filepath.Join(filepath.Dir(path), link[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", path, link[0], err)
			}
			if link[2] != "" && !anchors[target+"#"+link[2]] {
				t.Errorf("%s links to %s: there is no such heading", path, link[0])
			}
		}
	}
}

var tableRule = regexp.MustCompile(`^\|[-: |]+$`)

// TestDocumentedTables checks that each block of rows begins with a header and a rule. An empty line would cut a table in two.
func TestDocumentedTables(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"../*.md", "../docs/*.md", "../docs/*/*.md"} {
		found, err := filepath.Glob(pattern)
		check(t, err)
		pages = append(pages, found...)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		check(t, err)
		lines := append(strings.Split(fenced.ReplaceAllString(string(text), ""), "\n"), "")
		for i, line := range lines[:len(lines)-1] {
			if strings.HasPrefix(line, "|") && (i == 0 || !strings.HasPrefix(lines[i-1], "|")) && !tableRule.MatchString(lines[i+1]) {
				t.Errorf("%s: the table that begins with %q has no header", page, line)
			}
		}
	}
}
