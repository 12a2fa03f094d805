package caddymodule

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// portalGuide runs a guide about applications that know nothing of sign-in: its first Caddyfile, at hosts below localhost, with our upstream
// behind it, and its commands. What stands in later Caddyfiles replaces the sites of the same name; it may be left out.
func portalGuide(t *testing.T, name string, more ...string) *hostsGate {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../docs/guides", name+".md"))
	check(t, err)
	blocks := regexp.MustCompile("(?ms)^```(caddyfile|console)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1)
	site := blocks[0][2]
	site = regexp.MustCompile(`127\.0\.0\.1:300\d`).ReplaceAllString(site, "UPSTREAM")
	site = regexp.MustCompile(`(?m)^([a-z]+)\.example\.com \{`).ReplaceAllString(site, "http://$1.localhost:TCPPORT {")
	site = strings.NewReplacer("https://auth.example.com", "http://auth.localhost:TCPPORT\n\t\tstore memory", "{\n\toauth {", "{\n\tadmin ADMIN\n\tlog {\n\t\toutput file LOG\n\t}\n\toauth {").Replace(site)
	g := startGatehouse(t, site)
	for _, block := range blocks {
		if block[1] != "console" {
			continue
		}
		for _, line := range strings.Split(strings.TrimSpace(block[2]), "\n") {
			command, found := strings.CutPrefix(line, "$ caddy oauth ")
			if !found {
				t.Fatalf("%s: %q is no command of ours", name, line)
			}
			var args []string
			for _, word := range regexp.MustCompile(`"[^"]*"|\S+`).FindAllString(command, -1) {
				args = append(args, strings.Trim(word, `"`))
			}
			if args[0] == "user" {
				args = append(args, "--password-hash", peopleHash())
			}
			g.ok(args...)
		}
	}
	return &hostsGate{g}
}

// TestGuideProtectAnApplication does what the guide says that takes five minutes.
func TestGuideProtectAnApplication(t *testing.T) {
	g := portalGuide(t, "protect-an-application")
	v := g.visitor(t)
	v.sees("app", "/start?page=2", "ada@example.com", http.StatusOK, "")
	if got := g.upstream.one(t); len(got.Header["X-Auth-Subject"]) != 1 || got.Target != "/start?page=2" {
		t.Errorf("the application sees %s %v", got.Target, got.Header)
	}
	if a, _ := v.walk(g.at("app", "/oauth/sign_out"), ""); a.status >= 400 {
		t.Errorf("signing out: %d", a.status)
	}
}

// TestGuideSeveralApplications signs the guide's people in.
func TestGuideSeveralApplications(t *testing.T) {
	g := portalGuide(t, "several-applications")
	for _, row := range []struct {
		email                       string
		start, wiki, billing, admin int
	}{
		{"ada@example.com", 200, 200, 200, 403}, {"grace@example.com", 200, 200, 200, 200}, {"max@example.com", 200, 403, 403, 403},
	} {
		v := g.visitor(t)
		v.sees("start", "/", row.email, row.start, "")
		v.sees("wiki", "/", "", row.wiki, "")
		v.sees("billing", "/", "", row.billing, "")
		v.sees("billing", "/admin/", "", row.admin, "")
	}
}
