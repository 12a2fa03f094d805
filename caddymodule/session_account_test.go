package caddymodule

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// buttons returns the values of a page's buttons with that name.
func buttons(t *testing.T, p page, name string) []string {
	t.Helper()
	var values []string
	for n := range nodes(t, p) {
		if attributes := attributesOf(n); n.Data == "button" && attributes["name"] == name {
			values = append(values, attributes["value"])
		}
	}
	return values
}

// change submits the account page's form with one button.
func (b *browser) change(name, value string) page {
	b.t.Helper()
	action, fields := formIn(b.t, b.open("/oauth/account"))
	fields.Set(name, value)
	return b.send(action, fields)
}

// signOut submits the sign-out form.
func (b *browser) signOut() page {
	b.t.Helper()
	action, fields := formIn(b.t, b.open("/oauth/logout"))
	return b.send(action, fields)
}

// holdChanged checks the answer to a form of the account page.
func holdChanged(t *testing.T, p page, next string) {
	t.Helper()
	if p.status != http.StatusSeeOther || p.header.Get("Location") != next {
		t.Errorf("%d %q, want 303 to %s", p.status, p.header.Get("Location"), next)
	}
	holdNoStore(t, p)
}

// TestT62AccountRemovesAnApplication: an application removed on the account page → its tokens, codes and consent end, and no other's.
func TestT62AccountRemovesAnApplication(t *testing.T) {
	g := startPeople(t)
	b := g.consented("ada@acme.example")
	conf, other, pub := requestOf("conf"), requestOf("other"), requestOf("pub")
	mine, hers := g.userTokens(conf, "ada@acme.example"), g.userTokens(conf, "grace@acme.example")
	beside, public := g.userTokens(other, "ada@acme.example"), g.userTokens(pub, "ada@acme.example")
	password := g.obtain(conf.asPassword("ada@acme.example", peoplePassword))
	waiting := b.codeToClient(t, b.open(conf.path()), conf)
	undecided := b.consentFor(t, conf)
	server := g.token()
	page := b.open("/oauth/account")
	if got := strings.Join(buttons(t, page, "application"), " "); got != "conf pub other" {
		t.Errorf("applications %q", got)
	}
	for _, text := range []string{"Confidential app", "Public app", "Ada Admin", "ada@acme.example", "Acme Ltd", "Administrator"} {
		if !strings.Contains(page.body, text) {
			t.Errorf("the page does not say %q", text)
		}
	}
	holdChanged(t, b.change("application", "conf"), "/oauth/account?done=application")
	for token, lives := range map[string]bool{
		mine.AccessToken: false, password.AccessToken: false, hers.AccessToken: true, beside.AccessToken: true, public.AccessToken: true, b.cookie("accessToken"): true,
	} {
		if g.alive(token) != lives {
			t.Errorf("a token is alive: %t: %v", !lives, claims(t, token))
		}
	}
	g.refused(conf.refresh(mine.RefreshToken), http.StatusBadRequest, "invalid_grant")
	g.refused(conf.exchange(waiting), http.StatusBadRequest, "invalid_grant")
	g.obtain(conf.refresh(hers.RefreshToken))
	if _, _, body := g.post("/oauth/introspect", url.Values{"token": {server}, "client_id": {"conf"}, "client_secret": {confSecret}}); !strings.Contains(body, `"active":true`) {
		t.Errorf("the client's own token: %s", body)
	}
	b.errorToClient(t, b.ask(conf.with("prompt", "none")), conf, "consent_required", "")
	if got := strings.Join(buttons(t, b.open("/oauth/account"), "application"), " "); got != "pub other" {
		t.Errorf("applications left: %q", got)
	}
	b.codeToClient(t, b.decide(undecided, "allow"), conf) // an open consent page still works
	if !strings.Contains(g.logs(), `"application":"conf"`) {
		t.Error("no audit line")
	}
}

// TestAccountEndsSessions ends one session, or all of them. Package endpoint refuses forms of other pages.
func TestAccountEndsSessions(t *testing.T) {
	g := startPeople(t)
	one, two, three := g.consented("ada@acme.example"), g.consented("ada@acme.example"), g.consented("ada@acme.example")
	grace, elsewhere := g.consented("grace@acme.example"), g.consented("grace@acme.example")
	conf := requestOf("conf")
	mine, hers := g.userTokens(conf, "ada@acme.example"), g.userTokens(conf, "grace@acme.example")
	ids := func(b *browser) []string { return buttons(t, b.open("/oauth/account"), "session") }
	// userTokens signed in once more.
	if got := len(ids(one)); got != 3 {
		t.Fatalf("%d other sessions, want 3", got)
	}
	t.Run("one other", func(t *testing.T) {
		own := ids(two)
		only := slices.DeleteFunc(ids(one), func(id string) bool { return slices.Contains(own, id) }) // which two does not list: its own
		token := two.cookie("accessToken")
		holdChanged(t, one.change("session", only[0]), "/oauth/account?done=session")
		if two.isSignedIn() || g.alive(token) {
			t.Error("the session lives on")
		}
		if !one.isSignedIn() || !three.isSignedIn() || !g.alive(mine.AccessToken) || !g.alive(three.cookie("accessToken")) {
			t.Error("more has ended than that")
		}
	})
	t.Run("those of others are left alone", func(t *testing.T) {
		herFamily, _ := claims(t, hers.AccessToken)["sid"].(string)
		family, _ := claims(t, mine.AccessToken)["sid"].(string) // an application's, which is no session
		for _, id := range append(ids(elsewhere), herFamily, family, "unknown", "' OR 1=1--", strings.Repeat("x", 5000), grace.cookie("session"), "*", "%") {
			holdChanged(t, one.change("session", id), "/oauth/account?done=session")
		}
		for _, id := range []string{"unknown", "gatehouse", "u-grace", "*", "' OR 1=1--"} {
			holdChanged(t, one.change("application", id), "/oauth/account?done=application")
		}
		_, fields := formIn(t, one.open("/oauth/account"))
		_, foreign := formIn(t, grace.open("/oauth/account"))
		fields["form_token"] = foreign["form_token"]
		fields.Set("everywhere", "yes")
		holdForbidden(t, one.send("/oauth/account", fields))
		if p := g.browser().send("/oauth/account", fields); p.location().Path != "/oauth/login" {
			t.Errorf("a stranger: %d %q", p.status, p.header.Get("Location"))
		}
		if !grace.isSignedIn() || !elsewhere.isSignedIn() || !one.isSignedIn() || !g.alive(mine.AccessToken) || !g.alive(hers.AccessToken) {
			t.Error("something has ended")
		}
	})
	again := g.consented("ada@acme.example")
	waiting := again.codeToClient(t, again.open(conf.path()), conf)
	token, session := one.cookie("accessToken"), one.cookie("session")
	holdChanged(t, one.change("everywhere", "yes"), "/oauth/logout")
	if one.cookie("session") != "" || one.cookie("accessToken") != "" {
		t.Error("the browser keeps its cookies")
	}
	if p := one.open("/oauth/logout"); !strings.Contains(p.body, "signed out") {
		t.Errorf("%d", p.status)
	}
	if again.isSignedIn() || g.alive(token) || g.alive(mine.AccessToken) {
		t.Error("something lives on")
	}
	if status, _, _ := g.do(http.MethodGet, "/oauth/account", "", "Cookie", "session="+session); status != http.StatusSeeOther {
		t.Errorf("the cookie replayed: %d", status)
	}
	g.refused(conf.refresh(mine.RefreshToken), http.StatusBadRequest, "invalid_grant")
	g.refused(conf.exchange(waiting), http.StatusBadRequest, "invalid_grant")
	if !grace.isSignedIn() || !g.alive(hers.AccessToken) {
		t.Error("grace is signed out too")
	}
	p := one.open("/oauth/account")
	p = one.signIn(one.open(p.header.Get("Location")), "ada@acme.example", peoplePassword)
	if p.status != http.StatusSeeOther || p.header.Get("Location") != "/oauth/account" {
		t.Errorf("back to the account page: %d %q", p.status, p.header.Get("Location"))
	}
}
