package caddymodule

import (
	"net/http"
	"strings"
	"testing"
)

// deniedRoutes are routes of an application with rules about users.
var deniedRoutes = "\n" + gated("/engineering/*", "challenge browser", "require group engineering") +
	handled("handle /people/*", protect("challenge browser", "require /people/ada/* user ada@acme.example", "require /people/acme/* email_domain acme.example",
		"require /people/other/* email_domain other.example"),
		`reverse_proxy UPSTREAM {
	header_up X-Who "{http.auth.user.id}|{http.auth.user.name}|{http.auth.user.email}|{http.auth.user.groups}"
}`)

// TestS42PeopleOfASession: rules by address, id, domain and group with a host session → judged by its user, who is also in the
// placeholders.
func TestS42PeopleOfASession(t *testing.T) {
	g := startHosts(t, "ROUTES", deniedRoutes)
	ada, ben := g.signedIn(t, "ada@acme.example"), g.signedIn(t, "ben@acme.example")
	for name, c := range map[string]struct {
		v    *visitorOfHosts
		path string
		pass bool
	}{
		"address": {ada, "/people/ada/x", true}, "another's": {ben, "/people/ada/x", false},
		"domain": {ben, "/people/acme/x", true}, "another domain": {ada, "/people/other/x", false},
		"group": {ada, "/engineering/x", true}, "no group": {ben, "/engineering/x", false},
	} {
		t.Run(name, func(t *testing.T) {
			a := c.v.navigate(g.at("app", c.path))
			if want := map[bool]int{true: http.StatusOK, false: http.StatusForbidden}[c.pass]; a.status != want {
				t.Errorf("%d, want %d", a.status, want)
			}
			if !c.pass {
				g.upstream.none(t)
				return
			}
			if seen := g.upstream.one(t); c.path == "/people/ada/x" {
				seen.has(t, "X-Who", "u-ada|Ada Admin|ada@acme.example|engineering,Web Team")
			}
		})
	}
}

// TestS43DeniedPage: a rule refuses a signed-in person's navigation → a 403 page that names the account and nothing of the rule; a fetch →
// a plain 403.
func TestS43DeniedPage(t *testing.T) {
	g := startHosts(t, "ROUTES", deniedRoutes)
	v := g.signedIn(t, "ben@acme.example")
	deep := "/engineering/a%20b?q=1&r=%22%3E%3Cscript%3E&access_token=x.y.z"
	for language, words := range map[string][]string{
		"en": {"You may not open this page", "Use another account", "Sign out"}, "de-AT": {"Sie dürfen diese Seite nicht öffnen", "Anderes Konto verwenden", "Abmelden"},
	} {
		a := v.send(http.MethodGet, g.at("app", "/engineering/a%20b?q=1&r=%22%3E%3Cscript%3E"), "", append(navigation, "Accept-Language", language)...)
		if a.status != http.StatusForbidden || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
			t.Fatalf("%d %v", a.status, a.header)
		}
		for _, word := range append(words, "ben@acme.example", `href="/oauth/sign_out"`) {
			if !strings.Contains(a.body, word) {
				t.Errorf("%s: no %q in %s", language, word, a.body)
			}
		}
		for _, word := range []string{"engineering<", "group", "<script"} {
			if strings.Contains(a.body, word) {
				t.Errorf("%s: %q in %s", language, word, a.body)
			}
		}
		if policy := a.header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "script") ||
			a.header.Get("Cache-Control") != "no-store" || a.header.Get("X-Frame-Options") != "DENY" || a.header.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(strings.Join(a.header.Values("Vary"), ","), "Cookie") {
			t.Errorf("%v", a.header)
		}
	}
	if a := v.navigate(g.at("app", deep)); strings.Contains(a.body, "x.y.z") {
		t.Errorf("a token of the query is on the page")
	}
	for name, headers := range map[string][]string{
		"fetch": {"Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty", "Sec-Fetch-Site", "same-origin", "Accept", "text/html"},
		"curl":  {"Accept", "*/*"}, "frame": {"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe", "Accept", "text/html"},
	} {
		if a := v.send(http.MethodGet, g.at("app", deep), "", headers...); a.status != http.StatusForbidden || !strings.Contains(a.body, `"access_denied"`) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	g.upstream.none(t)
}

// TestS44AnotherAccountComesBack: another account chosen on that page → signed in as that one at all hosts, back at the page, the first
// one's sessions ended.
func TestS44AnotherAccountComesBack(t *testing.T) {
	g := startHosts(t, "ROUTES", deniedRoutes)
	v := g.signedIn(t, "ben@acme.example")
	v.walk(g.at("wiki", "/pages/1"), "")
	bens := v.cookie("wiki", hostCookie)
	target := g.at("app", "/engineering/a%20b?q=1&r=%22")
	a := v.navigate(target)
	_, link, _ := strings.Cut(a.body, `class="button primary" href="`)
	link, _, _ = strings.Cut(link, `"`)
	link = strings.NewReplacer("&amp;", "&", "&#43;", "+").Replace(link)
	if !strings.HasPrefix(link, "/oauth/sign_in?") {
		t.Fatalf("%q in %s", link, a.body)
	}
	if a, at := v.walk(g.at("app", link), ""); a.status != http.StatusOK || !strings.Contains(a.body, `name="password"`) ||
		strings.Contains(a.body, "signed in already") || !strings.Contains(a.body, "<bdi>app.localhost") {
		t.Fatalf("it asks nobody who it is: %d at %s", a.status, at)
	}
	g.upstream.seen()
	v.ends(t, g.at("app", link), "ada@acme.example", target)
	g.upstream.one(t).has(t, "X-Auth-Subject", "u-ada")
	g.visitor(t).send(http.MethodGet, g.at("wiki", "/pages/1"), "", "Cookie", hostCookie+"="+bens).is(t, http.StatusUnauthorized, "the first account's session at the other host")
	g.upstream.seen()
	v.walk(g.at("wiki", "/pages/1"), "")
	g.upstream.one(t).has(t, "X-Auth-Subject", "u-ada")
	// The same account gets the same page, without a redirect loop.
	v = g.signedIn(t, "ben@acme.example")
	if a, at := v.walk(g.at("app", link), "ben@acme.example"); a.status != http.StatusForbidden || at != target {
		t.Errorf("%d at %s", a.status, at)
	}
}

// TestS45ErrorRoutesOfTheSiteShowTheirOwnPage: a site's `handle_errors` that answers → its page instead of ours.
func TestS45ErrorRoutesOfTheSiteShowTheirOwnPage(t *testing.T) {
	g := startHosts(t, "ROUTES", deniedRoutes+"\n	handle_errors 403 {\n		@own path /people/*\n		respond @own \"own page of {err.status_code}\"\n	}\n")
	v := g.signedIn(t, "ben@acme.example")
	if a := v.navigate(g.at("app", "/people/ada/x")); a.status != http.StatusForbidden || a.body != "own page of 403" {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := v.navigate(g.at("app", "/engineering/x")); a.status != http.StatusForbidden || !strings.Contains(a.body, "ben@acme.example") {
		t.Errorf("%d %s", a.status, a.body)
	}
}
