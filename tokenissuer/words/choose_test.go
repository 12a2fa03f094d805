package words

import (
	"slices"
	"strings"
	"testing"
)

func TestLanguageIsTheReaders(t *testing.T) {
	p := open(t)
	for _, test := range []struct {
		name, locales string
		accept        []string
		want          Language
	}{
		{"nothing", "", nil, "en"},
		{"header", "", []string{"de"}, "de"},
		{"region", "", []string{"de-AT,de;q=0.9,en;q=0.8"}, "de"},
		{"close enough", "gsw", nil, "de"},
		{"weights", "", []string{"de;q=0.5, en;q=0.7"}, "en"},
		{"weights out of order", "", []string{"en;q=0.5, de;q=0.7"}, "de"},
		{"not at any price", "", []string{"de;q=0"}, "en"},
		{"first one that there is", "", []string{"it, pl;q=0.9, de;q=0.8, en;q=0.7"}, "de"},
		{"two headers", "", []string{"it", "de;q=0.5"}, "de"},
		{"anything", "", []string{"*"}, "en"},
		{"none that there is", "it-CH pl", []string{"da"}, "en"},
		{"the shorter range of RFC 4647 §3.4", "fr-CA-x-quebec", nil, "fr"},
		{"a wider region", "", []string{"es-MX, en;q=0.9"}, "es"},
		{"the application first", "de en", []string{"en"}, "de"},
		{"the application in order", "it en de", []string{"de"}, "en"},
		{"the browser when the application has none", "it", []string{"de"}, "de"},
		{"case", "DE-de", nil, "de"},
		{"underscore", "de_CH", nil, "de"},
		{"one bad item", "", []string{"???, xx-yyyyy;q=1, de;q=0.3"}, "de"},
		{"one bad locale", "\x00 -- de", nil, "de"},
		{"bad weight", "", []string{"de;q=much"}, "en"},
		{"markup", `"><script>`, []string{"<de>"}, "en"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := p.Language(test.locales, test.accept); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// TestU7ALanguagePreferenceIsBounded: an Accept-Language or ui_locales of megabytes, or of a thousand ranges → a language of the first
// twenty, with at most 200 allocations.
func TestU7ALanguagePreferenceIsBounded(t *testing.T) {
	p := open(t)
	for _, test := range []struct {
		name, locales string
		accept        []string
		want          Language
	}{
		{"too many", strings.Repeat("it ", maxTags) + "de", nil, "en"},
		{"just enough", strings.Repeat("it ", maxTags-1) + "de", nil, "de"},
		{"long", "de-x" + strings.Repeat("-abcdefg", 7), nil, "de"},
		{"too long", "de-x" + strings.Repeat("-abcdefg", 8), nil, "en"},
		{"megabytes", strings.Repeat("de-", 1<<20), []string{strings.Repeat("-", 1<<20) + ",de"}, "de"},
		{"many headers", "", slices.Repeat([]string{"a-" + strings.Repeat("b-", 1<<16)}, 50), "en"},
		{"a thousand ranges", "", []string{strings.Repeat("it;q=0.9, ", 1000) + "de"}, "en"},
		{"a thousand ranges, the best first", "", []string{"de" + strings.Repeat(", en;q=0.9", 1000)}, "de"},
		{"100 kB in one range", "", []string{strings.Repeat("a", 100_000) + ",fr"}, "fr"},
		{"100 kB of commas", "", []string{strings.Repeat(",", 100_000) + "fr"}, "en"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got Language
			if n := testing.AllocsPerRun(1, func() { got = p.Language(test.locales, test.accept) }); n > 200 {
				t.Errorf("%.0f allocations", n)
			}
			if got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

func TestLanguagesBeginWithTheDefault(t *testing.T) {
	if got := open(t).Languages(); !slices.Equal(got, []string{"en", "de", "es", "fr"}) {
		t.Errorf("%q", got)
	}
}

// FuzzLanguage: the result is always an available language.
func FuzzLanguage(f *testing.F) {
	f.Add("de-AT fr", "en;q=0.5,de")
	f.Add("x-a-b i-klingon", "*;q=0,und-u-co-phonebk-x-y")
	p := open(f)
	f.Fuzz(func(t *testing.T, locales, accept string) {
		if got := p.Language(locales, []string{accept}); !slices.Contains(p.languages, got) {
			t.Errorf("%q", got)
		}
	})
}
