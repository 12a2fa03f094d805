package caddymodule

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestA48A89SealedRequestsAreNotTamperedWith: a sealed request changed, older than ten minutes, of another cookie or purpose → 400 page;
// opened by another node or after a key rotation → works.
func TestA48A89SealedRequestsAreNotTamperedWith(t *testing.T) {
	now := setClock(t)
	g := startPeople(t, onDiskPeople...)
	conf := requestOf("conf")
	start := func() (*browser, string) {
		b := g.browser()
		_, fields := formIn(t, b.open(conf.path()))
		return b, fields.Get("pending")
	}
	// refused checks that no page opens a value from a query or a form.
	refused := func(t *testing.T, b *browser, pending string) {
		t.Helper()
		for _, path := range []string{"/oauth/login", "/oauth/consent"} {
			holdPage(t, b.open(path+"?pending="+url.QueryEscape(pending)), http.StatusBadRequest)
			holdPage(t, b.send(path, url.Values{"pending": {pending}, "form_token": {"x"}}), http.StatusBadRequest)
		}
	}
	opens := func(b *browser, pending string) bool {
		p := b.open("/oauth/login?pending=" + url.QueryEscape(pending))
		return p.status == http.StatusOK && strings.Contains(p.body, "Confidential app")
	}
	t.Run("other shapes", func(t *testing.T) {
		b, pending := start()
		flipped := []byte(pending)
		flipped[len(flipped)/2] ^= 1
		for name, value := range map[string]string{
			"a bit": string(flipped), "cut": pending[:len(pending)-1], "longer": pending + "A", "padded": pending + "=", "NUL": "\x00", "garbage": "%%%", "very long": strings.Repeat("A", 7<<10),
		} {
			t.Run(name, func(t *testing.T) { refused(t, b, value) })
		}
		twice := url.QueryEscape(pending)
		holdPage(t, b.open("/oauth/login?pending="+twice+"&pending="+twice), http.StatusBadRequest)
		holdPage(t, b.open("/oauth/consent?pending="), http.StatusBadRequest)
		if !opens(b, pending) {
			t.Error("the genuine one does not open")
		}
	})
	t.Run("another browser", func(t *testing.T) {
		_, pending := start()
		refused(t, g.browser(), pending)
		ada := g.consented("ada@acme.example")
		for _, path := range []string{"/oauth/login", "/oauth/consent"} {
			holdPage(t, ada.open(path+"?pending="+url.QueryEscape(pending)), http.StatusBadRequest)
		}
		holdPage(t, ada.send("/oauth/consent", url.Values{"pending": {pending}, "form_token": {"x"}}), http.StatusBadRequest)
		// A request of our own sign-in page in a tab whose cookie was replaced counts like a link (S110).
		ada.codeToClient(t, ada.send("/oauth/login", url.Values{"pending": {pending}, "form_token": {"x"}}), conf)
		b := g.consented("grace@acme.example")
		_, fields := formIn(t, b.consentFor(t, conf))
		fields.Set("pending", pending)
		fields.Set("decision", "allow")
		b.send("/oauth/consent", fields).is(t, http.StatusBadRequest, "in a form")
	})
	t.Run("another purpose", func(t *testing.T) {
		// Our own values that were sealed or signed for another purpose.
		b := g.consented("ada@acme.example")
		code := b.codeToClient(t, b.open(conf.path()), conf)
		_, account := formIn(t, b.open("/oauth/account"))
		for name, value := range map[string]string{
			"the known browser": b.cookie("gatehouse_device"), "the session": b.cookie("session"), "the token": b.cookie("accessToken"),
			"the browser": b.cookie("gatehouse_browser"), "a code": code, "a form token": account.Get("form_token"),
		} {
			t.Run(name, func(t *testing.T) { refused(t, b, value) })
		}
		for _, text := range []string{"tokens", "tokens-fresh"} { // at the sign-in page these stand for the account page
			holdPage(t, b.open("/oauth/consent?pending="+text), http.StatusBadRequest)
		}
	})
	t.Run("ten minutes", func(t *testing.T) {
		b, pending := start()
		action, fields := formIn(t, b.open(conf.path()))
		now.advance(10*time.Minute - time.Second)
		if !opens(b, pending) {
			t.Error("it does not open in time")
		}
		now.advance(2 * time.Second)
		refused(t, b, pending)
		fields.Set("email", "ada@acme.example")
		fields.Set("password", peoplePassword)
		holdPage(t, b.send(action, fields), http.StatusBadRequest)
		if b.isSignedIn() {
			t.Error("an expired form signs in")
		}
	})
	t.Run("ten minutes on the consent page", func(t *testing.T) {
		b := g.consented("max@acme.example")
		early, late := b.consentFor(t, conf), b.consentFor(t, conf)
		now.advance(10*time.Minute - time.Second)
		b.codeToClient(t, b.decide(early, "allow"), conf)
		now.advance(2 * time.Second)
		holdPage(t, b.decide(late, "allow"), http.StatusBadRequest)
		b.codeToClient(t, b.decide(b.consentFor(t, conf), "allow"), conf)
	})
	t.Run("over a reload", func(t *testing.T) {
		b := g.browser()
		p := b.open(conf.path())
		g.reload(peopleSite(append(onDiskPeople, `name "Confidential app"`, `name "Renamed app"`)...))
		p = b.signIn(p, "rita@rival.example", peoplePassword)
		p = b.open(p.header.Get("Location"))
		holdWords(t, "the consent page", p.body, "Renamed app")
		b.codeToClient(t, b.decide(p, "allow"), conf)
	})
	t.Run("over a reload that takes the redirect URI away", func(t *testing.T) {
		b := g.consented("rita@rival.example")
		page := b.consentFor(t, conf)
		g.reload(peopleSite(append(onDiskPeople, "https://client.example/cb?x=1 ", "")...))
		holdPage(t, b.decide(page, "allow"), http.StatusBadRequest)
		holdPage(t, b.decide(page, "deny"), http.StatusBadRequest)
	})
	t.Run("over a reload that takes a scope away", func(t *testing.T) {
		g.reload(peopleSite(onDiskPeople...))
		wide := conf
		wide.scope = "public orders.read"
		b := g.consented("rita@rival.example")
		page := b.consentFor(t, wide)
		g.reload(peopleSite(append(onDiskPeople, "scopes public trusted refresh_token offline_access orders.read", "scopes public trusted")...))
		code := b.codeToClient(t, b.decide(page, "allow"), wide)
		if got := g.obtain(wide.exchange(code)).Scope; got != "public" {
			t.Errorf("scope %q", got)
		}
	})
}
