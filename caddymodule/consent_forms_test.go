package caddymodule

import (
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// consentFor opens the consent page of a request in a signed-in browser.
func (b *browser) consentFor(t *testing.T, r request) page {
	t.Helper()
	p := b.ask(r.with("prompt", "consent"))
	holdPage(t, p, http.StatusOK)
	holdWords(t, "the consent page", p.body, `name="decision"`)
	return p
}

// TestA63ConsentFormsComeFromOurPages: a decision without token, with a foreign or used one → 403; a request is decided once. The form
// token is bound to its request, its browser and its origin.
func TestA63ConsentFormsComeFromOurPages(t *testing.T) {
	g := startPeople(t)
	b := g.consented("ada@acme.example")
	conf := requestOf("conf")
	form := func() url.Values {
		_, fields := formIn(t, b.consentFor(t, conf))
		fields.Set("decision", "allow")
		return fields
	}
	for _, headers := range [][]string{{"Origin", "https://evil.tld"}, {"Origin", "null", "Sec-Fetch-Site", "cross-site"}} { // TestA60A63OriginsOfForms has the others
		holdForbidden(t, b.post("/oauth/consent", form(), headers...))
	}
	mallory := g.consented("max@acme.example")
	_, foreign := formIn(t, mallory.consentFor(t, conf))
	tokenOf := func(path string) string {
		_, fields := formIn(t, b.open(path))
		return fields.Get("form_token")
	}
	earlier := form()
	for name, token := range map[string]string{
		"none": "", "made up": strings.Repeat("a", 65), "of another user": foreign.Get("form_token"), "of another request": earlier.Get("form_token"),
		"of the account page": tokenOf("/oauth/account"), "of the sign-out page": tokenOf("/oauth/logout"), "the session": b.cookie("session"),
		"the browser's secret": b.cookie("gatehouse_browser"),
	} {
		t.Run("token "+name, func(t *testing.T) {
			for _, decision := range []string{"allow", "deny"} {
				holdForbidden(t, b.send("/oauth/consent", with(form(), "form_token", token, "decision", decision)))
			}
		})
	}
	t.Run("of another browser", func(t *testing.T) {
		for who, other := range map[string]*browser{"mallory": mallory, "a stranger": g.browser()} {
			if p := other.send("/oauth/consent", form()); p.status != http.StatusBadRequest || p.header.Get("Location") != "" {
				t.Errorf("%s: %d %q", who, p.status, p.header.Get("Location"))
			}
		}
	})
	t.Run("another decision", func(t *testing.T) {
		for _, decision := range []string{"", "ALLOW", "yes", "allow deny", "allow\x00"} {
			fields := form()
			fields.Set("decision", decision)
			holdRefusal(t, b.send("/oauth/consent", fields))
		}
		fields := form()
		fields["decision"] = []string{"deny", "allow"}
		holdRefusal(t, b.send("/oauth/consent", fields))
	})
	for _, first := range []string{"allow", "deny"} {
		t.Run("replayed after "+first, func(t *testing.T) {
			fields := form()
			fields.Set("decision", first)
			b.toClient(t, b.send("/oauth/consent", fields), conf)
			for _, second := range []string{"allow", "deny"} {
				fields.Set("decision", second)
				holdForbidden(t, b.send("/oauth/consent", fields))
			}
			// Going back to the page for a new form token does not allow a second decision either.
			p := b.open("/oauth/consent?pending=" + url.QueryEscape(fields.Get("pending")))
			holdPage(t, p, http.StatusOK)
			holdForbidden(t, b.decide(p, "allow"))
		})
	}
	t.Run("replayed side by side", func(t *testing.T) {
		fields := form()
		var codes atomic.Int64
		tokentest.Together(16, func(int) error {
			if p := b.send("/oauth/consent", fields); p.status == http.StatusSeeOther && p.location().Query().Has("code") {
				codes.Add(1)
			} else if p.status != http.StatusForbidden {
				t.Errorf("%d %q", p.status, p.header.Get("Location"))
			}
			return nil
		})
		if n := codes.Load(); n != 1 {
			t.Errorf("one decision gave %d codes", n)
		}
	})
	t.Run("by GET", func(t *testing.T) {
		fields := form()
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			p := b.fetch(method, "/oauth/consent?"+fields.Encode(), "", "Sec-Fetch-Site", "same-origin")
			if p.status != http.StatusOK || p.header.Get("Location") != "" {
				t.Errorf("%s: %d %q", method, p.status, p.header.Get("Location"))
			}
		}
		holdRefusal(t, b.open("/oauth/consent"))
		b.codeToClient(t, b.send("/oauth/consent", fields), conf)
	})
}

// TestA64A67TheDecisionIsAboutTheSealedRequest: client, scope or redirect URI changed in the consent form → ignored; a scope unticked →
// left out; one added → ignored.
func TestA64A67TheDecisionIsAboutTheSealedRequest(t *testing.T) {
	g := startPeople(t)
	b := g.consented("ada@acme.example")
	r := requestOf("conf")
	r.scope = "trusted public refresh_token"
	form := func() url.Values {
		_, fields := formIn(t, b.consentFor(t, r))
		fields.Set("decision", "allow")
		return fields
	}
	granted := func(t *testing.T, fields url.Values) string {
		t.Helper()
		return g.obtain(r.exchange(b.codeToClient(t, b.send("/oauth/consent", fields), r))).Scope
	}
	t.Run("A64 tampering", func(t *testing.T) {
		for name, value := range map[string]string{
			"client_id": "other", "redirect_uri": "https://evil.tld/", "scope": "trusted public orders.read", "state": "evil", "response_type": "token",
			"code_challenge": challengeOf("evil"), "code_challenge_method": "plain", "user": "u-grace", "sub": "u-grace", "nonce": "x", "id": "x",
		} {
			fields := form()
			fields.Set(name, value)
			code := b.codeToClient(t, b.post("/oauth/consent?"+url.Values{name: {value}}.Encode(), fields), r)
			got := g.obtain(r.exchange(code))
			if who := claims(t, got.AccessToken)["sub"]; got.Scope != r.scope || who != "u-ada" {
				t.Errorf("%s: scope %q for %v", name, got.Scope, who)
			}
		}
	})
	t.Run("A67 added", func(t *testing.T) {
		for _, name := range []string{"scope_3", "scope_9", "scope_-1", "scope_00", "scope_orders.read", "scope"} {
			fields := form()
			fields.Set(name, "on")
			fields.Set(name+"x", "orders.read")
			if got := granted(t, fields); got != r.scope {
				t.Errorf("%s: scope %q", name, got)
			}
		}
	})
	t.Run("A67 unticked all", func(t *testing.T) {
		fields := form()
		for _, box := range []string{"scope_0", "scope_1", "scope_2"} {
			fields.Del(box)
		}
		b.errorToClient(t, b.send("/oauth/consent", fields), r, "access_denied", "")
	})
	t.Run("the gate holds to what was ticked", func(t *testing.T) {
		fields := form()
		fields.Del("scope_0")
		got := g.obtain(r.exchange(b.codeToClient(t, b.send("/oauth/consent", fields), r)))
		if g.alive(got.AccessToken) {
			t.Error("a token without trusted passes")
		}
		g.refused(func() url.Values { v := r.refresh(got.RefreshToken); v.Set("scope", "trusted"); return v }(), http.StatusBadRequest, "invalid_scope")
	})
}

// TestA65A66WhoDecidesAndForWhom: a request sealed for another user, a user switched in between
// → refused; two tabs → each code goes to its own client.
func TestA65A66WhoDecidesAndForWhom(t *testing.T) {
	g := startPeople(t)
	conf, other := requestOf("conf"), requestOf("other")
	t.Run("A65 the user has changed", func(t *testing.T) {
		b := g.consented("ada@acme.example")
		page := b.consentFor(t, conf)
		action, fields := formIn(t, page)
		switchURL := hrefIn(t, page, "switch=1")
		signIn := b.open(switchURL)
		if _, f := formIn(t, signIn); f.Get("email") != "" {
			t.Errorf("the page for another account is filled in with %q", f.Get("email"))
		}
		b.signIn(signIn, "grace@acme.example", peoplePassword).is(t, http.StatusSeeOther, "another account")
		for _, decision := range []string{"allow", "deny"} {
			fields.Set("decision", decision)
			holdForbidden(t, b.send(action, fields))
		}
		// The same request can continue for the user who is signed in now.
		p := b.open("/oauth/consent?pending=" + url.QueryEscape(fields.Get("pending")))
		if !strings.Contains(p.body, "grace@acme.example") || strings.Contains(p.body, "ada@acme.example") {
			t.Errorf("the page is not grace's: %.300s", p.body)
		}
		got := g.obtain(conf.exchange(b.codeToClient(t, b.decide(p, "allow"), conf)))
		if who := claims(t, got.AccessToken)["sub"]; who != "u-grace" {
			t.Errorf("the token is %v's", who)
		}
	})
	t.Run("A65 the account page has changed hands", func(t *testing.T) {
		b := g.consented("ada@acme.example")
		_, fields := formIn(t, b.open("/oauth/account"))
		b.signIn(b.ask(conf.with("prompt", "login")), "grace@acme.example", peoplePassword)
		fields.Set("everywhere", "yes")
		holdForbidden(t, b.send("/oauth/account", fields))
		if !b.isSignedIn() {
			t.Error("grace was signed out by ada's page")
		}
	})
	t.Run("A66 two tabs", func(t *testing.T) {
		b := g.browser()
		one, two := b.open(conf.path()), b.open(other.path())
		consentOne := b.open(b.signIn(one, "max@acme.example", peoplePassword).header.Get("Location"))
		consentTwo := b.open(b.signIn(two, "max@acme.example", peoplePassword).header.Get("Location"))
		codeTwo := b.codeToClient(t, b.decide(consentTwo, "allow"), other)
		codeOne := b.codeToClient(t, b.decide(consentOne, "allow"), conf)
		g.refused(conf.exchange(codeTwo), http.StatusBadRequest, "invalid_grant")
		g.refused(other.exchange(codeOne), http.StatusBadRequest, "invalid_grant")
		for client, got := range map[string]tokens{"conf": g.obtain(conf.exchange(codeOne)), "other": g.obtain(other.exchange(codeTwo))} {
			if c := claims(t, got.AccessToken); c["client_id"] != client || c["sub"] != "u-max" {
				t.Errorf("claims %v", c)
			}
		}
	})
	t.Run("A66 crossed", func(t *testing.T) {
		b := g.consented("ada@acme.example")
		action, one := formIn(t, b.consentFor(t, conf))
		_, two := formIn(t, b.consentFor(t, other))
		crossed := maps.Clone(one)
		crossed["pending"] = two["pending"]
		crossed.Set("decision", "allow")
		holdForbidden(t, b.send(action, crossed))
	})
}

// TestA75A76ConsentIsRemembered: a confidential client approved before, the same scopes → not asked again; a wider scope, a public client
// or a new loopback port → asked.
func TestA75A76ConsentIsRemembered(t *testing.T) {
	g := startPeople(t)
	b := g.consented("ada@acme.example")
	conf := requestOf("conf")
	asks := func(scope string) bool {
		t.Helper()
		p := b.ask(conf.with("scope", scope))
		if p.status == http.StatusSeeOther {
			b.codeToClient(t, p, conf)
		}
		return p.status == http.StatusOK
	}
	for _, c := range []struct {
		scope string
		asks  bool
	}{{"trusted public", false}, {"public trusted", false}, {"public", false}, {"trusted public orders.read", true}, {"orders.read", true}, {"trusted refresh_token", true}} {
		if asks(c.scope) != c.asks {
			t.Errorf("A75 %q: asks %t", c.scope, !c.asks)
		}
	}
	t.Run("A75 a denial is not remembered, and takes nothing back", func(t *testing.T) {
		b.toClient(t, b.decide(b.consentFor(t, conf), "deny"), conf)
		if asks("trusted public") {
			t.Error("it asks for what was allowed")
		}
	})
	t.Run("A75 what was unticked is asked for again", func(t *testing.T) {
		wide := conf
		wide.scope = "trusted public orders.read"
		action, fields := formIn(t, b.consentFor(t, wide))
		fields.Del("scope_2")
		fields.Set("decision", "allow")
		b.codeToClient(t, b.send(action, fields), conf)
		if !asks("trusted public orders.read") {
			t.Error("a scope is granted that was unticked")
		}
	})
	t.Run("A75 another user, another client", func(t *testing.T) {
		grace := g.browser()
		p := grace.open(grace.signIn(grace.open(conf.path()), "grace@acme.example", peoplePassword).header.Get("Location"))
		holdWords(t, "grace's consent page", p.body, `name="decision"`)
		holdWords(t, "other", b.open(requestOf("other").path()).body, `name="decision"`)
	})
	t.Run("A76 public clients", func(t *testing.T) {
		for _, clientID := range []string{"pub", "nat"} {
			r := requestOf(clientID)
			for range 2 {
				p := b.open(r.path())
				holdPage(t, p, http.StatusOK)
				b.codeToClient(t, b.decide(p, "allow"), r)
			}
		}
		r := requestOf("nat")
		r.redirectURI = "http://127.0.0.1:40000/cb"
		holdWords(t, "a new port", b.open(r.path()).body, `name="decision"`, "127.0.0.1:40000")
	})
	t.Run("first party", func(t *testing.T) {
		b.codeToClient(t, b.open(requestOf("first").path()), requestOf("first"))
	})
	t.Run("A76 a client that has lost its secret", func(t *testing.T) {
		served := strings.ReplaceAll(peopleBlock, "HASH", peopleHash())
		g.reload(strings.Replace(served, "client conf SECRET {", "client conf {\n\t\t\ttype public", 1))
		if !asks("public") {
			t.Error("what was allowed to a client with a secret is granted to anybody who knows its name")
		}
		g.reload(served)
		if asks("public") {
			t.Error("consent is gone")
		}
	})
	t.Run("taken back", func(t *testing.T) {
		b.change("application", "conf")
		if !asks("trusted public") {
			t.Error("consent outlives its removal")
		}
	})
}

// TestA83BetweenPageAndDecision: the session expired, the user disabled or the client deleted between page and decision → sign in again, or
// an error page. Changes of a user by an operator are in token_endings_test.go.
func TestA83BetweenPageAndDecision(t *testing.T) {
	g := startPeople(t)
	registry := g.app().registry
	conf := requestOf("conf")
	startAs := func(email string) (*browser, page) {
		b := g.browser()
		p := b.signIn(b.open(conf.path()), email, peoplePassword)
		return b, b.open(p.header.Get("Location"))
	}
	t.Run("the session has ended", func(t *testing.T) {
		b, page := startAs("ada@acme.example")
		elsewhere := g.consented("ada@acme.example")
		elsewhere.change("everywhere", "yes")
		answer := b.decide(page, "allow")
		b.signsInAgain(t, answer)
		// The old page decided nothing. The request is still pending, and signing in again continues it.
		p := b.signIn(b.open(answer.header.Get("Location")), "ada@acme.example", peoplePassword)
		if p.location().Path == "/oauth/consent" {
			p = b.decide(b.open(p.header.Get("Location")), "allow")
		}
		b.codeToClient(t, p, conf)
	})
	t.Run("the cookie is gone", func(t *testing.T) {
		b, page := startAs("ben@acme.example")
		site, _ := url.Parse(g.url)
		b.jar.SetCookies(site, []*http.Cookie{{Name: "session", MaxAge: -1}})
		b.signsInAgain(t, b.decide(page, "allow"))
	})
	for name, change := range map[string]func(id string) error{
		"disabled": func(id string) error { return registry.Clients.DisableClient(t.Context(), id) },
		"removed":  func(id string) error { return registry.Clients.RemoveClient(t.Context(), id) },
	} {
		t.Run("the client "+name, func(t *testing.T) {
			c, _, err := registry.Clients.AddClient(t.Context(), store.Client{
				Type: store.PublicClient, RedirectURIs: []string{"https://gone.example/cb"},
			})
			check(t, err)
			r := requestOf("pub")
			r.clientID, r.redirectURI, r.scope = c.ID, "https://gone.example/cb", ""
			b := g.consented("ada@acme.example")
			page := b.open(r.path())
			check(t, change(c.ID))
			for _, decision := range []string{"allow", "deny"} {
				holdRefusal(t, b.decide(page, decision))
			}
			holdRefusal(t, b.open(r.path()))
		})
	}
}

// hrefIn returns the address of the first link whose address contains part.
func hrefIn(t *testing.T, p page, part string) string {
	t.Helper()
	for _, quoted := range strings.Split(p.body, `href="`)[1:] {
		address, _, _ := strings.Cut(quoted, `"`)
		if strings.Contains(address, part) {
			return strings.ReplaceAll(address, "&amp;", "&")
		}
	}
	t.Fatalf("no link with %s: %s", part, p.body)
	return ""
}
