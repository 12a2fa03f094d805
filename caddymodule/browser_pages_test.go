package caddymodule

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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

// looksSite throttles sign-ins after three failures and has an application with long names.
var looksSite = strings.NewReplacer("login off", "login 3/1m per account", "client house {", `client long {
			name "Donaudampfschifffahrtsgesellschaftskapitänsmützenverwaltung für Mitarbeitende"
			type public
			redirect_uris LONGREDIRECT
		}
		client house {`).Replace(interopSite)

// TestBrowserLooks saves a picture of every page in the directory that GATEHOUSE_SCREENSHOTS names, if set. The site shows nothing but our
// own pages.
func TestBrowserLooks(t *testing.T) {
	const long = "https://customer-relationship-management.eu-central-1.department-of-navigation.example.com/callback"
	g, given := startBrowser(t, strings.ReplaceAll(looksSite, "LONGREDIRECT", long))
	given["clients"].(map[string]map[string]string)["long"] = map[string]string{"id": "long", "redirectURI": long}
	pictures, err := filepath.Abs(cmp.Or(os.Getenv("GATEHOUSE_SCREENSHOTS"), t.TempDir()))
	check(t, err)
	given["screenshots"], given["pictures"] = pictures, os.Getenv("GATEHOUSE_SCREENSHOTS") != ""
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
