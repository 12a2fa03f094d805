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
	everything := make(url.Values)
	for _, name := range []string{"return_to", "next", "redirect", "redirect_uri", "continue", "url", "returnUrl", "goto", "target", "RelayState", "pending_url", "origin"} {
		everything.Set(name, "https://evil.tld/")
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
	holdChanged(t, b.post("/oauth/login?"+everything.Encode(), fields), "/oauth/account")
	holdChanged(t, b.open("/oauth/login?"+everything.Encode()), "/oauth/account")
	action, fields := formIn(t, b.open("/oauth/logout?"+everything.Encode()))
	fields.Set("post_logout_redirect_uri", "https://evil.tld/")
	holdChanged(t, b.post(action+"?"+everything.Encode(), fields), "/oauth/logout")
	stranger := g.browser()
	for _, line := range append(openRedirects("client.example"), "https://evil.tld/", "javascript:alert(1)", "/%0d%0aLocation:%20https://evil.tld") {
		if p := stranger.open("/oauth/login?pending=" + url.QueryEscape(line)); p.status != http.StatusBadRequest || p.header.Get("Location") != "" {
			t.Errorf("%q: %d %q", line, p.status, p.header.Get("Location"))
		}
	}
}
