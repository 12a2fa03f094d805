package caddymodule

import (
	"net/http"
	"net/url"
	"testing"
)

// TestA81NoAddressLeadsElsewhere: return_to, next and every open-redirect string at the sign-in page → no such parameter, only the sealed
// request decides.
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
		for _, line := range append(openRedirects("client.example"), hostile...) {
			p := b.open("/oauth/login?pending=" + url.QueryEscape(line))
			if p.status != http.StatusBadRequest || p.header.Get("Location") != "" {
				t.Errorf("%q: %d %q", line, p.status, p.header.Get("Location"))
			}
		}
	})
}
