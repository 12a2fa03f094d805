package pages

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/words"
)

// TestU8MarkupInACatalogueStaysText: a catalogue whose every text ends with HTML → the same elements and attributes on every page as with a
// harmless one.
func TestU8MarkupInACatalogueStaysText(t *testing.T) {
	plain := open(t, Settings{Links: everyLink, Words: hebrew(t, func(_, english string) string { return english })})
	var values []string
	for _, value := range markup {
		if !strings.ContainsAny(value, "{}\x00\n\t\r\x0c\x01") && strings.TrimSpace(value) == value { // others are refused when the catalogue is read
			values = append(values, value)
		}
	}
	for next := range 5 { // each text has another value, and another one each time
		p := open(t, Settings{Links: everyLink, Words: hebrew(t, func(_, english string) string {
			next += 7
			return english + values[next%len(values)]
		})})
		for name, page := range samples(harmless) {
			d := parse(t, render(t, p, "he", page))
			if got, want := shape(d), shape(parse(t, render(t, plain, "he", page))); !slices.Equal(got, want) {
				t.Fatalf("%s became\n%s\nof\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			holdsNoCode(t, name, d)
		}
	}
}

// TestU9PagesSayTheirLanguageAndDirection: every page in every language, one of them written from right to left → `lang` is its tag, and
// `dir` is that of the catalogue.
func TestU9PagesSayTheirLanguageAndDirection(t *testing.T) {
	p := open(t, Settings{Words: hebrew(t, func(_, english string) string { return english })})
	for _, lang := range p.Languages() {
		want := map[bool]string{true: "rtl", false: "ltr"}[lang == "he"]
		for name, page := range samples(harmless) {
			root := parse(t, render(t, p, words.Language(lang), page)).all("html")[0]
			tag, _ := attr(root, "lang")
			if dir, _ := attr(root, "dir"); tag != lang || dir != want {
				t.Errorf("%s: lang %q and dir %q, want %s and %s", name, tag, dir, lang, want)
			}
		}
	}
}

// TestU10NotesAreText: a note with HTML, a URL or letters that change the direction → text in an element of its own, on the sign-in page of
// its client or host alone, in the reader's language or else the one for all.
func TestU10NotesAreText(t *testing.T) {
	portal, wiki := NoteFor{Client: "portal"}, NoteFor{Host: "wiki.example"}
	shown := func(p *Pages, lang words.Language, page Page) string {
		if note := parse(t, render(t, p, lang, page)).with("class", "note"); note != nil {
			return text(note)
		}
		return ""
	}
	p := open(t, Settings{Notes: []Note{{portal, "", "Use the account of your company."}, {portal, "DE", "Mit dem Firmenkonto."}, {wiki, "", "For employees."}}})
	for _, test := range []struct {
		lang words.Language
		page Page
		want string
	}{
		{"en", SignIn{NoteFor: portal}, "Use the account of your company."},
		{"fr", SignIn{NoteFor: portal}, "Use the account of your company."},
		{"de", SignIn{NoteFor: portal}, "Mit dem Firmenkonto."},
		{"de", SignIn{NoteFor: wiki, Notice: WrongCredentials, WithoutPasswords: true}, "For employees."},
		{"en", SignIn{NoteFor: NoteFor{Client: "wiki.example"}}, ""},
		{"en", SignIn{NoteFor: NoteFor{Host: "portal"}}, ""},
		{"en", SignIn{ClientName: "portal"}, ""},
		{"en", SignIn{}, ""},
		{"en", Consent{ClientID: "portal"}, ""},
	} {
		if got := shown(p, test.lang, test.page); got != test.want {
			t.Errorf("%s, %+v: %q, want %q", test.lang, test.page, got, test.want)
		}
	}
	want := shape(parse(t, render(t, p, "en", SignIn{NoteFor: portal})))
	for _, value := range slices.Concat(markup, naughty) {
		if (Note{About: portal, Text: value}).check() != nil {
			continue
		}
		d := parse(t, render(t, open(t, Settings{Notes: []Note{{portal, "", value}}}), "en", SignIn{NoteFor: portal}))
		if got := shape(d); !slices.Equal(got, want) {
			t.Errorf("%q made %q", value, got)
		}
		if note := d.find(t, "class", "note"); note.FirstChild.Data != "bdi" || note.FirstChild.NextSibling != nil {
			t.Errorf("%q is not in an element of its own", value)
		}
		holdsNoCode(t, value, d)
	}
}

// TestU11LinksLeadToPagesAndMailboxes: a link of javascript, data, http, without a host or with a password → refused, not quoted; of https
// or mailto → below every page.
func TestU11LinksLeadToPagesAndMailboxes(t *testing.T) {
	for _, url := range []string{
		"", "javascript:alert(1)", "JavaScript:alert(1)", " javascript:alert(1)", "java\tscript:alert(1)", "data:text/html,<script>alert(1)</script>",
		"vbscript:x", "blob:https://a.example/1", "file:///etc/passwd", "http://a.example/", "//a.example/", "/help", "help.example", "https:help.example", "https://",
		"https:///help", "https://:443/", "https://user:hunter2@a.example/", "https://a.example/\nx", "https://a b.example/", "https://a.example/ x", "https://%zz/", "mailto:",
		"mailto:a@b.example,c@d.example", "mailto:Ada <ada@a.example>", "mailto:ada", "mailto://ada@a.example", "tel:+123", "ftp://a.example/", "feed:https://a.example/", "https://\u2028a.example/\u2028",
	} {
		_, err := New(Settings{Links: []Link{{"help", url}}})
		var fault *Fault
		if !errors.As(err, &fault) || fault.Setting != "link help" || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", url, err)
		}
	}
	p := open(t, Settings{Links: []Link{
		{"help", "https://help.example/sign-in?from=a&to=\"><script>alert(1)</script>#top"}, {"privacy", "HTTPS://acme.example/datenschutz"}, {"imprint", "mailto:legal@acme.example?subject=Imprint"},
	}})
	for name, page := range samples(harmless) {
		d := parse(t, render(t, p, "de", page))
		var got []string
		for _, a := range d.all("a") {
			if a.Parent.Data == "footer" {
				href, _ := attr(a, "href")
				got = append(got, text(a)+" "+href)
			}
		}
		want := []string{
			"Hilfe https://help.example/sign-in?from=a&to=%22%3e%3cscript%3ealert%281%29%3c/script%3e#top", "Datenschutz HTTPS://acme.example/datenschutz",
			"Impressum mailto:legal@acme.example?subject=Imprint",
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q", name, got)
		}
		holdsNoCode(t, name, d)
	}
	if len(parse(t, render(t, open(t, Settings{}), "en", SignIn{})).all("footer")) != 0 {
		t.Error("a footer without links")
	}
}

// TestU12ColoursHaveContrast: an accent or background with less than 4.5:1 to the text that it carries, in the light or the dark scheme, or
// that is no colour → refused with the ratio; a good one → in the style, under its digest.
func TestU12ColoursHaveContrast(t *testing.T) {
	for _, test := range []struct {
		name               string
		accent, background *Colours
		want               string
	}{
		{"yellow buttons", &Colours{"ffd400", "ffd400"}, nil, "accent: in the light scheme the contrast of the text of buttons #ffffff to the accent #ffd400 is 1.43:1, and at least 4.5:1 is needed: #"},
		{"nearly", &Colours{"777777", "9db3ff"}, nil, "accent: in the light scheme the contrast of the text of buttons #ffffff to the accent #777777 is 4.47:1, and at least 4.5:1 is needed: #6b6b6b would do"},
		{"dark in the dark scheme", &Colours{"a33c00", "a33c00"}, nil, "accent: in the dark scheme the contrast of the text of buttons #10152b to the accent #a33c00 is 2.75:1, and at least 4.5:1 is needed: #"},
		{"dark page", nil, &Colours{"2b50c8", "101217"}, "background: in the light scheme the contrast of the text #1b1f27 to the background #2b50c8 is 2.42:1, and at least 4.5:1 is needed"},
		{"light page in the dark scheme", nil, &Colours{"ffffff", "f4f5f7"}, "background: in the dark scheme the contrast of the text #e9ebf0 to the background #f4f5f7 is 1.09:1, and at least 4.5:1 is needed"},
		{"page for the text but not for the small text", nil, &Colours{"aaaaaa", "000000"}, "background: in the light scheme the contrast of the small text #565e6c to the background #aaaaaa is 2.8"},
		{"name", &Colours{"red", "9db3ff"}, nil, `accent: in the light scheme "red" is not a colour: use six hex digits, as 2b50c8`},
		{"three digits", &Colours{"00f", "9db3ff"}, nil, `accent: in the light scheme "00f" is not a colour`},
		{"with an alpha", &Colours{"#2b50c880", "9db3ff"}, nil, `accent: in the light scheme "#2b50c880" is not a colour`},
		{"two hashes", &Colours{"##2b50c8", "9db3ff"}, nil, `accent: in the light scheme "##2b50c8" is not a colour`},
		{"one alone", &Colours{Light: "2b50c8"}, nil, `accent: in the dark scheme "" is not a colour`},
		{"style", nil, &Colours{"ffffff", "000;}*{background:url(//evil.example)"}, `background: in the dark scheme "000;}*{background:url(//evil.example)" is not a colour`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := New(Settings{Accent: test.accent, Background: test.background}); err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("%v, want %s", err, test.want)
			}
		})
	}
	p := open(t, Settings{Accent: &Colours{"#A33C00", "ffb694"}, Background: &Colours{"faf5f0", "#17120e"}})
	style := parse(t, render(t, p, "en", SignIn{})).all("style")[0].FirstChild.Data
	changed := style[strings.LastIndex(style, "\n:root {"):]
	light, dark, found := strings.Cut(changed, "@media (prefers-color-scheme: dark)")
	if !found || strings.Count(style, "--accent: ") != 4 {
		t.Fatalf("style %s", changed)
	}
	for scheme, css := range map[string]struct{ text, want string }{"light": {light, "--accent: #a33c00;.*--page: #faf5f0;"}, "dark": {dark, "--accent: #ffb694;.*--page: #17120e;"}} {
		if !regexp.MustCompile(css.want).MatchString(css.text) {
			t.Errorf("%s: %s", scheme, css.text)
		}
	}
	if p.ContentSecurityPolicy() != policy([]byte(style)) {
		t.Error("the policy is for another style")
	}
}

// TestU15NotesThatSayNothing: a note without a client or host, with a URL as host, without text, of more than 500 characters, on two lines,
// in a language that the pages do not speak or only in one language, or twice → refused with what it is about.
func TestU15NotesThatSayNothing(t *testing.T) {
	portal := NoteFor{Client: "portal"}
	for _, test := range []struct {
		name  string
		notes []Note
		want  string
	}{
		{"about nothing", []Note{{NoteFor{}, "", "x"}}, "note client : a note is about a client or a host"},
		{"about both", []Note{{NoteFor{"portal", "wiki.example"}, "", "x"}}, "note host wiki.example: a note is about a client or a host"},
		{"URL", []Note{{NoteFor{Host: "https://wiki.example/"}, "", "x"}}, "note host https://wiki.example/: write the host as browsers show it"},
		{"host in upper case", []Note{{NoteFor{Host: "Wiki.example"}, "", "x"}}, "note host Wiki.example: write the host as browsers show it"},
		{"empty", []Note{{portal, "", " "}}, "note client portal: the text is empty"},
		{"two lines", []Note{{portal, "", "a\nb"}}, "note client portal: the text has a line break"},
		{"not UTF-8", []Note{{portal, "", "caf\xe9"}}, "note client portal: the text has a line break or another control character"},
		{"long", []Note{{portal, "", strings.Repeat("é", 501)}}, "note client portal: the text has more than 500 characters"},
		{"unknown language", []Note{{portal, "", "x"}, {portal, "it", "y"}}, "note client portal: the pages do not speak it: use en, de, es, fr, or add a catalogue with `languages`"},
		{"path as language", []Note{{portal, "", "x"}, {portal, "../de", "y"}}, `note client portal: "../de" is not a language tag`},
		{"one language alone", []Note{{portal, "de", "x"}}, "note client portal: add a text without a language"},
		{"twice", []Note{{portal, "", "x"}, {portal, "", "y"}}, "note client portal: there are two texts for the same language"},
		{"twice in another case", []Note{{portal, "", "x"}, {portal, "de", "y"}, {portal, "DE", "z"}}, "note client portal: there are two texts for the same language"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := New(Settings{Notes: test.notes}); err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("%v, want %s", err, test.want)
			}
		})
	}
	open(t, Settings{Notes: []Note{{portal, "", strings.Repeat("é", 500)}, {NoteFor{Host: "wiki.example:8443"}, "", "x"}}})
}
