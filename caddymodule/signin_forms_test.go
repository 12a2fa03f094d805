package caddymodule

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
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

// TestA60A61A62SignInFormsComeFromOurPages: a sign-in form without token, with another browser's or a used one, from
// another origin, an attacker's credentials posted cross-site → 403, no session. The token belongs to a cookie from
// before the sign-in. This prevents login CSRF, which signs a victim in to the attacker's account. Credentials in the
// query of a GET → ignored, neither shown nor logged.
func TestA60A61A62SignInFormsComeFromOurPages(t *testing.T) {
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
			if b.isSignedIn() != origin.ours {
				t.Errorf("%d: %.200s", p.status, p.body)
			}
			if !origin.ours {
				holdForbidden(t, p)
			}
		})
	}
	b := g.browser()
	fields := form(b)
	genuine := fields.Get("form_token")
	_, page := formIn(t, g.consented("ada@acme.example").open("/oauth/logout"))
	for _, token := range [][]string{nil, {""}, {"x"}, {genuine[:len(genuine)-1]}, form(g.browser())["form_token"], page["form_token"]} {
		fields["form_token"] = token
		holdForbidden(t, b.send("/oauth/login", fields))
	}
	fields.Set("form_token", genuine)
	if p := b.send("/oauth/login", fields); p.status != http.StatusSeeOther || !b.isSignedIn() {
		t.Fatalf("%d", p.status)
	}
	session := b.cookie("session")
	holdForbidden(t, b.send("/oauth/login", fields))
	fields.Set("email", "grace@acme.example")
	holdForbidden(t, b.send("/oauth/login", fields))
	if b.cookie("session") != session || !b.isSignedIn() {
		t.Error("a form that was used up changed the session")
	}
	t.Run("A61 sign-in CSRF", func(t *testing.T) {
		attacker, victim := g.browser(), g.browser()
		fields := form(attacker)
		holdForbidden(t, victim.post("/oauth/login", fields))
		victim.open("/oauth/login")
		holdForbidden(t, victim.post("/oauth/login", fields))
		// Even with the attacker's cookie planted in the victim's browser, the form comes from another origin.
		site, _ := url.Parse(g.url)
		victim.jar.SetCookies(site, []*http.Cookie{{Name: "gatehouse_browser", Value: attacker.cookie("gatehouse_browser")}})
		holdForbidden(t, victim.post("/oauth/login", fields, "Origin", "https://evil.tld", "Sec-Fetch-Site", "cross-site"))
		holdForbidden(t, victim.post("/oauth/login", fields, "Origin", "null", "Sec-Fetch-Site", "same-site"))
		if victim.isSignedIn() {
			t.Error("the victim is signed in as the attacker")
		}
	})
	b = g.browser()
	fields = form(b)
	holdPage(t, b.fetch(http.MethodPost, "/oauth/login", fields.Encode(), "Content-Type", "text/plain"), http.StatusBadRequest)
	holdPage(t, b.fetch(http.MethodPost, "/oauth/login?"+fields.Encode(), "", "Content-Type", urlEncoded), http.StatusForbidden)
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		p := b.fetch(method, "/oauth/login?"+fields.Encode(), "", "Sec-Fetch-Site", "same-origin")
		if p.status != http.StatusOK || strings.Contains(p.body, peoplePassword) || strings.Contains(p.body, "ada@acme.example") {
			t.Errorf("%s: %d %v %.300s", method, p.status, p.header, p.body)
		}
	}
	if b.isSignedIn() {
		t.Error("signed in by a form in another place")
	}
	b = g.consented("ada@acme.example")
	for _, target := range []string{"/oauth/logout?form_token=x", "/oauth/consent?decision=allow", "/oauth/account?everywhere=yes"} {
		if b.open(target); !b.isSignedIn() {
			t.Errorf("%s has signed out", target)
		}
	}
	g.notLogged(t, peoplePassword, url.QueryEscape(peoplePassword), genuine)
}

// TestA79KnownAndUnknownUsersLookTheSame: a sign-in with a known and with an unknown address → the same body, headers and cookies.
func TestA79KnownAndUnknownUsersLookTheSame(t *testing.T) {
	g := startPeople(t)
	for status, email := range map[store.UserStatus]string{store.UserDisabled: "gone@acme.example", store.UserLocked: "lock@acme.example"} {
		check(t, g.app().registry.People.SetUserStatus(t.Context(), g.addUser(email, "acme", "member"), status))
	}
	attempt := func(email, password string) (page, string) {
		b := g.browser()
		p := b.open(requestOf("conf").path())
		_, before := formIn(t, p)
		p = b.signIn(p, email, password)
		holdPage(t, p, http.StatusOK)
		_, after := formIn(t, p)
		if after.Get("pending") != before.Get("pending") || b.cookie("session") != "" {
			t.Error("the pending request is another one, or there is a session")
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
		"the password cut": {"ada@acme.example", peoplePassword[:len(peoplePassword)-1]}, "and a space": {"ada@acme.example", peoplePassword + " "}, "no password": {"ada@acme.example", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, body := attempt(who[0], who[1])
			if p.status != known.status || body != knownBody {
				t.Errorf("%d %s\nwant %s", p.status, body, knownBody)
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
	b := g.browser()
	p := b.ask(requestOf("conf").with("login_hint", "bob@nowhere.example"))
	if _, fields := formIn(t, p); fields.Get("email") != "bob@nowhere.example" {
		t.Errorf("the hint of an unknown one: %q", fields.Get("email"))
	}
	if p := b.signIn(p, "ada@acme.example", "a\x00b"); p.status != http.StatusBadRequest {
		t.Errorf("a password that is no text: %d", p.status)
	}
	if p := b.signIn(b.open("/oauth/login"), " ａDA@acme.example.", peoplePassword); p.status != http.StatusSeeOther || !b.isSignedIn() {
		t.Errorf("an address in another spelling: %d", p.status)
	}
}
