package pages

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/words"
)

// everyLink is one link of each kind.
var everyLink = []Link{{"help", "https://help.example/"}, {"privacy", "https://acme.example/privacy"}, {"imprint", "mailto:legal@acme.example"}}

// hebrew returns catalogues with one more, which is written from right to left, and whose texts are made of the English ones.
func hebrew(t testing.TB, text func(key, english string) string) *words.Catalogues {
	t.Helper()
	shipped, err := words.Load("")
	if err != nil {
		t.Fatal(err)
	}
	_, catalogue := shipped.In("en")
	catalogue = maps.Clone(catalogue)
	for key, english := range catalogue {
		catalogue[key] = text(key, english)
	}
	catalogue["language.direction"] = "rtl"
	content, err := json.Marshal(catalogue)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "he.json"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := words.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestEveryWordComesFromTheTexts renders every page in a language whose texts are their own keys. Any other text on a page cannot be
// translated. A key that is on no page is unused.
func TestEveryWordComesFromTheTexts(t *testing.T) {
	placeholder := regexp.MustCompile(`\{[a-z]*\}`)
	all := hebrew(t, func(key, english string) string {
		return "⟦" + key + "⟧" + strings.Join(placeholder.FindAllString(english, -1), "")
	})
	p := open(t, Settings{Name: "«brand»", Links: everyLink, Words: all})
	_, keys := p.In("he")
	known := regexp.MustCompile(`⟦([^⟧]*)⟧|«[^»]*»|[0-9:]+`)
	seen := make(map[string]bool)
	for name, page := range everyWord() {
		root, err := html.Parse(strings.NewReader(render(t, p, "he", page)))
		if err != nil {
			t.Fatal(err)
		}
		for n := range root.Descendants() {
			words := n.Data
			if n.Type == html.ElementNode && n.Data == "html" {
				words, _ = attr(n, "dir")
			} else if n.Type != html.TextNode || n.Parent.Data == "style" || n.Parent.Data == "script" {
				continue
			}
			for _, match := range known.FindAllStringSubmatch(words, -1) {
				seen[match[1]] = true
			}
			if rest := strings.TrimSpace(known.ReplaceAllString(words, "")); rest != "" && rest != "rtl" {
				t.Errorf("%s: %q is in no text", name, rest)
			}
		}
	}
	for key := range keys {
		if !seen[key] && key != "language.direction" && !strings.HasPrefix(key, "mail.") && !strings.HasPrefix(key, "console.") { // their packages test those
			t.Errorf("no page says %q", key)
		}
	}
}

// everyWord returns every page with every sentence that it can have.
func everyWord() map[string]Page {
	all := states(func(field string) string { return "«" + field + "»" })
	account := all["account"].(Account)
	account.Applications = slices.Clone(account.Applications)
	account.Applications[1].Name = "«new»"
	all["account"] = account
	all["account without sign-out"] = Account{Form: account.Form, User: "«user»", Email: "«email»"}
	for month := range 12 {
		since := time.Date(2026, time.Month(month+1), 1, 0, 0, 0, 0, time.UTC)
		all[fmt.Sprint("account in month ", month)] = Account{Applications: []Application{{Name: "«name»", Since: since}}}
	}
	for _, wait := range []time.Duration{0, 30 * time.Second, time.Minute, time.Hour / 2, time.Hour, 5 * time.Hour} {
		all["problem for "+wait.String()] = Problem{Code: Throttled, RetryAfter: wait}
	}
	return all
}
