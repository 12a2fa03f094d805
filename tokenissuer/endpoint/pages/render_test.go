package pages

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/words"
)

// TestEveryPage checks every page in all its states and languages, including a language that is written from right to left.
func TestEveryPage(t *testing.T) {
	p := open(t, Settings{Links: everyLink, Words: hebrew(t, func(_, english string) string { return english })})
	for _, lang := range p.Languages() {
		for name, page := range states(harmless) {
			t.Run(lang+" "+name, func(t *testing.T) {
				out := render(t, p, words.Language(lang), page)
				if tag := unbalanced(out); tag != "" {
					t.Errorf("<%s> has no counterpart", tag)
				}
				d := parse(t, out)
				isWellFormed(t, d)
				headingsFollowEachOther(t, d)
				inputsHaveLabels(t, d)
				if console, is := page.(Console); is { // the gate asks for the same origin
					consoleForms(t, console, d)
				} else {
					formsCarryWhatTheyMust(t, page, d)
				}
			})
		}
	}
}

func isWellFormed(t *testing.T, d document) {
	t.Helper()
	for _, once := range []string{"title", "h1", "main", "header", "style"} {
		if n := len(d.all(once)); n != 1 {
			t.Errorf("%d elements %s", n, once)
		}
	}
	ids := make(map[string]bool)
	for _, n := range d.elements {
		if id, has := attr(n, "id"); has && ids[id] {
			t.Errorf("two elements have the id %q", id)
		} else if has {
			ids[id] = true
		}
	}
	for _, n := range d.elements {
		for _, reference := range []string{"for", "aria-describedby", "aria-labelledby"} {
			value, _ := attr(n, reference)
			for id := range strings.FieldsSeq(value) {
				if !ids[id] {
					t.Errorf("%s of <%s> points at %q, which is not there", reference, n.Data, id)
				}
			}
		}
	}
}

func headingsFollowEachOther(t *testing.T, d document) {
	t.Helper()
	last := 0
	for _, n := range d.elements {
		if len(n.Data) != 2 || n.Data[0] != 'h' || n.Data[1] < '1' || n.Data[1] > '6' {
			continue
		}
		level := int(n.Data[1] - '0')
		if level > last+1 || text(n) == "" {
			t.Errorf("<%s>%s follows h%d", n.Data, text(n), last)
		}
		last = level
	}
}

func formsCarryWhatTheyMust(t *testing.T, page Page, d document) {
	t.Helper()
	want := map[string]string{"form_token": harmless("token"), "pending": harmless("pending")}
	switch page := page.(type) {
	case FormPost: // a form to the application, which receives only the answer
		want = make(map[string]string)
		addFields(want, page.Fields)
	case SignOut:
		addFields(want, page.Fields)
	}
	for _, form := range d.all("form") {
		if method, _ := attr(form, "method"); method != "post" || inside(form, "form") {
			t.Errorf("a form with the method %q", method)
		}
		hidden := make(map[string]string)
		buttons, replacesCodes := 0, false
		for n := range form.Descendants() {
			if kind, _ := attr(n, "type"); n.Data == "input" && kind == "hidden" {
				name, _ := attr(n, "name")
				hidden[name], _ = attr(n, "value")
			}
			if n.Data == "button" && text(n) != "" {
				buttons++
				value, _ := attr(n, "value")
				replacesCodes = replacesCodes || value == "codes" && hidden["codes"] != ""
			}
		}
		if page, ok := page.(SignIn); ok { // in addition to the one for passwords
			class, _ := attr(form, "class")
			if got := hidden["choose"] == "yes"; got != (page.Choose && class == "providers") {
				t.Errorf("the form of class %q asks to choose: %t", class, got)
			}
			delete(hidden, "choose")
		}
		if id, _ := attr(form, "id"); id == "passkey" { // the script fills it in
			if filled, has := hidden["passkey"]; !has || filled != "" {
				t.Errorf("the field for the passkey is %q, %t", filled, has)
			}
			delete(hidden, "passkey")
		}
		if replacesCodes { // it says which ones
			delete(hidden, "codes")
		}
		if !maps.Equal(hidden, want) {
			t.Errorf("hidden fields %q, want %q", hidden, want)
		}
		if buttons == 0 {
			t.Error("a form without a button")
		}
	}
}

func TestNoPendingRequestHasNoField(t *testing.T) {
	out := render(t, open(t, Settings{}), "en", SignIn{Form: Form{Token: "x"}})
	if parse(t, out).with("name", "pending") != nil {
		t.Error("a field for no pending request")
	}
}

// consoleForms fails unless a page of the console has the forms that it should: searches are opened, and anything else is sent.
func consoleForms(t *testing.T, page Console, d document) {
	t.Helper()
	var want, got []string
	for _, b := range page.Blocks {
		if b.Form != nil {
			want = append(want, fmt.Sprint(map[bool]string{true: "get ", false: "post "}[b.Form.Get], len(b.Form.Fields)))
		}
	}
	for _, form := range d.all("form") {
		method, _ := attr(form, "method")
		fields, buttons := 0, 0
		for n := range form.Descendants() {
			if _, named := attr(n, "name"); named {
				fields++
			} else if n.Data == "button" && text(n) != "" {
				buttons++
			}
		}
		if buttons != 1 {
			t.Errorf("a form with %d buttons", buttons)
		}
		got = append(got, fmt.Sprint(method, " ", fields))
	}
	if !slices.Equal(got, want) {
		t.Errorf("forms %q, want %q", got, want)
	}
}

func addFields(to map[string]string, fields []Field) {
	for _, f := range fields {
		to[f.Name] = f.Value
	}
}

func inputsHaveLabels(t *testing.T, d document) {
	t.Helper()
	for _, n := range slices.Concat(d.all("input"), d.all("select"), d.all("textarea")) {
		if kind, _ := attr(n, "type"); kind == "hidden" {
			continue
		}
		id, _ := attr(n, "id")
		if label := d.with("for", id); id == "" || label == nil || text(label) == "" {
			t.Errorf("the field %q has no label", id)
		}
	}
}

func TestPageNamesItsLanguageAndBrand(t *testing.T) {
	for _, test := range []struct {
		name, title, lang string
		brand             Settings
		ask               words.Language
		page              Page
	}{
		{"default", "Sign in – Gatehouse", "en", Settings{}, "", SignIn{}},
		{"unknown language", "Sign in – Gatehouse", "en", Settings{}, "xx", SignIn{}},
		{"german", "Zugriff erlauben? – Acme <&> Söhne", "de", Settings{Name: "Acme <&> Söhne"}, "de", Consent{}},
		{"after an error", "Fehler: Anmelden – Gatehouse", "de", Settings{}, "de", SignIn{Notice: WrongCredentials}},
		{"asked again is no error", "Anmelden – Gatehouse", "de", Settings{}, "de", SignIn{Notice: SignInAgain}},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := parse(t, render(t, open(t, test.brand), test.ask, test.page))
			if got := text(d.all("title")[0]); got != test.title {
				t.Errorf("title %q, want %q", got, test.title)
			}
			if got, _ := attr(d.all("html")[0], "lang"); got != test.lang {
				t.Errorf("lang %q, want %q", got, test.lang)
			}
			want := test.brand.Name
			if want == "" {
				want = defaultName
			}
			if got := text(d.all("header")[0]); got != want {
				t.Errorf("header %q, want %q", got, want)
			}
			if own := d.with("class", "mark") != nil; own != (test.brand.Name == "") {
				t.Errorf("our own mark is shown: %t", own)
			}
		})
	}
}

func TestConsentShowsWhatIsDecided(t *testing.T) {
	scopes := []Scope{{Name: "public"}, {Name: "orders", Words: "See your orders"}, {Name: "acme:raw"}, {Name: "trusted"}}
	d := parse(t, render(t, open(t, Settings{}), "de", Consent{
		ClientName: "Portal", ClientID: "portal-1", Host: "portal.example:8443", Scopes: scopes,
		Viewer: Viewer{User: "Ada", Email: "ada@acme.example", SwitchURL: "/oauth/login?switch=1"}, AccountURL: "/oauth/account",
	}))
	for id, want := range map[string]string{
		"scope_0": "Öffentliche Daten lesen", "scope_1": "See your orders", "scope_2": "acme:raw", "scope_3": "In Ihrem Namen handeln",
	} {
		box := d.find(t, "name", id)
		if _, ticked := attr(box, "checked"); !ticked {
			t.Errorf("%s is not ticked", id)
		}
		if got := text(d.find(t, "for", id)); got != want {
			t.Errorf("%s says %q, want %q", id, got, want)
		}
	}
	if d.with("name", "scope_4") != nil {
		t.Error("a scope too many")
	}
	for _, words := range []string{
		"Portal möchte auf Ihr Konto zugreifen.", "Ihre Antwort geht an portal.example:8443.", "Angemeldet als Ada ada@acme.example",
	} {
		if !strings.Contains(d.body(), words) {
			t.Errorf("%q is missing in %q", words, d.body())
		}
	}
	if link := d.find(t, "href", "/oauth/account"); text(link) != "Ihrer Kontoseite" || !strings.Contains(text(link.Parent), "auf Ihrer Kontoseite wieder") {
		t.Errorf("the account page is in %q", text(link.Parent))
	}
	var decisions []string
	for _, n := range d.all("button") {
		name, _ := attr(n, "name")
		value, _ := attr(n, "value")
		decisions = append(decisions, name+"="+value+" "+text(n))
	}
	if want := []string{"decision=allow Erlauben", "decision=deny Ablehnen"}; !slices.Equal(decisions, want) {
		t.Errorf("buttons %q, want %q", decisions, want)
	}
	if link := d.find(t, "href", "/oauth/login?switch=1"); text(link) != "Anderes Konto verwenden" {
		t.Errorf("the way to another account is called %q", text(link))
	}
}

// TestConsentSpeaksOfAChoiceWhereThereIsOne: unticking the only scope would mean “Deny”.
func TestConsentSpeaksOfAChoiceWhereThereIsOne(t *testing.T) {
	for name, want := range map[string]bool{"public": false, "public trusted": true} {
		var scopes []Scope
		for scope := range strings.FieldsSeq(name) {
			scopes = append(scopes, Scope{Name: scope})
		}
		d := parse(t, render(t, open(t, Settings{}), "en", Consent{Scopes: scopes}))
		_, described := attr(d.all("fieldset")[0], "aria-describedby")
		if hint := strings.Contains(d.body(), "Untick"); hint != want || described != want {
			t.Errorf("%s: a hint: %t, which describes: %t", name, hint, described)
		}
	}
}

func TestConsentNamesANamelessClientByItsID(t *testing.T) {
	d := parse(t, render(t, open(t, Settings{}), "en", Consent{ClientID: "portal-1", Viewer: Viewer{User: "a@b.example", Email: "a@b.example"}}))
	if !strings.Contains(d.body(), "portal-1 would like to access your account.") {
		t.Error(d.body())
	}
	if strings.Count(d.body(), "a@b.example") != 1 {
		t.Error("who has no name is shown twice")
	}
}

func TestAccountEndsWhatItLists(t *testing.T) {
	d := parse(t, render(t, open(t, Settings{}), "de", samples(harmless)["account"]))
	var fields []string
	for _, n := range d.all("button") {
		name, _ := attr(n, "name")
		value, _ := attr(n, "value")
		fields = append(fields, name+"="+value)
	}
	// The current browser has no button of its own: it is signed out on the sign-out page.
	want := []string{"application=Some id", "application=new", "session=Some id", "session=other", "session=Some id", "everywhere=yes"}
	if !slices.Equal(fields, want) {
		t.Errorf("buttons %q, want %q", fields, want)
	}
	if label, _ := attr(d.find(t, "id", "revoke-1"), "aria-labelledby"); label != "revoke-1 application-1" {
		t.Errorf("what a button ends is told by %q %q", label, text(d.find(t, "id", "host-0-1")))
	}
	if label, _ := attr(d.find(t, "id", "end-0-1"), "aria-labelledby"); label != "end-0-1 host-0-1" || text(d.find(t, "id", "host-0-1")) != "Some another-host" {
		t.Errorf("which host's session a button ends is told by %q %q", label, text(d.find(t, "id", "host-0-1")))
	}
	badge := d.find(t, "class", "badge")
	if text(badge) != "Dieser Browser" || text(badge.Parent) != "Some note Dieser Browser" {
		t.Errorf("this browser is %q", text(badge.Parent))
	}
	for _, words := range []string{
		"Erlaubt am 3. März 2026", "Zuletzt verwendet am 13. Juni 2026", "Zuletzt aktiv am 3. März 2026 um 10:05 Uhr (UTC)",
		"Unbekannter Browser",
	} {
		if !strings.Contains(d.body(), words) {
			t.Errorf("%q is missing in %q", words, d.body())
		}
	}
	if got, _ := attr(d.all("time")[0], "datetime"); got != "2026-03-03T09:05:00Z" {
		t.Errorf("datetime %q", got)
	}
	if strings.Count(d.body(), "Zuletzt verwendet") != 1 {
		t.Error("an application that was never used was used")
	}
}

func TestAccountSaysWhatWasDone(t *testing.T) {
	p := open(t, Settings{})
	for done, want := range map[Done]string{NothingDone: "", ApplicationRemoved: "Access removed.", SessionEnded: "Session ended."} {
		said := ""
		if notice := parse(t, render(t, p, "en", Account{Done: done})).with("role", "status"); notice != nil {
			said = text(notice)
		}
		if said != want {
			t.Errorf("%q says %q, want %q", done, said, want)
		}
	}
	if _, err := p.Render("en", Account{Done: "made_up"}); err == nil {
		t.Error("a word without a sentence is rendered")
	}
}

func TestAccountSaysWhenThereIsNothing(t *testing.T) {
	d := parse(t, render(t, open(t, Settings{}), "en", Account{User: "Ada", Email: "ada@acme.example"}))
	for _, words := range []string{"No application may act for you now.", "You are not signed in with any browser."} {
		if !strings.Contains(d.body(), words) {
			t.Errorf("%q is missing", words)
		}
	}
	if strings.Contains(d.body(), "Organisation") || strings.Contains(d.body(), "Role") {
		t.Error("a label without a value")
	}
}

func TestSignOutAsksAndSaysThatItIsDone(t *testing.T) {
	p := open(t, Settings{})
	asks := parse(t, render(t, p, "de", SignOut{Email: "ada@acme.example", Form: Form{Action: "/oauth/logout"}}))
	if !strings.Contains(asks.body(), "Sie sind als ada@acme.example angemeldet.") || len(asks.all("form")) != 1 {
		t.Error(asks.body())
	}
	done := parse(t, render(t, p, "de", SignOut{Done: true, SignInURL: "/oauth/login"}))
	if len(done.all("form")) != 0 || text(done.find(t, "href", "/oauth/login")) != "Wieder anmelden" {
		t.Error(done.body())
	}
}

// TestEachProblemHasItsOwnWords: each problem has its own text and title, in every language.
func TestEachProblemHasItsOwnWords(t *testing.T) {
	p := open(t, Settings{})
	for _, lang := range p.Languages() {
		seen := make(map[string]bool)
		for _, code := range problemCodes {
			d := parse(t, render(t, p, words.Language(lang), Problem{Code: code}))
			title, said := text(d.all("h1")[0]), text(d.all("p")[0])
			if title == "" || said == "" || seen[title] || seen[said] {
				t.Errorf("%s in %s: %q, %q", code, lang, title, said)
			}
			seen[title], seen[said] = true, true
		}
	}
	if _, err := p.Render("en", Problem{Code: "made_up"}); err == nil {
		t.Error("a problem without words is rendered")
	}
}

func TestProblemTellsWhenToTryAgainAndTheDetail(t *testing.T) {
	p := open(t, Settings{})
	for _, test := range []struct {
		name string
		page Problem
		want string
	}{
		{"throttled", Problem{Code: Throttled, RetryAfter: 90 * time.Second}, "wait. Try again in 2 minutes."},
		{"no time known", Problem{Code: Unavailable}, "nothing wrong. Try again in a moment."},
		{"another one that passes", Problem{Code: Internal, RetryAfter: time.Minute}, "this service. Try again in 1 minute."},
		{"does not pass", Problem{Code: NotFound}, "where you came from."},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := parse(t, render(t, p, "en", test.page))
			if got := text(d.all("main")[0]); !strings.HasSuffix(got, test.want) {
				t.Errorf("%q does not end with %q", got, test.want)
			}
		})
	}
	detail := parse(t, render(t, p, "de", Problem{Code: BadClient, Detail: "The redirect URI is unknown."})).all("bdi")[1]
	if lang, _ := attr(detail, "lang"); text(detail) != "The redirect URI is unknown." || lang != "en" {
		t.Errorf("the detail %q, which a voice reads in %q", text(detail), lang)
	}
}

// TestProblemsThatEndAVisitLeadOn: if retrying cannot help, the page links to a usable page.
func TestProblemsThatEndAVisitLeadOn(t *testing.T) {
	p := open(t, Settings{})
	for _, code := range problemCodes {
		link := parse(t, render(t, p, "de", Problem{Code: code, AccountURL: "/oauth/account"})).with("href", "/oauth/account")
		want := slices.Contains([]ProblemCode{Expired, Forged, Decided, NotFound, LinkBroken, LinkExpired, LinkSpent, AddressTaken, RegistrationClosed}, code)
		if got := link != nil && text(link) == "Ihr Konto"; got != want {
			t.Errorf("%s has a way on: %t", code, got)
		}
	}
}
