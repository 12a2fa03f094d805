package caddymodule

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A real browser walks through the pages. The scripts in testdata/npm hold the checks.

// startBrowser is startInterop with a Chromium for the script.
func startBrowser(t *testing.T, site string) map[string]any {
	t.Helper()
	_, given := startInterop(t, site)
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			given["chromium"] = path
			return given
		}
	}
	t.Fatal("this test needs Chromium: on Debian, the package chromium")
	return nil
}

func TestBrowserFlow(t *testing.T) {
	runScript(t, "browser-flow.mjs", startBrowser(t, interopSite))
}

// looksSite asks for patience after three failures, and has an application with long names.
var looksSite = strings.NewReplacer("login off", "login 3/1m per account", "client house {", `client long {
			name "Donaudampfschifffahrtsgesellschaftskapitänsmützenverwaltung für Mitarbeitende"
			type public
			redirect_uris LONGREDIRECT
		}
		client house {`).Replace(interopSite)

// TestBrowserLooks leaves its pictures in the directory that GATEHOUSE_SCREENSHOTS names.
func TestBrowserLooks(t *testing.T) {
	const long = "https://customer-relationship-management.eu-central-1.department-of-navigation.example.com/callback"
	given := startBrowser(t, strings.ReplaceAll(looksSite, "LONGREDIRECT", long))
	given["clients"].(map[string]map[string]string)["long"] = map[string]string{"id": "long", "redirectURI": long}
	pictures, err := filepath.Abs(cmp.Or(os.Getenv("GATEHOUSE_SCREENSHOTS"), t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	given["screenshots"] = pictures
	runScript(t, "browser-looks.mjs", given)
}
