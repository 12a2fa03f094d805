package caddymodule

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// portalGuide runs a guide for applications without sign-in of their own: its first Caddyfile at hosts below localhost, with our upstream
// behind it, and its commands. Changes are replacements in the Caddyfile.
func portalGuide(t *testing.T, name string, changes ...string) *hostsGate {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../docs/guides", name+".md"))
	check(t, err)
	blocks := regexp.MustCompile("(?ms)^```(caddyfile|console)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1)
	site := blocks[0][2]
	site = regexp.MustCompile(`127\.0\.0\.1:300\d`).ReplaceAllString(site, "UPSTREAM")
	site = regexp.MustCompile(`(?m)^([a-z]+)\.example\.com \{`).ReplaceAllString(site, "http://$1.localhost:TCPPORT {")
	site = strings.NewReplacer("https://auth.example.com", "http://auth.localhost:TCPPORT\n\t\tstore memory", "{\n\toauth {", "{\n\tadmin ADMIN\n\tlog {\n\t\toutput file LOG\n\t}\n\toauth {").Replace(site)
	g := startGatehouse(t, strings.NewReplacer(changes...).Replace(site))
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

// TestGuideProtectAnApplication follows the guide.
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

// TestGuideSeveralApplications signs in the guide's users.
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

// TestGuideOAuth2Proxy signs users in with the guide's Caddyfile, at a test provider in place of the guide's.
func TestGuideOAuth2Proxy(t *testing.T) {
	t.Setenv("CORP_KEY", "0123456789abcdef")
	p := newLyingProvider(t)
	blocks := caddyfilesIn(t, "oauth2-proxy")
	// The second block is for pages alone, so that both kinds of routes are there.
	proxy := strings.ReplaceAll(strings.TrimPrefix(blocks[1], "\t"), "127.0.0.1:3000", "/page* UPSTREAM") + "reverse_proxy UPSTREAM\n"
	g := portalGuide(t, "oauth2-proxy", "provider corp https://login.example.com {", "provider corp "+p.URL+" {\nallow_private_network", "client my-proxy", "client gw", "reverse_proxy UPSTREAM\n", proxy)
	engineer := map[string]any{"sub": "1", "email": "ada@example.com", "email_verified": true, "groups": []string{"engineering", "ops"}}
	p.says(engineer)
	v := g.visitor(t)
	v.endsBy(t, p, g.at("app", "/oauth/sign_in?return=/page%3Fq=1"), g.at("app", "/page?q=1"))
	seen, id := g.upstream.one(t), g.userNamed(t, "ada@example.com").ID
	for prefix, groups := range map[string]string{"X-Auth-Request-": "engineering ops", "X-Forwarded-": "engineering,ops"} {
		seen.has(t, prefix+"Email", "ada@example.com").has(t, prefix+"Groups", groups).has(t, prefix+"User", id)
	}
	forged := []string{"X-Auth-Subject", "root"}
	for _, name := range []string{"User", "Email", "Groups", "Preferred-Username"} {
		for _, name := range []string{"X-Forwarded-" + name, "X-Auth-Request-" + name} {
			forged = append(forged, name, "root", strings.ReplaceAll(name, "-", "_"), "root")
		}
	}
	for path, visitor := range map[string]*visitorOfHosts{"/healthz": g.visitor(t), "/page": v, "/other": v} {
		visitor.send(http.MethodGet, g.at("app", path), "", forged...).is(t, http.StatusOK, path)
		for name, values := range g.upstream.one(t).Header {
			if strings.Contains(strings.Join(values, ""), "root") {
				t.Errorf("%s: a forged header reached the application: %s", path, name)
			}
		}
	}
	g.visitor(t).send(http.MethodGet, g.at("app", "/data"), "").is(t, http.StatusUnauthorized, "a program")
	v.send(http.MethodPost, g.at("app", "/hook"), "", "Sec-Fetch-Site", "cross-site").is(t, http.StatusForbidden, "a form of another site")
	for name, claims := range map[string]map[string]any{
		"another group":  {"sub": "2", "email": "ben@example.com", "email_verified": true, "groups": []string{"sales"}},
		"another domain": {"sub": "3", "email": "eve@evil.example", "email_verified": true, "groups": []string{"engineering"}},
		"not verified":   {"sub": "4", "email": "carl@example.com", "email_verified": false, "groups": []string{"engineering"}},
	} {
		p.says(claims)
		if a, _, _ := g.visitor(t).walkAt(p, g.at("app", "/")); a.status != http.StatusForbidden {
			t.Errorf("%s: %d", name, a.status)
		}
	}
	if a, at, _ := v.walkAt(p, v.signsOut("app")); a.status != http.StatusOK || at != g.at("app", "/oauth/sign_out") || p.signedOut == nil {
		t.Errorf("the sign-out: %d at %s", a.status, at)
	}
	v.holdOut("app", "app")
}

// caddyfilesIn returns the Caddyfiles of a guide and the partial ones.
func caddyfilesIn(t *testing.T, name string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../docs/guides", name+".md"))
	check(t, err)
	for _, block := range regexp.MustCompile("(?ms)^```caddyfile\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, block[1])
	}
	return blocks
}
