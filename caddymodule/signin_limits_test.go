package caddymodule

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
)

// passwordGrant is a guess without a browser.
func passwordGrant(email, password string) url.Values {
	return url.Values{"grant_type": {"password"}, "email": {email}, "password": {password}}
}

// holdThrottled holds the page that asks for a pause.
func holdThrottled(t *testing.T, p page) {
	t.Helper()
	holdPage(t, p, http.StatusTooManyRequests)
	if seconds, err := strconv.Atoi(p.header.Get("Retry-After")); err != nil || seconds < 1 || seconds > 60 {
		t.Errorf("Retry-After %q", p.header.Get("Retry-After"))
	}
	if !strings.Contains(p.body, "too many attempts") || !strings.Contains(p.body, `name="password"`) {
		t.Errorf("the page: %.300s", p.body)
	}
}

// TestA80GuessingIsThrottled: ten failures a minute and account, on the page and by the password grant together,
// whatever the address is spelled like and wherever the guesses come from.
func TestA80GuessingIsThrottled(t *testing.T) {
	now := setClock(t)
	g := startPeople(t, "\t\t\tlogin off\n", "")
	known := g.browserAt("127.0.0.9")
	if p := known.signIn(known.open("/oauth/login"), "ada@acme.example", peoplePassword); p.status != http.StatusSeeOther {
		t.Fatalf("%d", p.status)
	}
	guess := func(b *browser, email, password string, headers ...string) page {
		now.advance(10 * time.Millisecond) // a sign-in of the same moment is the one that is asked for
		action, fields := formIn(t, b.ask(requestOf("conf").with("prompt", "login")))
		fields.Set("email", email)
		fields.Set("password", password)
		return b.post(action, fields, headers...)
	}
	spellings := []string{"ada@acme.example", "ADA@acme.example", " ada@acme.example", "ada@acme.example.", "ａda@acme.example"}
	for i := range 10 {
		b := g.browserAt(fmt.Sprintf("127.0.0.%d", 10+i))
		spelling := spellings[i%len(spellings)]
		if i%2 == 0 {
			holdPage(t, guess(b, spelling, "wrong", "X-Forwarded-For", fmt.Sprintf("203.0.113.%d", i)), http.StatusOK)
		} else {
			g.refused(passwordGrant(spelling, "wrong"), http.StatusBadRequest, "invalid_grant")
		}
	}
	t.Run("then nobody gets in, by page or grant", func(t *testing.T) {
		for i, spelling := range spellings {
			b := g.browserAt(fmt.Sprintf("127.0.0.%d", 30+i))
			holdThrottled(t, guess(b, spelling, peoplePassword, "X-Forwarded-For", "198.51.100.7", "X-Real-IP", "198.51.100.7"))
			if b.isSignedIn() {
				t.Error("signed in")
			}
		}
		g.refused(passwordGrant("Ada@acme.example", peoplePassword), http.StatusTooManyRequests, "temporarily_unavailable")
	})
	t.Run("the pending request is kept", func(t *testing.T) {
		b := g.browserAt("127.0.0.40")
		p := guess(b, "ada@acme.example", peoplePassword)
		_, fields := formIn(t, p)
		if fields.Get("pending") == "" || fields.Get("email") != "ada@acme.example" {
			t.Errorf("fields %v", fields)
		}
	})
	t.Run("an account that does not exist too", func(t *testing.T) {
		for range 10 {
			g.refused(passwordGrant("bob@nowhere.example", "wrong"), http.StatusBadRequest, "invalid_grant")
		}
		holdThrottled(t, guess(g.browserAt("127.0.0.41"), "bob@nowhere.example", "wrong"))
	})
	t.Run("others get in", func(t *testing.T) {
		b := g.browserAt("127.0.0.42")
		if p := guess(b, "grace@acme.example", peoplePassword); p.status != http.StatusSeeOther {
			t.Errorf("%d", p.status)
		}
	})
	t.Run("so does the owner in a known browser", func(t *testing.T) {
		action, fields := formIn(t, known.open("/oauth/logout"))
		known.send(action, fields)
		if p := guess(known, "ada@acme.example", peoplePassword); p.status != http.StatusSeeOther || !known.isSignedIn() {
			t.Errorf("%d", p.status)
		}
		// The cookie is of one account, and no pass for another or for somebody else's.
		holdThrottled(t, guess(known, "bob@nowhere.example", "wrong"))
	})
	t.Run("a known browser has a limit of its own", func(t *testing.T) {
		for range 10 {
			holdPage(t, guess(known, "ada@acme.example", "wrong"), http.StatusOK)
		}
		holdThrottled(t, guess(known, "ada@acme.example", peoplePassword))
	})
	t.Run("after a minute", func(t *testing.T) {
		now.advance(61 * time.Second)
		b := g.browserAt("127.0.0.43")
		if p := guess(b, "ada@acme.example", peoplePassword); p.status != http.StatusSeeOther || !b.isSignedIn() {
			t.Errorf("%d", p.status)
		}
	})
	t.Run("one address, many accounts", func(t *testing.T) {
		b := g.browserAt("127.0.0.50")
		for i := range 30 {
			if p := guess(b, fmt.Sprintf("u%d@nowhere.example", i), "wrong"); p.status != http.StatusOK {
				t.Fatalf("guess %d: %d", i, p.status)
			}
		}
		holdThrottled(t, guess(b, "max@acme.example", peoplePassword))
		holdThrottled(t, guess(b, "max@acme.example", peoplePassword, "X-Forwarded-For", "203.0.113.77", "Forwarded", "for=203.0.113.77"))
		if p := guess(g.browserAt("127.0.0.51"), "max@acme.example", peoplePassword); p.status != http.StatusSeeOther {
			t.Errorf("from elsewhere: %d", p.status)
		}
	})
	g.notLogged(t, peoplePassword)
}

// TestA81NoAddressLeadsElsewhere: the page has no parameter that says where to go, and what it comes back to is sealed
// and on this site.
func TestA81NoAddressLeadsElsewhere(t *testing.T) {
	g := startPeople(t)
	names := []string{"return_to", "next", "redirect", "redirect_uri", "continue", "url", "returnUrl", "goto", "target", "RelayState", "pending_url", "origin"}
	hostile := []string{
		"https://evil.tld/", "//evil.tld", "https:evil.tld", `\evil.tld`, `/\evil.tld`, "https://127.0.0.1@evil.tld/", "/%0d%0aLocation:%20https://evil.tld", "https://еvil.tld", "javascript:alert(1)",
	}
	account := func(p page) {
		t.Helper()
		if p.status != http.StatusSeeOther || p.header.Get("Location") != "/oauth/account" {
			t.Errorf("%d %q", p.status, p.header.Get("Location"))
		}
	}
	t.Run("names", func(t *testing.T) {
		everything := make(url.Values)
		for i, name := range names {
			everything.Set(name, hostile[i%len(hostile)])
		}
		b := g.browser()
		_, fields := formIn(t, b.open("/oauth/login?"+everything.Encode()))
		for name := range fields {
			if everything.Has(name) {
				t.Errorf("the form has taken %s over", name)
			}
		}
		fields.Set("email", "ada@acme.example")
		fields.Set("password", peoplePassword)
		for name := range everything {
			fields.Set(name, everything.Get(name))
		}
		account(b.post("/oauth/login?"+everything.Encode(), fields))
		account(b.open("/oauth/login?" + everything.Encode()))
		action, fields := formIn(t, b.open("/oauth/logout?"+everything.Encode()))
		fields.Set("post_logout_redirect_uri", "https://evil.tld/")
		if p := b.post(action+"?"+everything.Encode(), fields); p.header.Get("Location") != "/oauth/logout" {
			t.Errorf("signed out to %q", p.header.Get("Location"))
		}
	})
	t.Run("unsealed", func(t *testing.T) {
		b := g.browser()
		for _, line := range append(openRedirects("client.example")[:60], hostile...) {
			p := b.open("/oauth/login?pending=" + url.QueryEscape(line))
			if p.status != http.StatusBadRequest || p.header.Get("Location") != "" {
				t.Errorf("%q: %d %q", line, p.status, p.header.Get("Location"))
			}
		}
	})
	t.Run("sealed", func(t *testing.T) {
		for _, c := range []struct{ asked, back string }{
			{"/api/x?y=1", "/api/x?y=1"}, {"//evil.tld/x", "//evil.tld/x"}, {"/", "/"}, {"http://evil.tld/x", "/x"}, {"http://evil.tld", "/"},
			{"/x?u=https://evil.tld/", "/x?u=https://evil.tld/"}, {"/@evil.tld/", "/@evil.tld/"},
		} {
			address, err := url.Parse(c.asked)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(c.asked, "//") { // as a server reads it: a path
				address = &url.URL{Path: c.asked}
			}
			location, err := g.app().handler.SignInURL(&http.Request{URL: address, Host: "evil.tld"})
			if err != nil {
				t.Errorf("%s: %v", c.asked, err)
				continue
			}
			b := g.browser()
			p := b.signIn(b.open(location), "ada@acme.example", peoplePassword)
			if got := p.header.Get("Location"); p.status != http.StatusSeeOther || got != g.url+c.back {
				t.Errorf("%s leads back to %q", c.asked, got)
			}
		}
	})
	t.Run("sealed, without a path", func(t *testing.T) {
		// GET http:@evil.tld/ HTTP/1.1 is a request that servers read. Behind our origin it would name another host.
		for _, target := range []string{"http:@evil.tld/", "x:evil.tld", "http:.evil.tld/"} {
			address, err := url.ParseRequestURI(target)
			if err != nil {
				t.Fatal(err)
			}
			location, err := g.app().handler.SignInURL(&http.Request{URL: address})
			if err == nil {
				b := g.browser()
				p := b.signIn(b.open(location), "ada@acme.example", peoplePassword)
				t.Errorf("%s leads back to %q", target, p.header.Get("Location"))
			}
		}
	})
}
