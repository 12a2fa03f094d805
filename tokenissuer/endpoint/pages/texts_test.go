package pages

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
)

var placeholder = regexp.MustCompile(`\{[a-z]*\}`)

func TestLanguagesHaveTheSameTexts(t *testing.T) {
	p := open(t, Brand{})
	if len(p.texts) < 2 {
		t.Fatalf("%d languages", len(p.texts))
	}
	first := p.texts[defaultLanguage]
	for lang, words := range p.texts {
		if got, want := slices.Sorted(maps.Keys(words)), slices.Sorted(maps.Keys(first)); !slices.Equal(got, want) {
			t.Errorf("%s has the keys %q, %s has %q", lang, got, defaultLanguage, want)
		}
		for key, text := range words {
			got, want := placeholder.FindAllString(text, -1), placeholder.FindAllString(first[key], -1)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%s in %s has the placeholders %q, want %q", key, lang, got, want)
			}
			if rest := placeholder.ReplaceAllString(text, ""); strings.TrimSpace(text) != text || text == "" || strings.ContainsAny(rest, "{}<>&") {
				t.Errorf("%s in %s is %q", key, lang, text)
			}
		}
	}
}

// TestEveryWordComesFromTheTexts renders every page in a language whose texts are their own keys. Any other text on a page cannot be
// translated. A key that is on no page is unused.
func TestEveryWordComesFromTheTexts(t *testing.T) {
	p := open(t, Brand{Name: "«brand»"})
	keys := make(texts)
	for key, words := range p.texts[defaultLanguage] {
		keys[key] = "⟦" + key + "⟧" + strings.Join(placeholder.FindAllString(words, -1), "")
	}
	p.texts["und"] = keys
	known := regexp.MustCompile(`⟦([^⟧]*)⟧|«[^»]*»|[0-9:]+`)
	seen := make(map[string]bool)
	for name, page := range everyWord() {
		root, err := html.Parse(strings.NewReader(render(t, p, "und", page)))
		if err != nil {
			t.Fatal(err)
		}
		for n := range root.Descendants() {
			words := n.Data
			if n.Type == html.ElementNode {
				words, _ = attr(n, "dir")
			} else if n.Type != html.TextNode || n.Parent.Data == "style" || n.Parent.Data == "script" {
				continue
			}
			for _, match := range known.FindAllStringSubmatch(words, -1) {
				seen[match[1]] = true
			}
			if rest := strings.TrimSpace(known.ReplaceAllString(words, "")); rest != "" && rest != "ltr" {
				t.Errorf("%s: %q is in no text", name, rest)
			}
		}
	}
	for key := range keys {
		if !seen[key] {
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

func TestRetryIsNeverTooEarly(t *testing.T) {
	p := open(t, Brand{})
	for _, test := range []struct {
		after           time.Duration
		english, german string
	}{
		{-time.Hour, "in a moment", "gleich"},
		{0, "in a moment", "gleich"},
		{4 * time.Second, "in a moment", "gleich"},
		{4*time.Second + 1, "in 5 seconds", "in 5 Sekunden"},
		{59 * time.Second, "in 59 seconds", "in 59 Sekunden"},
		{59*time.Second + 1, "in 1 minute", "in einer Minute"},
		{time.Minute, "in 1 minute", "in einer Minute"},
		{time.Minute + 1, "in 2 minutes", "in 2 Minuten"},
		{2 * time.Minute, "in 2 minutes", "in 2 Minuten"},
		{59 * time.Minute, "in 59 minutes", "in 59 Minuten"},
		{59*time.Minute + 1, "in 1 hour", "in einer Stunde"},
		{time.Hour, "in 1 hour", "in einer Stunde"},
		{time.Hour + 1, "in 2 hours", "in 2 Stunden"},
		{1<<63 - 1, "in 2562048 hours", "in 2562048 Stunden"},
	} {
		t.Run(test.after.String(), func(t *testing.T) {
			if got, want := p.texts["en"].Retry(test.after), "Try again "+test.english+"."; got != want {
				t.Errorf("%q, want %q", got, want)
			}
			if got, want := p.texts["de"].Retry(test.after), "Versuchen Sie es "+test.german+" noch einmal."; got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// TestDatesAreInUTC: dates are in UTC, whatever the time zone of a value.
func TestDatesAreInUTC(t *testing.T) {
	p := open(t, Brand{})
	at := time.Date(2026, time.December, 31, 23, 30, 0, 0, time.FixedZone("west", -3600))
	for lang, want := range map[Language]string{"en": "1 January 2027 at 00:30 UTC", "de": "1. Januar 2027 um 00:30 Uhr (UTC)"} {
		got := view{texts: p.texts[lang]}.Moment(at)
		if got.words != want || got.iso != "2027-01-01T00:30:00Z" {
			t.Errorf("%+v, want %q", got, want)
		}
	}
}
