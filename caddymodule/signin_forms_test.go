package caddymodule

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// post submits a form with headers that name its origin.
func (b *browser) post(action string, fields url.Values, headers ...string) page {
	b.t.Helper()
	return b.fetch(http.MethodPost, action, fields.Encode(), append([]string{"Content-Type", urlEncoded}, headers...)...)
}

// origins are what a browser can send as the origin of a form. ISSUER stands for our own origin. The endpoint's own
// test has all of them.
var origins = []struct {
	name    string
	headers []string
	ours    bool
}{
	{"another origin", []string{"Origin", "https://evil.tld"}, false},
	{"no origin, from another site", []string{"Origin", "null", "Sec-Fetch-Site", "cross-site"}, false},
	{"another scheme", []string{"Origin", "https://ADDR"}, false},
	{"our origin", []string{"Origin", "ISSUER"}, true},
	{"our page under no-referrer", []string{"Origin", "null", "Sec-Fetch-Site", "same-origin"}, true},
	{"an old browser", nil, true},
}

func (g *gatehouse) filled(headers []string) []string {
	filled := make([]string, len(headers))
	for i, h := range headers {
		filled[i] = strings.NewReplacer("ISSUER", g.url, "ADDR", g.addr).Replace(h)
	}
	return filled
}

// TestA60A61SignInFormsComeFromOurPages: a sign-in form without token, with another browser's or a used one, from
// another origin, an attacker's credentials posted cross-site → 403, no session. The token belongs to a cookie from
// before the sign-in. This prevents login CSRF, which signs a victim in to the attacker's account.
func TestA60A61SignInFormsComeFromOurPages(t *testing.T) {
	g := startPeople(t)
	form := func(b *browser) url.Values {
		_, fields := formIn(t, b.open("/oauth/login"))
		fields.Set("email", "ada@acme.example")
		fields.Set("password", peoplePassword)
		return fields
	}
	for _, origin := range origins {
		t.Run("from "+origin.name, func(t *testing.T) {
			b := g.browser()
			p := b.post("/oauth/login", form(b), g.filled(origin.headers)...)
			if origin.ours {
				if p.status != http.StatusSeeOther || !b.isSignedIn() {
					t.Errorf("%d: %.200s", p.status, p.body)
				}
				return
			}
			holdForbidden(t, p)
			if b.isSignedIn() {
				t.Error("signed in")
			}
		})
	}
	foreign := func(action string) string { // a genuine token of this browser, for another page
		b := g.consented("ada@acme.example")
		_, fields := formIn(t, b.open(action))
		return fields.Get("form_token")
	}
	genuine := form(g.browser()).Get("form_token")
	for name, token := range map[string]string{
		"none": "", "made up": strings.Repeat("a", len(genuine)), "short": "x", "long": genuine + "a", "of another browser": genuine,
		"of another page in another browser": foreign("/oauth/logout"), "cut": genuine[:len(genuine)-1], "spaces": " ", "long garbage": strings.Repeat("z", 4<<10),
	} {
		t.Run("token "+name, func(t *testing.T) {
			b := g.browser()
			fields := form(b)
			fields.Set("form_token", token)
			holdForbidden(t, b.send("/oauth/login", fields))
			fields.Del("form_token")
			holdForbidden(t, b.send("/oauth/login", fields))
			if b.isSignedIn() {
				t.Error("signed in")
			}
		})
	}
	t.Run("tokens of other pages", func(t *testing.T) {
		b := g.consented("grace@acme.example")
		for _, other := range []string{"/oauth/account", "/oauth/logout"} {
			_, fields := formIn(t, b.open(other))
			fields.Set("email", "ada@acme.example")
			fields.Set("password", peoplePassword)
			holdForbidden(t, b.send("/oauth/login", fields))
		}
		signIn := form(g.browser()).Get("form_token")
		for _, other := range []string{"/oauth/account", "/oauth/logout"} {
			holdForbidden(t, b.send(other, url.Values{"form_token": {signIn}, "everywhere": {"yes"}}))
		}
		if p := b.open("/oauth/account"); !strings.Contains(p.body, "grace@acme.example") {
			t.Errorf("grace is not signed in any more: %d", p.status)
		}
	})
	t.Run("reused", func(t *testing.T) {
		b := g.browser()
		fields := form(b)
		if p := b.send("/oauth/login", fields); p.status != http.StatusSeeOther {
			t.Fatalf("%d", p.status)
		}
		before := b.cookie("session")
		p := b.send("/oauth/login", fields)
		holdForbidden(t, p)
		fields.Set("email", "grace@acme.example")
		holdForbidden(t, b.send("/oauth/login", fields))
		if b.cookie("session") != before || !b.isSignedIn() {
			t.Error("a form that was used up changed the session")
		}
	})
	t.Run("reused side by side", func(t *testing.T) {
		b := g.browser()
		fields := form(b)
		statuses := make(chan int, 8)
		var all sync.WaitGroup
		for range cap(statuses) {
			all.Go(func() { statuses <- b.send("/oauth/login", fields).status })
		}
		all.Wait()
		close(statuses)
		opened := 0
		for status := range statuses {
			switch status {
			case http.StatusSeeOther:
				opened++
			case http.StatusForbidden, http.StatusServiceUnavailable: // when all hashing slots are taken
			default:
				t.Errorf("status %d", status)
			}
		}
		if opened != 1 {
			t.Errorf("one form opened %d sessions", opened)
		}
	})
	t.Run("A61 sign-in CSRF", func(t *testing.T) {
		attacker, victim := g.browser(), g.browser()
		fields := form(attacker)
		fields.Set("email", "max@acme.example")
		for _, prepare := range []func(){func() {}, func() { victim.open("/oauth/login") }} {
			prepare()
			holdForbidden(t, victim.post("/oauth/login", fields, "Origin", "https://evil.tld", "Sec-Fetch-Site", "cross-site"))
			holdForbidden(t, victim.post("/oauth/login", fields))
			holdForbidden(t, victim.post("/oauth/login", fields, "Origin", "null"))
		}
		// Even with the attacker's cookie planted in the victim's browser, the form comes from another origin.
		site, _ := url.Parse(g.url)
		victim.jar.SetCookies(site, []*http.Cookie{{Name: "gatehouse_browser", Value: attacker.cookie("gatehouse_browser")}})
		holdForbidden(t, victim.post("/oauth/login", fields, "Origin", "https://evil.tld", "Sec-Fetch-Site", "cross-site"))
		holdForbidden(t, victim.post("/oauth/login", fields, "Origin", "null", "Sec-Fetch-Site", "same-site"))
		if victim.isSignedIn() {
			t.Error("the victim is signed in as the attacker")
		}
	})
	t.Run("other media", func(t *testing.T) {
		b := g.browser()
		fields := form(b)
		for _, media := range []string{"text/plain", "", "application/xml"} {
			p := b.fetch(http.MethodPost, "/oauth/login", fields.Encode(), "Content-Type", media)
			holdPage(t, p, http.StatusBadRequest)
		}
		doubled := fields.Encode() + "&email=max%40acme.example"
		holdPage(t, b.fetch(http.MethodPost, "/oauth/login", doubled, "Content-Type", urlEncoded), http.StatusBadRequest)
		holdPage(t, b.fetch(http.MethodPost, "/oauth/login?"+fields.Encode(), "", "Content-Type", urlEncoded), http.StatusForbidden)
		if b.isSignedIn() {
			t.Error("signed in")
		}
	})
	g.notLogged(t, peoplePassword, url.QueryEscape(peoplePassword), genuine)
}

// TestA62SignInByAddress: credentials in the query of a GET → ignored, neither shown nor logged.
func TestA62SignInByAddress(t *testing.T) {
	g := startPeople(t)
	b := g.browser()
	_, fields := formIn(t, b.open("/oauth/login"))
	fields.Set("email", "ada@acme.example")
	fields.Set("password", peoplePassword)
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		p := b.fetch(method, "/oauth/login?"+fields.Encode(), "", "Sec-Fetch-Site", "same-origin")
		if p.status != http.StatusOK || strings.Contains(p.body, peoplePassword) || strings.Contains(p.body, "ada@acme.example") || cookiesIn(p)["session"] != nil {
			t.Errorf("%s: %d %v %.300s", method, p.status, p.header, p.body)
		}
	}
	for _, target := range []string{"/oauth/logout?form_token=x", "/oauth/consent?decision=allow", "/oauth/account?everywhere=yes"} {
		c := g.consented("ada@acme.example")
		c.open(target)
		if !c.isSignedIn() {
			t.Errorf("%s has signed out", target)
		}
	}
	if b.isSignedIn() {
		t.Error("signed in")
	}
	g.notLogged(t, peoplePassword, url.QueryEscape(peoplePassword))
	if p := b.signIn(b.open("/oauth/login"), "ada@acme.example", peoplePassword); p.status != http.StatusSeeOther || !b.isSignedIn() {
		t.Errorf("by form: %d", p.status)
	}
}

// TestA79KnownAndUnknownUsersLookTheSame: a sign-in with a known and with an unknown address → the same body, headers and cookies.
func TestA79KnownAndUnknownUsersLookTheSame(t *testing.T) {
	g := startPeople(t)
	disabled := g.addUser("gone@acme.example", "acme", "member")
	check(t, g.app().registry.People.SetUserStatus(t.Context(), disabled, "disabled"))
	locked := g.addUser("lock@acme.example", "acme", "member")
	check(t, g.app().registry.People.SetUserStatus(t.Context(), locked, "locked"))
	attempt := func(email, password string) (page, string) {
		b := g.browser()
		p := b.open(requestOf("conf").path())
		_, before := formIn(t, p)
		p = b.signIn(p, email, password)
		holdPage(t, p, http.StatusOK)
		_, after := formIn(t, p)
		if after.Get("pending") != before.Get("pending") {
			t.Error("the pending request is another one")
		}
		masked := strings.NewReplacer(email, "ADDRESS", after.Get("form_token"), "TOKEN", after.Get("pending"), "PENDING").Replace(p.body)
		p.header.Del("Date")
		return p, masked
	}
	known, knownBody := attempt("ada@acme.example", "wrong")
	if !strings.Contains(knownBody, "do not match") || strings.Contains(known.body, "wrong\"") {
		t.Errorf("%s", knownBody)
	}
	for name, who := range map[string][2]string{
		"unknown": {"bob@acme.example", "wrong"}, "of another organisation": {"bob@nowhere.example", "wrong"}, "disabled": {"gone@acme.example", peoplePassword},
		"locked": {"lock@acme.example", peoplePassword}, "disabled and wrong": {"gone@acme.example", "wrong"}, "no address": {"not-an-address", "wrong"},
	} {
		t.Run(name, func(t *testing.T) {
			p, body := attempt(who[0], who[1])
			if p.status != known.status || body != knownBody {
				t.Errorf("%d %s\nwant %s", p.status, body, knownBody)
			}
			if len(who[0]) == len("ada@acme.example") && len(p.body) != len(known.body) {
				t.Errorf("%d bytes, want %d", len(p.body), len(known.body))
			}
			if got, want := len(p.header.Values("Set-Cookie")), len(known.header.Values("Set-Cookie")); got != want {
				t.Errorf("%d cookies, want %d", got, want)
			}
			for name := range known.header {
				if name != "Content-Length" && p.header.Get(name) != known.header.Get(name) {
					t.Errorf("%s: %q, want %q", name, p.header.Get(name), known.header.Get(name))
				}
			}
		})
	}
	t.Run("sign-in by an address in another spelling", func(t *testing.T) {
		for _, email := range []string{"ADA@ACME.example", " ada@acme.example ", "ａda@acme.example", "ada@acme.example."} {
			b := g.browser()
			if p := b.signIn(b.open("/oauth/login"), email, peoplePassword); p.status != http.StatusSeeOther || !b.isSignedIn() {
				t.Errorf("%q: %d", email, p.status)
			}
		}
	})
	t.Run("passwords that are none", func(t *testing.T) {
		b := g.browser()
		for name, password := range map[string]string{"NUL": "a\x00b", "2 KiB": strings.Repeat("p", 2<<10)} {
			p := b.signIn(b.open("/oauth/login"), "ada@acme.example", password)
			if p.status != http.StatusBadRequest {
				t.Errorf("%s: %d", name, p.status)
			}
		}
		for name, password := range map[string]string{"empty": "", "cut": peoplePassword[:len(peoplePassword)-1], "space": peoplePassword + " ", "case": strings.ToUpper(peoplePassword)} {
			if p := b.signIn(b.open("/oauth/login"), "ada@acme.example", password); p.status != http.StatusOK || b.cookie("session") != "" {
				t.Errorf("%s: %d", name, p.status)
			}
		}
	})
	t.Run("login_hint", func(t *testing.T) {
		b := g.browser()
		p := b.ask(requestOf("conf").with("login_hint", "ada@acme.example"))
		if _, fields := formIn(t, p); fields.Get("email") != "ada@acme.example" || fields.Get("password") != "" {
			t.Errorf("filled in: %q", fields.Get("email"))
		}
		p = b.ask(requestOf("conf").with("login_hint", "bob@nowhere.example"))
		if _, fields := formIn(t, p); fields.Get("email") != "bob@nowhere.example" {
			t.Errorf("an unknown one: %q", fields.Get("email"))
		}
	})
}
