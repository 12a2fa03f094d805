package caddymodule

import (
	"html"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestA68A69A86A90EveryPageGuardsItself: every page in every state → `frame-ancestors 'none'`, DENY, a CSP without inline script,
// no-store, no third-party resource, no token in a URL. Package pages has the policies.
func TestA68A69A86A90EveryPageGuardsItself(t *testing.T) {
	g := startPeople(t)
	conf, nat := requestOf("conf"), requestOf("nat")
	stranger, b := g.browser(), g.consented("ada@acme.example")
	sends := func(body string, headers ...string) page {
		return stranger.fetch(http.MethodPost, "/oauth/login", body, append(headers, "Content-Type", urlEncoded)...)
	}
	for name, c := range map[string]struct {
		page   page
		status int
		target string // where the forms may lead, in addition to our own pages
	}{
		"sign-in":              {stranger.open("/oauth/login"), 200, ""},
		"sign-in for a client": {stranger.open(conf.path()), 200, " https://client.example https:"},
		"sign-in failed":       {stranger.signIn(stranger.open(conf.path()), "ada@acme.example", "wrong"), 200, " https://client.example https:"},
		"sign-in again":        {b.ask(conf.with("prompt", "login")), 200, " https://client.example https:"},
		"consent":              {b.consentFor(t, conf), 200, " https://client.example https:"},
		"consent, loopback":    {b.open(nat.path()), 200, " http://127.0.0.1:53123 http:"},
		"consent, scheme":      {b.ask(nat.with("redirect_uri", "com.example.app:/cb")), 200, " com.example.app:"},
		"account":              {b.open("/oauth/account"), 200, ""},
		"sign out":             {b.open("/oauth/logout"), 200, ""},
		"signed out":           {stranger.open("/oauth/logout"), 200, ""},
		"bad client":           {stranger.open("/oauth/authorize?client_id=x"), 400, ""},
		"no request":           {b.open("/oauth/consent"), 400, ""},
		"forged":               {stranger.send("/oauth/login", url.Values{}), 403, ""},
		"no visit":             {b.fetch(http.MethodGet, conf.path(), "", "Sec-Purpose", "prefetch"), 403, ""},
		"other method":         {b.fetch(http.MethodPut, "/oauth/account", ""), 405, ""},
		"too large":            {sends(strings.Repeat("x", 65<<10)), 413, ""},
		"early":                {sends("x=y", "Early-Data", "1"), 425, ""},
		"gzip":                 {sends("x=y", "Content-Encoding", "gzip"), 415, ""},
	} {
		t.Run(name, func(t *testing.T) {
			holdPage(t, c.page, c.status)
			policy := c.page.header.Get("Content-Security-Policy")
			if !slices.Contains(strings.Split(policy, "; "), "form-action 'self'"+c.target) {
				t.Errorf("A69: forms may not lead to%s only: %q", c.target, policy)
			}
			if strings.Contains(policy, "script") || strings.Contains(c.page.body, "<script") {
				t.Error("A69: a script")
			}
		})
	}
	for name, p := range map[string]page{
		"a code": b.open(conf.path()), "an error": b.ask(conf.with("response_type", "token")), "login_required": g.browser().ask(conf.with("prompt", "none")),
		"to the sign-in page": stranger.open("/oauth/account"), "to the account page": b.open("/oauth/login"),
	} {
		if p.status != http.StatusSeeOther || p.header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("A86: %s: %d, Referrer-Policy %q", name, p.status, p.header.Get("Referrer-Policy"))
		}
		holdNoStore(t, p)
		if jwtInText.MatchString(p.header.Get("Location")) {
			t.Errorf("A90: %s: a token in %q", name, p.header.Get("Location"))
		}
	}
}

// TestA88ErrorsInJSON: errors with `Accept: application/json` → JSON, under the same rule about redirects.
func TestA88ErrorsInJSON(t *testing.T) {
	g := startPeople(t)
	b := g.consented("ada@acme.example")
	conf := requestOf("conf")
	hostile := "/oauth/authorize?" + conf.with("redirect_uri", "https://evil.tld/").Encode()
	for _, accept := range []string{"application/json", "application/json;q=0.9, */*;q=0.1", "application/vnd.api+json", "APPLICATION/JSON", "application/json, text/html;q=0.1"} {
		p := b.fetch(http.MethodGet, hostile, "", "Accept", accept)
		if p.status != http.StatusBadRequest || p.header.Get("Location") != "" || p.header.Get("Content-Type") != "application/json; charset=utf-8" || p.header.Get("Vary") != "Accept" {
			t.Errorf("%s: %d %v", accept, p.status, p.header)
		}
		holdNoStore(t, p)
		if member(t, p.body, "error") != "invalid_request" || !description.MatchString(member(t, p.body, "error_description")) || strings.Contains(p.body, "evil") {
			t.Errorf("%s: %s", accept, p.body)
		}
	}
	for _, accept := range []string{"", "*/*", "text/html, application/json", "text/html, application/json;q=0.9", "application/json;q=0, */*", "image/png"} {
		holdRefusal(t, b.fetch(http.MethodGet, hostile, "", "Accept", accept))
	}
	p := b.fetch(http.MethodPost, "/oauth/login", "x=y", "Content-Type", urlEncoded, "Accept", "application/json")
	if p.status != http.StatusForbidden || member(t, p.body, "error") != "invalid_request" {
		t.Errorf("forged: %d %s", p.status, p.body)
	}
	p = b.fetch(http.MethodGet, "/oauth/authorize?"+conf.with("response_type", "token").Encode(), "", "Accept", "application/json")
	b.errorToClient(t, p, conf, "unsupported_response_type", "")
	b.codeToClient(t, b.fetch(http.MethodGet, conf.path(), "", "Accept", "application/json"), conf)
}

// TestA77A78HostileTextsAreText: markup and placeholders of Caddy in every text that a page can show → text, to the letter. Package pages has
// every field of every page, and all naughty strings.
func TestA77A78HostileTextsAreText(t *testing.T) {
	g := startPeople(t, `scope orders.read "Read orders"`, "scope orders.read `</span><script>alert(1)</script>{env.HOME}`")
	const text = `"><script>alert(1)</script>' onload='{{.}} {env.HOME} {http.request.header.Cookie} ${7*7} %s%n`
	registry := g.app().registry
	_, err := registry.People.AddOrganisation(t.Context(), store.Organisation{ID: "tour", Name: text})
	check(t, err)
	client, _, err := registry.Clients.AddClient(t.Context(), store.Client{
		ID: "client-" + text, Name: text, Type: store.PublicClient, Scopes: oauth.Scopes{"public", "orders.read"}, RedirectURIs: []string{"https://tour.example/cb"},
	})
	check(t, err)
	_, err = registry.People.AddUser(t.Context(), store.User{
		Email: "tour@acme.example", Name: text, Organisation: "tour", PasswordHash: oauth.NewSecret(peopleHash()),
	}, oauth.Secret{})
	check(t, err)
	b := g.browser()
	r := requestOf("pub")
	r.clientID, r.redirectURI, r.scope, r.state = client.ID, "https://tour.example/cb", "public orders.read", text
	r.more = url.Values{"login_hint": {text}, "ui_locales": {text}, "error": {text}, "error_description": {text}, "x": {text}}
	hostile := []string{"Referer", text, "User-Agent", text, "Accept-Language", text, "X-Forwarded-For", text, "X-Forwarded-Host", text}
	get := func(path string, query url.Values) page {
		return b.fetch(http.MethodGet, path+"?"+query.Encode(), "", hostile...)
	}
	signIn := b.fetch(http.MethodGet, r.path(), "", hostile...)
	action, fields := formIn(t, signIn)
	fields.Set("email", text)
	fields.Set("password", text)
	failed := b.post(action, fields, hostile...)
	fields.Set("email", "tour@acme.example")
	fields.Set("password", peoplePassword)
	consent := b.fetch(http.MethodGet, b.post(action, fields, hostile...).header.Get("Location"), "", hostile...)
	g.obtain(r.exchange(b.codeToClient(t, b.decide(consent, "allow"), r)))
	refused := b.ask(r.with("scope", text))
	b.errorToClient(t, refused, r, "invalid_scope", descriptionOf(refused))
	for name, p := range map[string]page{"sign-in": signIn, "sign-in failed": failed, "consent": consent, "account": get("/oauth/account", nil)} {
		holdPage(t, p, http.StatusOK)
		if strings.Contains(p.body, "<script>") || strings.Contains(p.body, "' onload") || !strings.Contains(p.body, html.EscapeString(text)) {
			t.Errorf("%s: %s", name, p.body)
		}
	}
	if !strings.Contains(consent.body, html.EscapeString("</span><script>alert(1)</script>{env.HOME}")) {
		t.Error("the words of a scope are not on the consent page to the letter")
	}
	all := url.Values{"x": {text}, "client_id": {text + "x"}, "pending": {text}, "error": {text}, "error_description": {text}}
	for path, status := range map[string]int{"/oauth/logout": http.StatusOK, "/oauth/authorize": http.StatusBadRequest, "/oauth/login": http.StatusBadRequest} {
		p := get(path, all)
		holdPage(t, p, status)
		if strings.Contains(p.body, "alert(1)") || strings.Contains(p.body, "env.HOME") {
			t.Errorf("%s repeats what it was sent: %s", path, p.body)
		}
	}
	for _, path := range []string{"/oauth/<script>alert(1)</script>", "/oauth/login/%3Csvg%20onload=alert(1)%3E", "/oauth/\"onload=alert(1)", "/oauth/..%2f<script>"} {
		status, header, body := g.raw("GET " + path + " HTTP/1.1\nHost: " + g.addr + "\nConnection: close\n\n")
		if status >= 500 || strings.Contains(body, "alert(1)") || header.Get("X-Content-Type-Options") != "nosniff" && status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}

// descriptionOf returns the error_description of a redirect.
func descriptionOf(p page) string { return p.location().Query().Get("error_description") }
