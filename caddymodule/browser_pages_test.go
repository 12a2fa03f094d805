package caddymodule

import (
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/mailtest"
)

// These tests drive a real browser through the pages. The scripts in testdata/npm hold the checks.

// startBrowser is startInterop with a Chromium for the script.
func startBrowser(t *testing.T, site string) (*gatehouse, map[string]any) {
	t.Helper()
	g, given := startInterop(t, site)
	given["chromium"] = chromium(t)
	return g, given
}

// chromium returns the path of the browser.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("this test needs Chromium: on Debian, the package chromium")
	return ""
}

// flowSite adds two routes behind the gate: one for pages of any origin, and one that redirects to the client's callback.
var flowSite = strings.Replace(interopSite, "\thandle {\n", `	handle /shared/* {
		protect trusted {
			cors *
		}
		reverse_proxy UPSTREAM
	}
	handle /moved/* {
		route {
			protect {
				challenge browser
			}
			redir CALLBACK?state=hop
		}
	}
	handle {
`, 1)

func TestBrowserFlow(t *testing.T) {
	_, given := startBrowser(t, flowSite)
	runScript(t, "browser-flow.mjs", given)
}

// looksSite throttles sign-ins after three failures and has an application with long names. It is at localhost, where there are passkeys.
var looksSite = strings.NewReplacer("http://ADDR", "http://localhost:TCPPORT", "login off", "login 3/1m per account", "client house {", `totp
		MAIL
		registration_of_people email_domain new.example
		client tv {
			name "Acme television"
			type public
			grants urn:ietf:params:oauth:grant-type:device_code
			scopes public trusted
		}
		client long {
			name "Donaudampfschifffahrtsgesellschaftskapitänsmützenverwaltung für Mitarbeitende"
			type public
			redirect_uris LONGREDIRECT
		}
		client house {`).Replace(interopSite)

// TestBrowserLooks saves a picture of every page in the directory that GATEHOUSE_SCREENSHOTS names, if set. The site shows nothing but our
// own pages.
func TestBrowserLooks(t *testing.T) {
	const long = "https://customer-relationship-management.eu-central-1.department-of-navigation.example.com/callback"
	server := mailtest.Start(t, mailtest.Options{})
	t.Setenv("GATEHOUSE_TEST_SMTP_PASSWORD", mailtest.Password)
	g, given := startBrowser(t, strings.NewReplacer("LONGREDIRECT", long, "MAIL", mailLines(server)).Replace(looksSite))
	given["clients"].(map[string]map[string]string)["long"] = map[string]string{"id": "long", "redirectURI": long}
	pictures, err := filepath.Abs(cmp.Or(os.Getenv("GATEHOUSE_SCREENSHOTS"), t.TempDir()))
	check(t, err)
	given["screenshots"], given["pictures"] = pictures, os.Getenv("GATEHOUSE_SCREENSHOTS") != ""
	g.url = strings.Replace(g.url, "127.0.0.1", "localhost", 1)
	given["issuer"] = g.url
	links, registrations := make(map[string]string), make(map[string]string)
	for _, language := range []string{"en", "de"} {
		address := "zoe-" + language + "@acme.example"
		g.ok("user", "add", "--email", address, "--name", "Zoe", "--org", "acme")
		link, _, _ := strings.Cut(g.ok("user", "recover", address), "\n")
		links[language] = link
		registrations[language] = registrationLink(t, g.asksForAccount(t, server, "zoe-"+language+"@new.example"))
	}
	given["links"], given["registrations"] = links, registrations
	runScript(t, "browser-looks.mjs", given)
	if strings.Contains(g.logs(), "/favicon.ico") {
		t.Error("a page made the browser ask the site for an icon")
	}
}

// TestBrowserPersonalTokensQ193: Chromium makes, copies, reloads and ends tokens without script, in English and German → as promised,
// accessible.
func TestBrowserPersonalTokensQ193(t *testing.T) {
	site := strings.Replace(interopSite, "\t\torganisation acme", "\t\tpersonal_tokens {\n\t\t\tscopes public orders.read trusted\n\t\t}\n\t\torganisation acme", 1)
	g, given := startBrowser(t, site)
	pictures, err := filepath.Abs(cmp.Or(os.Getenv("GATEHOUSE_SCREENSHOTS"), t.TempDir()))
	check(t, err)
	given["screenshots"], given["pictures"] = pictures, os.Getenv("GATEHOUSE_SCREENSHOTS") != ""
	runScript(t, "browser-tokens.mjs", given)
	if strings.Contains(g.logs(), "gh_pat_") {
		t.Error("a token stands in a log")
	}
}

// TestU18BrowserShowsOwnPages: Chromium on pages with an operator's logo with a script inside, colours, links, notes and languages, light
// and dark, from right to left, wide and narrow → accessible, nothing sideways, no script runs, nothing is loaded.
func TestU18BrowserShowsOwnPages(t *testing.T) {
	dir := t.TempDir()
	logo := filepath.Join(t.TempDir(), "logo.svg")
	check(t, os.WriteFile(logo, []byte(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 96 32" width="96" height="32" onload="top.hacked = document.title = 'onload'">
<script>top.hacked = document.title = 'script'</script><rect width="96" height="32" rx="6" fill="#a33c00"/><circle cx="20" cy="16" r="9" fill="#ffb694"/>
<foreignObject width="1" height="1"><form xmlns="http://www.w3.org/1999/xhtml"><input name="stolen"/></form></foreignObject></svg>`), 0o600))
	content, err := os.ReadFile("../tokenissuer/words/catalogues/en.json")
	check(t, err)
	var texts map[string]string
	check(t, json.Unmarshal(content, &texts))
	for key, text := range texts {
		texts[key] = inHebrewLetters(text)
	}
	texts["language.direction"] = "rtl"
	writeCatalogue(t, filepath.Join(dir, "he.json"), texts)
	site := strings.Replace(interopSite, "\t\torganisation acme", `		pages {
			name Acme
			logo `+logo+`
			accent a33c00 ffb694
			background faf5f0 17120e
			link help https://help.example/
			link privacy https://acme.example/privacy
			link imprint mailto:legal@acme.example
			note client portal "Use the account that your company gave you. New here? Ask the people at your front desk."
			note client portal de "Verwenden Sie das Konto, das Sie von Ihrer Firma haben."
			note client portal he "`+inHebrewLetters("Use the account of your company")+` (Acme Ltd)."
			languages `+dir+`
		}
		organisation acme`, 1)
	_, given := startBrowser(t, site)
	pictures, err := filepath.Abs(cmp.Or(os.Getenv("GATEHOUSE_SCREENSHOTS"), t.TempDir()))
	check(t, err)
	given["screenshots"], given["pictures"] = pictures, os.Getenv("GATEHOUSE_SCREENSHOTS") != ""
	runScript(t, "browser-pages.mjs", given)
}

// inHebrewLetters replaces the Latin letters of a text outside its placeholders by Hebrew ones, so that it looks as one in Hebrew does.
func inHebrewLetters(text string) string {
	letters := []rune("אבגדהוזחטיכלמנסעפצקרשתאבגד")
	inside := false
	return strings.Map(func(r rune) rune {
		switch {
		case r == '{' || r == '}':
			inside = r == '{'
		case !inside && r >= 'a' && r <= 'z':
			return letters[r-'a']
		case !inside && r >= 'A' && r <= 'Z':
			return letters[r-'A']
		}
		return r
	}, text)
}
