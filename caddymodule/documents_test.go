package caddymodule

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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
	for _, provider := range []string{"GOOGLE", "ENTRA", "KEYCLOAK", "GITHUB"} {
		t.Setenv(provider+"_SECRET", confSecret)
	}
	t.Setenv("ADA_HASH", peopleHash())
	t.Setenv("BEN_HASH", peopleHash())
	t.Setenv("GATEHOUSE_DSN", "postgres://gatehouse@127.0.0.1/gatehouse")
	found := 0
	for _, document := range []string{"../README.md", "../docs/configuration.md", "../docs/operations.md", "../docs/other-proxies.md", "../docs/trust.md", "../docs/migration-doorkeeper.md", "../docs/guides/README.md", "../docs/guides/sign-in-with.md"} {
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

// A row of the catalogue, the rows that a test is named for (TestT29…, TestA28A29…, TestA47ToA51…, TestT29To33…), and the names in
// a line of a test: of its function, or of a case ("T35 quote").
var (
	catalogueRow = regexp.MustCompile(`(?m)^\| (TM|[TAMGKFSPQV])(\d+) \|`)
	rowsInName   = regexp.MustCompile(`(TM|[TAMGKFSPQV])(\d+)(?:To(?:TM|[TAMGKFSPQV])?(\d+))?`)
	testNames    = regexp.MustCompile(`(?m)^func (?:Test|Fuzz)\w+|"(?:TM|[TAMGKFSPQV])\d[^"\n]*"`)
)

// TestEveryRowHasATest: docs/threats.md promises it.
func TestEveryRowHasATest(t *testing.T) {
	tested := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") && filepath.Base(filepath.Dir(path)) != "storetest" {
			return err
		}
		source, err := os.ReadFile(path)
		for _, name := range testNames.FindAllString(string(source), -1) {
			name = strings.ReplaceAll(name, "HTTP2", "") // which names no row
			for _, row := range rowsInName.FindAllStringSubmatch(name, -1) {
				first, _ := strconv.Atoi(row[2])
				last := first
				if row[3] != "" {
					last, _ = strconv.Atoi(row[3])
				}
				for n := first; n <= last; n++ {
					tested[row[1]+strconv.Itoa(n)] = true
				}
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/threats.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := catalogueRow.FindAllStringSubmatch(string(page), -1)
	if len(rows) < 400 {
		t.Errorf("only %d rows were found: is the pattern still right?", len(rows))
	}
	for _, row := range rows {
		if name := row[1] + row[2]; !tested[name] {
			t.Errorf("no test is named for row %s", name)
		}
	}
}

var (
	fenced      = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	heading     = regexp.MustCompile(`(?m)^#+ (.*)$`)
	pageLink    = regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]*))?\)`)
	notInAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestDocumentedLinks: each link from one page to another leads to a file and a heading that exist.
func TestDocumentedLinks(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	texts, anchors := map[string]string{}, map[string]bool{}
	guides, err := filepath.Glob("../docs/guides/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(slices.Concat(pages, guides), "../README.md", "../CONTRIBUTING.md", "../SECURITY.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
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

// TestDocumentedTables: each block of rows begins with a header and a rule, so that no empty line has cut a table in two.
func TestDocumentedTables(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"../*.md", "../docs/*.md", "../docs/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		lines := append(strings.Split(fenced.ReplaceAllString(string(text), ""), "\n"), "")
		for i, line := range lines[:len(lines)-1] {
			if strings.HasPrefix(line, "|") && (i == 0 || !strings.HasPrefix(lines[i-1], "|")) && !tableRule.MatchString(lines[i+1]) {
				t.Errorf("%s: the table that begins with %q has no header", page, line)
			}
		}
	}
}
