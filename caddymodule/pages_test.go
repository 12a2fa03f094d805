package caddymodule

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// writeCatalogue writes a catalogue that is the English one with some texts changed. A text of "" is left out.
func writeCatalogue(t *testing.T, path string, changes map[string]string) {
	t.Helper()
	content, err := os.ReadFile("../tokenissuer/words/catalogues/en.json")
	check(t, err)
	var texts map[string]string
	check(t, json.Unmarshal(content, &texts))
	maps.Copy(texts, changes)
	maps.DeleteFunc(texts, func(_, text string) bool { return text == "" })
	content, err = json.Marshal(texts)
	check(t, err)
	check(t, os.WriteFile(path, content, 0o600))
}

// TestU16AReloadTakesNewWords: a catalogue that changes → shown with the next reload; one that lacks a text → that reload is refused with
// file and key, and the pages stay as they were.
func TestU16AReloadTakesNewWords(t *testing.T) {
	dir := t.TempDir()
	italian := filepath.Join(dir, "it.json")
	writeCatalogue(t, italian, map[string]string{"signin.title": "Accedi"})
	site := peopleSite("limits {", "pages {\n\t\t\tlanguages "+dir+"\n\t\t}\n\t\tlimits {")
	g := startGatehouse(t, site)
	says := func(title string) {
		t.Helper()
		p := g.browser().fetch(http.MethodGet, "/oauth/login", "", "Accept-Language", "it-CH, de;q=0.9")
		if p.header.Get("Content-Language") != "it" || !strings.Contains(p.body, "<h1>"+title+"</h1>") {
			t.Errorf("language %q: %.2000s", p.header.Get("Content-Language"), p.body)
		}
	}
	says("Accedi")
	if _, _, metadata := g.get("/.well-known/oauth-authorization-server", ""); !strings.Contains(metadata, `"ui_locales_supported":["en","de","es","fr","it"]`) {
		t.Error(metadata)
	}
	writeCatalogue(t, italian, map[string]string{"signin.title": "Entra"})
	says("Accedi")
	g.reload(site)
	says("Entra")
	writeCatalogue(t, italian, map[string]string{"signin.title": "Mai", "signin.or": ""})
	want := "languages " + dir + ": it.json: 1 key is missing: translate signin.or from the English catalogue, at Caddyfile:"
	if err := g.tryReload(site); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	says("Entra")
}

// TestU17PagesTakeNoAddressFromTheRequest: Host, X-Forwarded-Host, Forwarded and Referer of another site → the same page, links and note.
func TestU17PagesTakeNoAddressFromTheRequest(t *testing.T) {
	g := startPeople(t, "http://ADDR {\n", "http://:TCPPORT {\n\tbind 127.0.0.1\n", "limits {", `pages {
			link help https://help.example/
			link imprint mailto:legal@acme.example
			note client pub "For customers."
			note host evil.example "For the attacker."
		}
		limits {`)
	for path, wants := range map[string][]string{
		requestOf("pub").path():           {"For customers.", `<a href="https://help.example/">Help</a>`, `<a href="mailto:legal@acme.example">Legal notice</a>`},
		"/oauth/authorize?client_id=none": {`<a href="https://help.example/">Help</a>`},
	} {
		request, err := http.NewRequest(http.MethodGet, g.url+path, nil)
		check(t, err)
		request.Host = "evil.example"
		for _, name := range []string{"X-Forwarded-Host", "X-Forwarded-Server", "X-Host", "X-Forwarded-Prefix"} {
			request.Header.Set(name, "evil.example")
		}
		request.Header.Set("Forwarded", "host=evil.example")
		request.Header.Set("X-Original-URL", "https://evil.example/")
		request.Header.Set("Referer", "https://evil.example/")
		p := answerTo(t, g.browser().client, request)
		for _, want := range wants {
			if !strings.Contains(p.body, want) {
				t.Errorf("%s: %s is missing in %s", path, want, p.body)
			}
		}
		if strings.Contains(p.body, "evil") || strings.Contains(p.body, "For the attacker.") {
			t.Errorf("%s: %s", path, p.body)
		}
	}
}

// TestSignInPagesShowTheirNotes checks the notes of clients and of hosts in the reader's language, also after a wrong password.
func TestSignInPagesShowTheirNotes(t *testing.T) {
	g := startHosts(t, "limits {", `pages {
			note host app.localhost:TCPPORT "The shop is for employees."
			note host app.localhost:TCPPORT de "Der Laden ist für Beschäftigte."
		}
		limits {`)
	v := g.visitor(t)
	for language, want := range map[string]string{"en": "The shop is for employees.", "de": "Der Laden ist für Beschäftigte.", "fr": "The shop is for employees."} {
		a := v.send(http.MethodGet, g.at("app", "/pages/1"), "", append(navigation, "Accept-Language", language)...)
		a = v.send(http.MethodGet, a.header.Get("Location"), "", append(navigation, "Accept-Language", language)...)
		if !strings.Contains(a.body, `<p class="note"><bdi>`+want+`</bdi></p>`) {
			t.Errorf("%s: %s", language, a.body)
		}
	}
	a := v.navigate(g.at("wiki", "/pages/1"))
	if a = v.navigate(a.header.Get("Location")); strings.Contains(a.body, `class="note"`) {
		t.Error(a.body)
	}
}

// TestPagesGuide validates the Caddyfile of the guide, and the errors that it prints.
func TestPagesGuide(t *testing.T) {
	emptyHome(t)
	t.Setenv("SHOP_SECRET", confSecret)
	text, err := os.ReadFile("../docs/guides/pages.md")
	check(t, err)
	sample := regexp.MustCompile("(?ms)^```caddyfile\n(.*?)^```$").FindStringSubmatch(string(text))
	if sample == nil || string(caddyfile.Format([]byte(sample[1]))) != sample[1] {
		t.Fatal("the guide has no formatted Caddyfile")
	}
	dir := t.TempDir()
	logo, languages := filepath.Join(dir, "logo.svg"), filepath.Join(dir, "languages")
	check(t, os.WriteFile(logo, []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`), 0o600))
	check(t, os.Mkdir(languages, 0o700))
	writeCatalogue(t, filepath.Join(languages, "it.json"), nil)
	site := strings.NewReplacer("/etc/gatehouse/logo.svg", logo, "/etc/gatehouse/languages", languages).Replace(sample[1])
	check(t, validate(t, site))
	printed := strings.Join(strings.Fields(string(text)), " ")
	says := func(site, what string) {
		t.Helper()
		err := validate(t, site)
		if err == nil {
			t.Fatal("accepted")
		}
		message, _, _ := strings.Cut(err.Error()[strings.Index(err.Error(), what):], ", at Caddyfile:")
		if message = strings.ReplaceAll(message, languages, "/etc/gatehouse/languages"); !strings.Contains(printed, message) {
			t.Errorf("the guide does not say: %s", message)
		}
	}
	says(strings.Replace(site, "a33c00", "e0a800", 1), "accent: ")
	writeCatalogue(t, filepath.Join(languages, "it.json"), map[string]string{"signin.or": "", "token.name": "", "signin.asks": "Accedi."})
	content, err := os.ReadFile(filepath.Join(languages, "it.json"))
	check(t, err)
	check(t, os.WriteFile(filepath.Join(languages, "it.json"), []byte(strings.Repeat("\n", 40)+string(content)), 0o600)) // the line that the guide prints
	says(site, "languages ")
}
