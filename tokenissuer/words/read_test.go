package words

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// english returns the text of the shipped English catalogue, whose lines the tests change.
func english(t testing.TB) string {
	t.Helper()
	content, err := shipped.ReadFile("catalogues/en.json")
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// required returns how many texts a catalogue of an operator needs.
func required(t testing.TB) int {
	t.Helper()
	return len(slices.DeleteFunc(slices.Collect(maps.Keys(catalogue(t, "en"))), optional))
}

// write puts files into a new directory.
func write(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// refused fails unless the directory is refused with an error of that text after its name.
func refused(t *testing.T, dir, want string) {
	t.Helper()
	if c, err := Load(dir); err == nil || c != nil || err.Error() != "languages "+dir+": "+want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestU1CatalogueIncompleteIsRefused: a catalogue without a text, with an unknown or repeated key, with other placeholders, or that is not
// JSON of texts in UTF-8 → refused, with file, line, key and what to do.
func TestU1CatalogueIncompleteIsRefused(t *testing.T) {
	whole := english(t)
	const asks = `"signin.asks": "{application} asks you to sign in."`
	line := 1 + strings.Count(whole[:strings.Index(whole, asks)], "\n")
	at := fmt.Sprintf("it.json:%d: ", line)
	instead := func(text string) string { return strings.Replace(whole, asks, text, 1) }
	for _, test := range []struct{ name, content, want string }{
		{"one missing", instead(`"signin.asks2": ""`), `it.json: 1 key is missing: translate signin.asks from the English catalogue; ` + at + `there is no text "signin.asks2": correct its key or take it away`},
		{"most missing", `{"signin.title":"Accedi"}`, fmt.Sprintf("it.json: %d keys are missing: translate account.add_factor, account.allowed, account.applications, account.applications_words, account.code_left, "+
			"account.codes_left, account.email, account.email_change, account.email_fixed, account.email_words and %d more from the English catalogue",
			required(t)-1, required(t)-11)},
		{"unknown", instead(asks + `, "signin.greeting": "Hello"`), at + `there is no text "signin.greeting": correct its key or take it away`},
		{"key in another case", instead(`"Signin.asks": "{application}"`), `it.json: 1 key is missing: translate signin.asks from the English catalogue; ` + at + `there is no text "Signin.asks": correct its key or take it away`},
		{"other placeholder", instead(`"signin.asks": "{client} asks"`), at + "signin.asks needs the placeholders of the English text, each once: {application}"},
		{"no placeholder", instead(`"signin.asks": "Sign in."`), at + "signin.asks needs the placeholders of the English text, each once: {application}"},
		{"placeholder twice", instead(`"signin.asks": "{application} {application}"`), at + "signin.asks needs the placeholders of the English text, each once: {application}"},
		{"placeholder in another case", instead(`"signin.asks": "{Application}"`), at + "signin.asks needs the placeholders of the English text, each once: {application}"},
		{"placeholder too many", strings.Replace(whole, `"signin.or": "or"`, `"signin.or": "{application}"`, 1), fmt.Sprintf("it.json:%d: signin.or has {application}, and the English text has no placeholder", line+5)},
		{"brace", instead(`"signin.asks": "{application} {"`), at + "signin.asks has a brace that belongs to no placeholder"},
		{"template", instead(`"signin.asks": "{{.Page}} {application}"`), at + "signin.asks has a brace that belongs to no placeholder"},
		{"empty", instead(`"signin.asks": ""`), at + `signin.asks is empty: translate "{application} asks you to sign in."`},
		{"space at the end", instead(`"signin.asks": "{application} "`), at + "signin.asks begins or ends with a space"},
		{"line break", instead(`"signin.asks": "{application}\nasks"`), at + "signin.asks has a line break or another control character: write it on one line"},
		{"direction", strings.Replace(whole, `"ltr"`, `"right"`, 1), `it.json:2: language.direction is "right": use ltr or rtl`},
		{"many problems", strings.ReplaceAll(whole, "account", "konto"), ""},
		{"key twice", instead(asks + ",\n" + asks), fmt.Sprintf(`it.json:%d: the key "signin.asks" is there twice`, line+1)},
		{"comma missing", instead(asks + ` "x": "y"`), at + `this is not JSON: invalid character '"' after object value (expecting ',' or '}')`},
		{"number", instead(`"signin.asks": 1`), at + `"signin.asks" is not a text: put it in quotation marks`},
		{"object", instead(`"signin.asks": {"one": "x"}`), at + `"signin.asks" is not a text: put it in quotation marks`},
		{"array", `["signin.title"]`, "it.json:1: a catalogue is a JSON object of keys and texts"},
		{"nothing", "", "it.json:1: there is no catalogue in it"},
		{"cut off", whole[:strings.Index(whole, asks)], ""},
		{"TOML", "title = \"x\"\n", ""},
		{"followed by another", whole + "{}", ""},
		{"Latin-1", instead("\"signin.asks\": \"{application} caf\xe9\""), at + "this is not UTF-8: save the file in that encoding"},
		{"UTF-16", "\xff\xfe{\x00}\x00", "it.json:1: this is not UTF-8: save the file in that encoding"},
		{"half a character", instead(`"signin.asks": "{application} \ud800"`), ""},
		{"byte order mark", "\ufeff" + whole, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := write(t, map[string]string{"it.json": test.content})
			if test.want != "" {
				refused(t, dir, test.want)
			} else if c, err := Load(dir); c != nil || err == nil || !strings.Contains(err.Error(), "it.json:") || len(err.Error()) > 2000 {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestU2OneLanguageTwice: two files whose tags differ only in case, or are spellings of one language → refused with both names.
func TestU2OneLanguageTwice(t *testing.T) {
	for _, test := range []struct{ one, other, lang string }{{"IT.json", "it.json", "it"}, {"pt-BR.json", "pt-br.json", "pt-BR"}, {"he.json", "iw.json", "he"}} {
		dir := write(t, map[string]string{test.one: english(t), test.other: english(t)})
		refused(t, dir, fmt.Sprintf("%s and %s are the same language, %s: remove one of them", test.one, test.other, test.lang))
	}
}

// TestU3NamesThatAreNoLanguage: a file whose name is not a language tag and .json, such as de_DE.json or README.md → refused; a path as
// tag, as ../de → refused; a name with a leading dot → skipped.
func TestU3NamesThatAreNoLanguage(t *testing.T) {
	for _, name := range []string{
		"README.md", "it.jsn", "it", "it.json~", "it_IT.json", "english.json", "und.json", "x-klingon.json", "zz.json", "it..json", "it-.json", "-it.json", "it .json",
		"i'.json", strings.Repeat("it-", 40) + "it.json",
	} {
		dir := write(t, map[string]string{name: english(t)})
		if c, err := Load(dir); c != nil || err == nil || !strings.Contains(err.Error(), name[:min(len(name), 60)]) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, tag := range []string{"../de", "..", "", "/etc/passwd", "de/../en", `..\de`, "de\x00", "de\n", "%2e%2e/de", "deutsch", strings.Repeat("a", 1<<20)} {
		if lang, err := Parse(tag); err == nil || len(err.Error()) > 200 {
			t.Errorf("%.40q is %q, %v", tag, lang, err)
		}
	}
	for tag, want := range map[string]Language{"de": "de", "DE": "de", "pt-br": "pt-BR", "zh-hant-tw": "zh-Hant-TW", "iw": "he"} {
		if lang, err := Parse(tag); err != nil || lang != want {
			t.Errorf("%q is %q, %v", tag, lang, err)
		}
	}
	dir := write(t, map[string]string{"it.json": english(t), ".it.json.swp": "", "..de.json": "x"})
	if c, err := Load(dir); err != nil || !slices.Equal(c.Languages(), []string{"en", "de", "es", "fr", "it"}) {
		t.Error(err)
	}
}

// TestU4OnlyFilesOfTheDirectory: a symbolic link out of the directory or to nothing, a pipe, a directory as catalogue → refused at once; a
// link within the directory, as a mounted ConfigMap has it → read.
func TestU4OnlyFilesOfTheDirectory(t *testing.T) {
	outside := filepath.Join(write(t, map[string]string{"it.json": english(t)}), "it.json")
	for name, create := range map[string]func(path string) error{
		"link out":       func(path string) error { return os.Symlink(outside, path) },
		"link up":        func(path string) error { return os.Symlink("../../../../../../etc/passwd", path) },
		"link to none":   func(path string) error { return os.Symlink("missing", path) },
		"link to itself": func(path string) error { return os.Symlink("it.json", path) },
		"pipe":           func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"directory":      func(path string) error { return os.Mkdir(path, 0o700) },
		"link to a dir":  func(path string) error { return os.Symlink(".", path) },
	} {
		dir := t.TempDir()
		if err := create(filepath.Join(dir, "it.json")); err != nil {
			t.Fatal(err)
		}
		if c, err := Load(dir); c != nil || err == nil || !strings.Contains(err.Error(), "it.json") {
			t.Errorf("%s: %v", name, err)
		}
	}
	mounted := t.TempDir()
	for _, err := range []error{
		os.Mkdir(filepath.Join(mounted, "..2026"), 0o700),
		os.WriteFile(filepath.Join(mounted, "..2026", "it.json"), []byte(english(t)), 0o600),
		os.Symlink("..2026", filepath.Join(mounted, "..data")),
		os.Symlink("..data/it.json", filepath.Join(mounted, "it.json")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if c, err := Load(mounted); err != nil || !slices.Contains(c.Languages(), "it") {
		t.Error(err)
	}
	if _, err := Load(filepath.Join(mounted, "missing")); err == nil || !strings.HasPrefix(err.Error(), "languages: open ") {
		t.Error(err)
	}
	refused(t, t.TempDir(), "there is no file in it: add one for each language, named like it.json")
}

// TestU5CataloguesAreBounded: a catalogue of 10 MB, or a directory of 101 files → refused without reading the rest.
func TestU5CataloguesAreBounded(t *testing.T) {
	whole := english(t)
	refused(t, write(t, map[string]string{"it.json": whole + strings.Repeat(" ", 10<<20)}), "it.json has more than 256 KiB")
	if _, err := Load(write(t, map[string]string{"it.json": whole + strings.Repeat("\n", maxFile-len(whole))})); err != nil {
		t.Error(err)
	}
	many := make(map[string]string)
	for i := range maxFiles + 1 {
		many[fmt.Sprintf("%d.json", i)] = "{"
	}
	refused(t, write(t, many), "there are more than 100 files in it")
	for i := range 4 * maxFiles {
		many[fmt.Sprintf("x%d.json", i)] = "{"
	}
	refused(t, write(t, many), "there are more than 100 files in it")
}

// sameAsEnglish are the keys whose text may be the English one: names, forms without words, and words that the languages share.
var sameAsEnglish = map[Language][]string{
	"de": {"factor_kind.passkey", "month.4", "month.8", "month.9", "month.11"},
	"fr": {"lifetime.minute", "lifetime.minutes", "date.day"},
	"es": {"title.error"},
}

// sharedWords are texts that a language has in common with English.
var sharedWords = map[Language][]string{
	"de": {"Browser", "Host", "Link", "Name", "Organisation", "Person"},
	"fr": {"Application", "Organisation", "Organisations", "Sessions"},
	"es": {"Factor", "Host", "Roles"},
}

// TestU6ShippedCataloguesAreComplete: every language that we ship → all keys of the English one with the same placeholders, no markup, and
// no English text but for names.
func TestU6ShippedCataloguesAreComplete(t *testing.T) {
	reference := catalogue(t, "en")
	if got := open(t).Languages(); !slices.Equal(got, []string{"en", "de", "es", "fr"}) {
		t.Errorf("languages %q", got)
	}
	shared := []string{"language.direction", "title.page", "date.first"}
	for _, name := range open(t).Languages() {
		lang := Language(name)
		texts := catalogue(t, lang)
		for _, problem := range compare(texts, reference, map[string]int{}) {
			t.Errorf("%s%s", lang, problem)
		}
		var same []string
		for key, text := range texts {
			if strings.ContainsAny(text, "<>&") || strings.Contains(text, "  ") {
				t.Errorf("%s in %s is %q", key, lang, text)
			}
			if lang != Default && text == reference[key] && !slices.Contains(shared, key) && !slices.Contains(sharedWords[lang], text) {
				same = append(same, key)
			}
		}
		slices.Sort(same)
		if want := slices.Sorted(slices.Values(sameAsEnglish[lang])); !slices.Equal(same, want) {
			t.Errorf("%s has the English texts of %q, want %q", lang, same, want)
		}
	}
}

// TestU6NoWordOfAnotherLanguage: a word that stands in one language only is in no text of the others.
func TestU6NoWordOfAnotherLanguage(t *testing.T) {
	telling := map[Language]*regexp.Regexp{
		"en": regexp.MustCompile(`(?i)\b(the|your|with|you|sign|and|this|of)\b`),
		"de": regexp.MustCompile(`(?i)\b(sie|ihre?|und|nicht|das|mit)\b`),
		"fr": regexp.MustCompile(`(?i)\b(vous|votre|avec|et|cette|nous|pas)\b`),
		"es": regexp.MustCompile(`(?i)\b(su|usted|con|esta|el|los|sesión)\b`),
	}
	for _, lang := range open(t).Languages() {
		own := 0
		for key, text := range catalogue(t, Language(lang)) {
			text = placeholder.ReplaceAllString(text, "")
			for other, words := range telling {
				found := words.FindString(text)
				if found != "" && string(other) == lang {
					own++
				} else if found != "" {
					t.Errorf("%s in %s says %q: %s", key, lang, found, text)
				}
			}
		}
		if own < 20 {
			t.Errorf("%d texts of %s have one of its words", own, lang)
		}
	}
}

// TestO60AnOwnCatalogueMayLackTheConsole: an operator's catalogue without texts of the console → the English ones; with some of them → those,
// and with an unknown one or another placeholder → refused.
func TestO60AnOwnCatalogueMayLackTheConsole(t *testing.T) {
	own := strings.Replace(english(t), "\n}", ",\n  \"console.save\": \"Salva\"\n}", 1)
	c, err := Load(write(t, map[string]string{"it.json": own}))
	if err != nil {
		t.Fatal(err)
	}
	_, texts := c.In("it")
	for key, text := range catalogue(t, "en") {
		if want := map[bool]string{true: "Salva", false: text}[key == "console.save"]; texts[key] != want {
			t.Errorf("%s is %q, want %q", key, texts[key], want)
		}
	}
	line := strings.Count(own, "\n") - 1
	refused(t, write(t, map[string]string{"it.json": strings.Replace(own, "console.save", "console.sav", 1)}),
		fmt.Sprintf(`it.json:%d: there is no text "console.sav": correct its key or take it away`, line))
	refused(t, write(t, map[string]string{"it.json": strings.Replace(own, `"console.save"`, `"console.form.now"`, 1)}),
		fmt.Sprintf("it.json:%d: console.form.now needs the placeholders of the English text, each once: {value}", line))
}

// TestADirectoryReplacesAndAdds: a catalogue of a shipped language replaces it whole, others add languages.
func TestADirectoryReplacesAndAdds(t *testing.T) {
	own := func(title string) string {
		texts := maps.Clone(catalogue(t, "en"))
		texts["signin.title"] = title
		content, err := json.Marshal(texts)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	c, err := Load(write(t, map[string]string{"en.json": own("Log in"), "it.json": own("Accedi"), "de-AT.json": own("Servus")}))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Languages(); !slices.Equal(got, []string{"en", "de", "de-AT", "es", "fr", "it"}) {
		t.Errorf("%q", got)
	}
	for accept, want := range map[string]string{"en": "Log in", "it-CH": "Accedi", "de": "Anmelden", "de-AT": "Servus", "de-CH": "Anmelden", "pl": "Log in"} {
		_, texts := c.In(c.Language("", []string{accept}))
		if texts["signin.title"] != want {
			t.Errorf("%s gets %q, want %q", accept, texts["signin.title"], want)
		}
	}
	if catalogue(t, "en")["signin.title"] != "Sign in" {
		t.Error("the shipped catalogue has changed")
	}
}

// FuzzDecode: a catalogue that is read is an object of texts, and any other text an error with a line.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"a":"b"}`))
	f.Add([]byte("{\n\"a\":\"b\",\n\"a\":\"c\"}"))
	f.Add([]byte("{\"a\":\xff}"))
	f.Fuzz(func(t *testing.T, content []byte) {
		texts, lines, err := decode(content)
		if err != nil {
			if !regexp.MustCompile(`^:[1-9][0-9]*: `).MatchString(err.Error()) {
				t.Errorf("%v", err)
			}
			return
		}
		var again map[string]string
		if err := json.Unmarshal(content, &again); err != nil || !maps.Equal(again, texts) {
			t.Errorf("%v: %v, %v", err, again, texts)
		}
		for key := range texts {
			if lines[key] < 1 || lines[key] > 1+strings.Count(string(content), "\n") {
				t.Errorf("line %d of %q", lines[key], key)
			}
		}
	})
}
