package caddymodule

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestA68A69A86A90EveryPageGuardsItself: every page in every state → `frame-ancestors 'none'`, DENY, a CSP without inline script,
// no-store, no third-party resource, no token in a URL.
func TestA68A69A86A90EveryPageGuardsItself(t *testing.T) {
	g := startPeople(t)
	conf, nat := requestOf("conf"), requestOf("nat")
	stranger, b := g.browser(), g.consented("ada@acme.example")
	put := func(path string) page { return stranger.fetch(http.MethodPut, path, "") }
	for name, c := range map[string]struct {
		page   page
		status int
		target string // where the forms may lead, in addition to our own pages
	}{
		"sign-in":                 {stranger.open("/oauth/login"), 200, ""},
		"sign-in for a client":    {stranger.open(conf.path()), 200, "https://client.example"},
		"sign-in, HEAD":           {stranger.fetch(http.MethodHead, "/oauth/login", ""), 200, ""},
		"sign-in failed":          {stranger.signIn(stranger.open(conf.path()), "ada@acme.example", "wrong"), 200, "https://client.example"},
		"sign-in again":           {b.ask(conf.with("prompt", "login")), 200, "https://client.example"},
		"consent":                 {b.consentFor(t, conf), 200, "https://client.example"},
		"consent, loopback":       {b.open(nat.path()), 200, "http://127.0.0.1:53123"},
		"consent, scheme":         {b.ask(nat.with("redirect_uri", "com.example.app:/cb")), 200, "com.example.app:"},
		"account":                 {b.open("/oauth/account"), 200, ""},
		"sign out":                {b.open("/oauth/logout"), 200, ""},
		"signed out":              {stranger.open("/oauth/logout"), 200, ""},
		"bad client":              {stranger.open("/oauth/authorize?client_id=x"), 400, ""},
		"bad redirect URI":        {b.ask(conf.with("redirect_uri", "https://evil.tld/")), 400, ""},
		"expired":                 {stranger.open("/oauth/login?pending=x"), 400, ""},
		"no request":              {b.open("/oauth/consent"), 400, ""},
		"forged":                  {stranger.send("/oauth/login", url.Values{}), 403, ""},
		"no visit":                {b.fetch(http.MethodGet, conf.path(), "", "Sec-Purpose", "prefetch"), 403, ""},
		"authorize, other method": {put("/oauth/authorize"), 405, ""}, "sign-in, other method": {put("/oauth/login"), 405, ""}, "account, other method": {put("/oauth/account"), 405, ""},
		"too large": {stranger.fetch(http.MethodPost, "/oauth/login", strings.Repeat("x", 65<<10), "Content-Type", urlEncoded), 413, ""},
		"early":     {stranger.fetch(http.MethodPost, "/oauth/login", "x=y", "Content-Type", urlEncoded, "Early-Data", "1"), 425, ""},
		"gzip":      {stranger.fetch(http.MethodPost, "/oauth/login", "x=y", "Content-Type", urlEncoded, "Content-Encoding", "gzip"), 415, ""},
	} {
		t.Run(name, func(t *testing.T) {
			holdPage(t, c.page, c.status)
			policy := c.page.header.Get("Content-Security-Policy")
			want := "form-action 'self'"
			if c.target != "" {
				want += " " + c.target
				if scheme, _, found := strings.Cut(c.target, "//"); found { // for the redirects after it
					want += " " + scheme
				}
			}
			if directives := strings.Split(policy, "; "); !slices.Contains(directives, want) {
				t.Errorf("A69: no %q in %q", want, policy)
			}
			if strings.Contains(policy, "script") || strings.Contains(c.page.body, "<script") {
				t.Error("A69: a script")
			}
		})
	}
	t.Run("A86 redirects", func(t *testing.T) {
		for name, p := range map[string]page{
			"a code": b.open(conf.path()), "an error": b.ask(conf.with("response_type", "token")), "login_required": g.browser().ask(conf.with("prompt", "none")),
			"to the sign-in page": stranger.open("/oauth/account"), "to the account page": b.open("/oauth/login"),
		} {
			if p.status != http.StatusSeeOther || p.header.Get("Referrer-Policy") != "no-referrer" {
				t.Errorf("%s: %d, Referrer-Policy %q", name, p.status, p.header.Get("Referrer-Policy"))
			}
			holdNoStore(t, p)
			if jwtInText.MatchString(p.header.Get("Location")) {
				t.Errorf("A90: %s: a token in %q", name, p.header.Get("Location"))
			}
		}
	})
}

// TestA88ErrorsInJSON: errors with `Accept: application/json` → JSON, under the same rule about redirects.
func TestA88ErrorsInJSON(t *testing.T) {
	g := startPeople(t)
	b := g.consented("ada@acme.example")
	conf := requestOf("conf")
	hostile := "/oauth/authorize?" + conf.with("redirect_uri", "https://evil.tld/").Encode()
	for _, accept := range []string{"application/json", "application/json;q=0.9, */*;q=0.1", "application/vnd.api+json", "APPLICATION/JSON", "application/json, text/html;q=0.1"} {
		p := b.fetch(http.MethodGet, hostile, "", "Accept", accept)
		if p.status != http.StatusBadRequest || p.header.Get("Location") != "" || p.header.Get("Content-Type") != "application/json; charset=utf-8" {
			t.Errorf("%s: %d %v", accept, p.status, p.header)
		}
		holdNoStore(t, p)
		if member(t, p.body, "error") != "invalid_request" || !description.MatchString(member(t, p.body, "error_description")) || strings.Contains(p.body, "evil") {
			t.Errorf("%s: %s", accept, p.body)
		}
		if p.header.Get("Vary") != "Accept" {
			t.Errorf("Vary: %q", p.header.Get("Vary"))
		}
	}
	for _, accept := range []string{"", "*/*", "text/html", "text/html, application/json", "text/html, application/json;q=0.9", "application/json;q=0, */*", "image/png"} {
		holdRefusal(t, b.fetch(http.MethodGet, hostile, "", "Accept", accept))
	}
	for name, c := range map[string]struct {
		page   page
		status int
	}{
		"forged":  {b.fetch(http.MethodPost, "/oauth/login", "x=y", "Content-Type", urlEncoded, "Accept", "application/json"), 403},
		"method":  {b.fetch(http.MethodPut, "/oauth/account", "", "Accept", "application/json"), 405},
		"expired": {b.fetch(http.MethodGet, "/oauth/login?pending=x", "", "Accept", "application/json"), 400},
	} {
		if c.page.status != c.status || member(t, c.page.body, "error") != "invalid_request" {
			t.Errorf("%s: %d %s", name, c.page.status, c.page.body)
		}
	}
	p := b.fetch(http.MethodGet, "/oauth/authorize?"+conf.with("response_type", "token").Encode(), "", "Accept", "application/json")
	b.errorToClient(t, p, conf, "unsupported_response_type", "")
	b.codeToClient(t, b.fetch(http.MethodGet, conf.path(), "", "Accept", "application/json"), conf)
	holdPage(t, g.browser().fetch(http.MethodGet, "/oauth/login", "", "Accept", "application/json"), http.StatusOK)
}

// hostileTexts are markup for each context of a page, and texts that Caddy or a layer in between could expand. The
// pages' own tests use all of them.
var hostileTexts = []string{
	`"><script>alert(1)</script>`, `' onmouseover='alert(1)`, `</title></style></bdi></main><form action=https://evil.tld/><input name=password><!--`, `&lt;script&gt; %3Cscript%3E \u003cscript\u003e`,
	`{{.}} {env.HOME} {http.request.header.Cookie} {file./etc/passwd} ${7*7} <%= 7*7 %> %s%n%x`, "\u202eevil\u202c \u200b\u2028 İ ı ß ſ 社會科學院 הָיְתָה 👩‍❤️‍💋‍👩", strings.Repeat("é", 120),
}

// shape returns the structure of a page: its elements with the names of their attributes, without text.
func shape(t *testing.T, p page) string {
	t.Helper()
	var b strings.Builder
	for n := range nodes(t, p) {
		switch n.Type {
		case html.ElementNode:
			b.WriteString("<" + n.Data)
			for _, a := range n.Attr {
				b.WriteString(" " + a.Key)
			}
			b.WriteString(">")
		case html.CommentNode:
			b.WriteString("<!comment>")
		}
	}
	return b.String()
}

// words returns the texts and the attribute values of a page.
func words(t *testing.T, p page) []string {
	t.Helper()
	var found []string
	for n := range nodes(t, p) {
		if n.Type == html.TextNode {
			found = append(found, n.Data)
		}
		for _, a := range n.Attr {
			found = append(found, a.Val)
		}
	}
	return found
}

// TestA77A78HostileTextsAreText: markup and naughty strings in every text that a page can show → the same elements,
// the text to the letter, no CSP violation. It compares each page with the one that an ordinary text yields.
func TestA77A78HostileTextsAreText(t *testing.T) {
	g := startPeople(t, `scope orders.read "Read orders"`, "scope orders.read `</span><script>alert(1)</script>{env.HOME}`")
	registry := g.app().registry
	tour := func(t *testing.T, number int, text string) map[string]page {
		t.Helper()
		id := fmt.Sprintf("tour-%d", number)
		if _, err := registry.People.AddOrganisation(t.Context(), store.Organisation{ID: id, Name: text}); err != nil {
			t.Fatal(err)
		}
		client, _, err := registry.Clients.AddClient(t.Context(), store.Client{
			ID: "client-" + text[:min(len(text), 200)], Name: text, Type: store.PublicClient, Scopes: oauth.Scopes{"public", "orders.read"},
			RedirectURIs: []string{"https://tour.example/cb"},
		})
		check(t, err)
		if _, err := registry.People.AddUser(t.Context(), store.User{
			Email: id + "@acme.example", Name: text, Organisation: id, PasswordHash: oauth.NewSecret(peopleHash()),
		}, oauth.Secret{}); err != nil {
			t.Fatal(err)
		}
		b := g.browser()
		r := requestOf("pub")
		r.clientID, r.redirectURI, r.scope, r.state = client.ID, "https://tour.example/cb", "public orders.read", text
		r.more = url.Values{"login_hint": {text}, "ui_locales": {text}, "error": {text}, "error_description": {text}, "x": {text}}
		header := url.PathEscape(text)
		if !strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' }) {
			header = text
		}
		hostile := []string{"Referer", header, "User-Agent", header, "Accept-Language", header, "X-Forwarded-For", header, "X-Forwarded-Host", header}
		pages := make(map[string]page)
		pages["sign-in"] = b.fetch(http.MethodGet, r.path(), "", hostile...)
		action, fields := formIn(t, pages["sign-in"])
		fields.Set("email", text)
		fields.Set("password", text)
		pages["sign-in failed"] = b.post(action, fields, hostile...)
		fields.Set("email", id+"@acme.example")
		fields.Set("password", peoplePassword)
		p := b.post(action, fields, hostile...)
		pages["consent"] = b.fetch(http.MethodGet, p.header.Get("Location"), "", hostile...)
		code := b.codeToClient(t, b.decide(pages["consent"], "allow"), r)
		g.obtain(r.exchange(code))
		b.errorToClient(t, b.ask(r.with("scope", text)), r, "invalid_scope", descriptionOf(b.ask(r.with("scope", text))))
		pages["account"] = b.fetch(http.MethodGet, "/oauth/account", "", hostile...)
		pages["sign-out"] = b.fetch(http.MethodGet, "/oauth/logout?x="+url.QueryEscape(text), "", hostile...)
		pages["problem"] = b.fetch(http.MethodGet, "/oauth/authorize?"+url.Values{"client_id": {text + "x"}, "error": {text}}.Encode(), "", hostile...)
		pages["expired"] = b.fetch(http.MethodGet, "/oauth/login?"+url.Values{"pending": {text}, "error_description": {text}}.Encode(), "", hostile...)
		return pages
	}
	const plain = "Plain words"
	expected := tour(t, 0, plain)
	shown := map[string]bool{"sign-in": true, "sign-in failed": true, "consent": true, "account": true}
	for i, text := range hostileTexts {
		t.Run(fmt.Sprintf("%d %.20q", i, text), func(t *testing.T) {
			for name, p := range tour(t, i+1, text) {
				holdPage(t, p, expected[name].status)
				if got, want := shape(t, p), shape(t, expected[name]); got != want {
					t.Errorf("%s is made of\n%s\nwant\n%s", name, got, want)
				}
				all := words(t, p)
				if found := slices.Contains(all, text); found != shown[name] {
					t.Errorf("%s: the text is there: %t", name, found)
				}
			}
		})
	}
	if all := words(t, expected["consent"]); !slices.Contains(all, "</span><script>alert(1)</script>{env.HOME}") {
		t.Error("the words of a scope are not on the consent page to the letter")
	}
	t.Run("controls", func(t *testing.T) {
		b := g.browser()
		for _, text := range []string{"a\x00b", "a\x1bb", "a\nb", "a\x7fb", "\xff\xfe", "\xc0\xaf", "\xed\xa0\x80"} {
			p := b.signIn(b.open("/oauth/login"), text, "x")
			if p.status != http.StatusBadRequest && p.status != http.StatusOK {
				t.Errorf("%q: %d", text, p.status)
			}
			holdPage(t, p, p.status)
		}
	})
	t.Run("paths", func(t *testing.T) {
		for _, path := range []string{"/oauth/<script>alert(1)</script>", "/oauth/login/%3Csvg%20onload=alert(1)%3E", "/oauth/\"onload=alert(1)", "/oauth/..%2f<script>", "/oauth/login?<script>alert(1)</script>"} {
			status, header, body := g.raw("GET " + path + " HTTP/1.1\nHost: " + g.addr + "\nConnection: close\n\n")
			if status >= 500 || strings.Contains(body, "alert(1)") || header.Get("X-Content-Type-Options") != "nosniff" && status != http.StatusBadRequest {
				t.Errorf("%s: %d %s", path, status, body)
			}
		}
	})
}

// descriptionOf returns the error_description of a redirect.
func descriptionOf(p page) string { return p.location().Query().Get("error_description") }
