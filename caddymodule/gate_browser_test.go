package caddymodule

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/identity"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Browsers at the gate: who is sent to sign in and comes back, and whose session goes on without anybody noticing.

var browserRoutes = gatedBelow("/app/*", "token_from cookie accessToken", "challenge browser", "anonymous /pub/*", "require /orders/* scope orders.read", "require /admins/* role admin") +
	gated("/optional/*", "token_from cookie accessToken", "challenge browser", "optional") +
	gated("/api/*", "token_from cookie accessToken") + gated("/header/*") +
	`	handle {
		respond 404
	}`

// startSignIn serves the people of people_test.go with other routes.
func startSignIn(t *testing.T, routes string, changes ...string) *gateway {
	t.Helper()
	globals, _, _ := strings.Cut(peopleSite(changes...), "\nhttp://ADDR {")
	return startGate(t, strings.ReplaceAll(globals+"\nhttp://ADDR {\n\tlog\n\toauth_server\n"+routes+"\n}\n", "HASH", peopleHash()))
}

// visitor is a browser that has signed in.
func (g *gateway) visitor(t *testing.T, email string) *browser {
	t.Helper()
	b := g.browser()
	b.t = t
	if p := b.signIn(b.open("/oauth/login"), email, peoplePassword); p.status != http.StatusSeeOther || b.cookie("session") == "" {
		t.Fatalf("signing in: %d %s", p.status, p.body)
	}
	g.watched(b.cookie(tokenCookie))
	return b
}

// forget takes a cookie from the browser.
func (b *browser) forget(name string) { b.give(&http.Cookie{Name: name, Path: "/", MaxAge: -1}) }

func (b *browser) give(c *http.Cookie) {
	site, _ := url.Parse(b.url)
	b.jar.SetCookies(site, []*http.Cookie{c})
}

var navigation = []string{"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Sec-Fetch-Site", "none", "Accept", "text/html,*/*;q=0.8"}

func (b *browser) navigate(target string) page {
	return b.fetch(http.MethodGet, target, "", navigation...)
}

func TestTheSessionsTokenIsACredentialWhereTheRouteTakesIt(t *testing.T) {
	g := startSignIn(t, browserRoutes)
	b := g.visitor(t, "ada@acme.example")
	if p := b.open("/header/x"); p.status != http.StatusUnauthorized {
		t.Errorf("a route that takes none: %d", p.status)
	}
	g.upstream.none(t)
	if p := b.open("/api/x"); p.status != http.StatusOK || p.header.Get("Set-Cookie") != "" {
		t.Errorf("%d %v", p.status, p.header)
	}
	seen := g.upstream.one(t)
	seen.has(t, "Cookie").has(t, "Authorization").has(t, identity.Subject, "u-ada").has(t, identity.Organisation, "acme").has(t, identity.Role, "admin")
	seen.has(t, identity.Client, store.BuiltInClientID)
	if p := b.fetch(http.MethodPost, "/api/x", "", "Sec-Fetch-Site", "same-origin"); p.status != http.StatusOK {
		t.Errorf("POST: %d", p.status)
	}
	g.upstream.seen()
	for _, site := range []string{"same-site", "cross-site", "none"} {
		if p := b.fetch(http.MethodPost, "/api/x", "", "Sec-Fetch-Site", site); p.status != http.StatusForbidden {
			t.Errorf("POST %s: %d", site, p.status)
		}
	}
	g.upstream.none(t)
}

// TestA72ASessionStaysFresh: while somebody is signed in, the gate replaces a token that is missing, dead or about to be.
func TestA72ASessionStaysFresh(t *testing.T) {
	life := 6 * time.Hour
	for name, test := range map[string]struct {
		before  func(*browser, *testClock)
		renewed bool
	}{
		"young":                 {func(*browser, *testClock) {}, false},
		"before its last tenth": {func(_ *browser, c *testClock) { c.advance(life*9/10 - time.Minute) }, false},
		"in its last tenth":     {func(_ *browser, c *testClock) { c.advance(life*9/10 + time.Minute) }, true},
		"missing":               {func(b *browser, _ *testClock) { b.forget(tokenCookie) }, true},
		"empty":                 {func(b *browser, _ *testClock) { b.give(&http.Cookie{Name: tokenCookie, Path: "/"}) }, true},
		"expired": {func(b *browser, c *testClock) {
			token := b.cookie(tokenCookie)
			c.advance(life + time.Minute)
			b.give(&http.Cookie{Name: tokenCookie, Value: token, Path: "/"})
		}, true},
		"revoked by itself": {func(b *browser, _ *testClock) {
			g := &gateway{gatehouse: b.gatehouse}
			g.kill(b.t, b.cookie(tokenCookie))
		}, true},
		"of no issuer": {func(b *browser, _ *testClock) {
			b.give(&http.Cookie{Name: tokenCookie, Value: noneToken(), Path: "/"})
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := setClock(t)
			g := startSignIn(t, browserRoutes)
			b := g.visitor(t, "ada@acme.example")
			first := b.cookie(tokenCookie)
			test.before(b, c)
			g.later(c, 0)
			g.upstream.answer = answering("Set-Cookie: accessToken=evil", "Set-Cookie: theme=dark", "Cache-Control: public, max-age=60", "CDN-Cache-Control: max-age=60")
			p := b.open("/api/x")
			if p.status != http.StatusOK {
				t.Fatalf("%d %s", p.status, p.body)
			}
			seen := g.upstream.one(t)
			seen.has(t, identity.Subject, "u-ada").has(t, "Cookie")
			cookies := p.header.Values("Set-Cookie")
			if !test.renewed {
				if len(cookies) != 1 || p.header.Get("Cache-Control") != "public, max-age=60" || p.header.Get("Cdn-Cache-Control") == "" {
					t.Errorf("not renewed, but: %v", p.header)
				}
				return
			}
			if len(cookies) != 3 || cookies[0] != "theme=dark" || !strings.HasPrefix(cookies[2], "gatehouse_token=") || p.header.Get("Cache-Control") != "no-store" || p.header.Get("Cdn-Cache-Control") != "" {
				t.Fatalf("renewed, but: %v", p.header)
			}
			set, err := http.ParseSetCookie(cookies[1])
			if err != nil || set.Name != tokenCookie || !set.HttpOnly || set.Path != "/" || set.SameSite != http.SameSiteLaxMode || set.MaxAge != int(life/time.Second) {
				t.Errorf("Set-Cookie: %s", cookies[1])
			}
			g.watched(set.Value)
			if set.Value == first || g.claims(t, set.Value).FamilyID == "" {
				t.Error("it is no fresh token of a session")
			}
			if p := b.open("/api/x"); p.status != http.StatusOK || len(p.header.Values("Set-Cookie")) != 1 {
				t.Errorf("the next request: %d %v", p.status, p.header)
			}
		})
	}
}

// later moves the clock, and has the feed know it.
func (g *gateway) later(c *testClock, d time.Duration) {
	g.t.Helper()
	c.advance(d)
	if err := g.app().node.Refresh(context.Background()); err != nil {
		g.t.Fatal(err)
	}
}

func TestG85ASessionNeedsTheSameOriginToo(t *testing.T) {
	g := startSignIn(t, browserRoutes)
	b := g.visitor(t, "ada@acme.example")
	b.forget(tokenCookie)
	cookie := "Cookie: session=" + b.cookie("session")
	for name, lines := range map[string][]string{
		"no word": {cookie}, "evil": {cookie, "Origin: https://evil.test"}, "same-site": {cookie, "Sec-Fetch-Site: same-site"},
		"junk beside": {cookie + "; accessToken=junk", "Origin: null"},
	} {
		header, _ := g.refused(t, g.request("POST", "/api/x", append(lines, "Content-Length: 0")...), 403)
		if header.Get("Set-Cookie") != "" {
			t.Errorf("%s: a token was given", name)
		}
		g.refused(t, g.request("GET", "/api/x", append(lines, webSocket...)...), 403)
	}
	g.passed(t, g.request("POST", "/api/x", cookie, "Content-Length: 0", "Origin: http://"+g.addr)).has(t, identity.Subject, "u-ada")
	g.passed(t, g.request("GET", "/api/x", cookie)).has(t, identity.Subject, "u-ada")
	g.refused(t, g.request("GET", "/api/x", cookie+"; session="+b.cookie("session")), 401) // two sessions are none
	g.refused(t, g.request("GET", "/api/x?access_token=x", cookie), 400)
	g.passed(t, g.request("GET", "/api/x", cookie+"; accessToken=a; accessToken=b")).has(t, identity.Subject, "u-ada")
	// A header is a credential of its own: nobody renews it.
	header, _ := g.refused(t, g.request("GET", "/api/x", cookie, "Authorization: Bearer bad"), 401)
	if header.Get("Set-Cookie") != "" {
		t.Error("a bad header was renewed")
	}
}

// TestA72RequestsOfOnePageAllPass, whichever of them renews the token.
func TestA72RequestsOfOnePageAllPass(t *testing.T) {
	c := setClock(t)
	g := startSignIn(t, browserRoutes)
	b := g.visitor(t, "ada@acme.example")
	request := g.request("GET", "/api/x", "Connection: close", "Cookie: session="+b.cookie("session")+"; accessToken="+b.cookie(tokenCookie))
	for _, step := range []time.Duration{6*time.Hour - 10*time.Second, 11 * time.Second, time.Hour} { // before the end, in the leeway, after
		g.later(c, step)
		var requests sync.WaitGroup
		for range 16 {
			requests.Go(func() {
				if status, err := attempt(g.addr, request); err != nil || status != http.StatusOK {
					t.Errorf("%d %v", status, err)
				}
			})
		}
		requests.Wait()
	}
}

// TestA71AnEndedSessionIsNotRenewed: after a sign-out, and after an operator has disabled the user, neither cookie opens
// anything, and an open stream ends.
func TestA71AnEndedSessionIsNotRenewed(t *testing.T) {
	for name, end := range map[string]func(g *gateway, b *browser, user string){
		"signed out": func(_ *gateway, b *browser, _ string) {
			if p := b.signOut(); p.status >= 400 {
				b.t.Fatalf("signing out: %d %s", p.status, p.body)
			}
		},
		"disabled": func(g *gateway, b *browser, user string) {
			if err := g.app().registry.SetUserStatus(b.t.Context(), user, store.UserDisabled); err != nil {
				b.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := startSignIn(t, browserRoutes)
			user := g.addUser("zoe@acme.example", "acme", store.RoleMember)
			b := g.visitor(t, "zoe@acme.example")
			session, token := b.cookie("session"), b.cookie(tokenCookie)
			u := g.streams()
			w := g.dial(t, g.request("GET", "/api/socket", append([]string{"Cookie: accessToken=" + token, "Origin: http://" + g.addr}, webSocket...)...))
			w.echoes(t)
			end(g, b, user)
			w.closed(t)
			u.gone(t, "/api/socket")
			g.awaitAudit(t, "stream closed at the gate")
			g.upstream.seen()
			for _, cookie := range []string{"session=" + session, "accessToken=" + token, "session=" + session + "; accessToken=" + token} {
				header, _ := g.refused(t, g.request("GET", "/api/x", "Cookie: "+cookie), 401)
				if header.Get("Set-Cookie") != "" {
					t.Error("a token was given")
				}
			}
		})
	}
}

// TestF16TheStoreIsAway: who has a token that lives goes on, and only who has nothing else waits for the store.
func TestF16TheStoreIsAway(t *testing.T) {
	c := setClock(t)
	g := startSignIn(t, browserRoutes, onDiskPeople...)
	b := g.visitor(t, "ada@acme.example")
	session, token := "session="+b.cookie("session"), "accessToken="+b.cookie(tokenCookie)
	g.behind("ALTER TABLE families RENAME TO families_away")
	g.later(c, 6*time.Hour-time.Minute)
	seen := g.passed(t, g.request("GET", "/api/x", "Cookie: "+session+"; "+token))
	seen.has(t, identity.Subject, "u-ada")
	g.passed(t, g.request("GET", "/optional/x", "Cookie: "+session)).has(t, identity.Subject)
	for name, cookie := range map[string]string{"no token": session, "junk": session + "; accessToken=junk"} {
		header, _ := g.refused(t, g.request("GET", "/api/x", "Cookie: "+cookie), 503)
		if header.Get("Retry-After") == "" {
			t.Errorf("%s: %v", name, header)
		}
	}
	g.refused(t, g.request("GET", "/app/x", "Cookie: "+session, "Accept: text/html"), 503)
	g.refused(t, g.request("GET", "/api/x", "Cookie: accessToken=junk"), 401)
	g.refused(t, g.request("GET", "/api/x", "Cookie: session=junk"), 401)
	g.refused(t, g.request("GET", "/api/x"), 401)
}

func TestChallengeBrowser(t *testing.T) {
	c := setClock(t)
	g := startSignIn(t, browserRoutes)
	expired := "accessToken=" + g.issuedFor(time.Second)
	c.advance(time.Minute)
	html := "Accept: text/html,application/xhtml+xml,*/*;q=0.8"
	for name, test := range map[string]struct {
		method, target string
		lines          []string
		want           int
	}{
		"a page":                     {"GET", "/app/x?a=1", []string{"Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Sec-Fetch-Site: cross-site", html}, 303},
		"its head":                   {"HEAD", "/app/x?a=1", []string{"Sec-Fetch-Mode: navigate"}, 303},
		"an older browser":           {"GET", "/app/x?a=1", []string{html}, 303},
		"a bad cookie":               {"GET", "/app/x?a=1", []string{html, "Cookie: accessToken=junk"}, 303},
		"a forged cookie":            {"GET", "/app/x?a=1", []string{html, "Cookie: accessToken=" + noneToken()}, 303},
		"a bad cookie, optional":     {"GET", "/optional/x?a=1", []string{html, "Cookie: accessToken=junk"}, 303},
		"a token in the query":       {"GET", "/app/x?a=1&access_token=x", []string{html}, 303},
		"two cookies":                {"GET", "/app/x", []string{html, "Cookie: accessToken=a; accessToken=b"}, 303},
		"a program":                  {"GET", "/app/x", []string{"Accept: */*"}, 401},
		"a program that says none":   {"GET", "/app/x", nil, 401},
		"fetch()":                    {"GET", "/app/x", []string{"Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty", html}, 401},
		"an image":                   {"GET", "/app/x", []string{"Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image", html}, 401},
		"a frame":                    {"GET", "/app/x", []string{"Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe", html}, 401},
		"only the site is told":      {"GET", "/app/x", []string{"Sec-Fetch-Site: same-origin", html}, 401},
		"two modes":                  {"GET", "/app/x", []string{"Sec-Fetch-Mode: navigate", "Sec-Fetch-Mode: cors", html}, 401},
		"a form":                     {"POST", "/app/x", []string{"Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", html, "Content-Length: 0"}, 401},
		"a websocket":                {"GET", "/app/x", append([]string{html}, webSocket...), 401},
		"a route for programs":       {"GET", "/api/x", []string{html}, 401},
		"a dead token in the header": {"GET", "/app/x", []string{html, "Authorization: Bearer bad"}, 401}, // it would come again
		"another scheme":             {"GET", "/app/x?a=1", []string{html, "Authorization: Basic YTpi"}, 303},
		"an expired cookie":          {"GET", "/app/x?a=1", []string{html, "Cookie: " + expired}, 303},
	} {
		t.Run(name, func(t *testing.T) {
			if test.want != http.StatusSeeOther {
				header, _ := g.refused(t, g.request(test.method, test.target, test.lines...), test.want)
				if header.Get("Location") != "" {
					t.Errorf("sent to %s", header.Get("Location"))
				}
				return
			}
			status, header, body := g.raw(g.request(test.method, test.target, test.lines...))
			g.upstream.none(t)
			location, err := url.Parse(header.Get("Location"))
			if err != nil || status != http.StatusSeeOther || body != "" || location.Path != "/oauth/login" || location.IsAbs() {
				t.Fatalf("%d %v %q", status, header, body)
			}
			if header.Get("Cache-Control") != "no-store" || !strings.Contains(header.Get("Vary"), "Cookie") || header.Get("Www-Authenticate") != "" {
				t.Errorf("headers: %v", header)
			}
			back, _, err := g.app().issuer.OpenReturn(oauth.NewSecret(location.Query().Get("pending")), g.app().issuer.Now())
			if want := strings.TrimSuffix(test.target, "&access_token=x"); err != nil || back != want {
				t.Errorf("comes back to %q, %v, want %q", back, err, want)
			}
		})
	}
}

// TestChallengeBrowserOnAnotherHost: a cookie of the issuer's host never comes to another, so signing in would not help.
func TestChallengeBrowserOnAnotherHost(t *testing.T) {
	globals, _, _ := strings.Cut(people, "\nhttp://ADDR {")
	_, port, _ := strings.Cut(freeAddr(t), ":")
	g := startGate(t, strings.ReplaceAll(globals+"\nhttp://:"+port+" {\n\tbind 127.0.0.1\n\tlog\n\toauth_server\n"+browserRoutes+"\n}\n", "HASH", peopleHash()))
	g.addr = "127.0.0.1:" + port
	for range 3 {
		for _, host := range []string{"other.test", "127.0.0.1:1", "127.0.0.1"} {
			request := "GET /app/x HTTP/1.1\r\nHost: " + host + "\r\nAccept: text/html\r\n\r\n"
			g.refused(t, request, 401)
		}
	}
	if n := strings.Count(g.logs(), "a browser cannot sign in for this host"); n != 1 {
		t.Errorf("%d warnings, want 1", n)
	}
}

// TestChallengeBrowserLeadsToThePage and back, and never round in circles.
func TestChallengeBrowserLeadsToThePage(t *testing.T) {
	g := startSignIn(t, browserRoutes)
	b := g.browser()
	p := b.navigate("/app/reports/7?year=2026&q=a%2Fb")
	p = b.signIn(b.navigate(p.header.Get("Location")), "max@acme.example", peoplePassword)
	if p.header.Get("Location") != g.url+"/app/reports/7?year=2026&q=a%2Fb" {
		t.Fatalf("after signing in: %d %v", p.status, p.header)
	}
	if p = b.navigate(p.header.Get("Location")); p.status != http.StatusOK {
		t.Fatalf("back: %d %s", p.status, p.body)
	}
	if seen := g.upstream.one(t); seen.Target != "/reports/7?year=2026&q=a%2Fb" {
		t.Errorf("the upstream saw %s", seen.Target)
	}
	// Who is signed in and may not is told so: with a token, with none but a session, and with a broken one.
	for name, before := range map[string]func(){
		"with a token": func() {}, "with a session": func() { b.forget(tokenCookie) },
		"with a broken token": func() { b.give(&http.Cookie{Name: tokenCookie, Value: "junk", Path: "/"}) },
	} {
		before()
		p := b.navigate("/app/admins/x")
		if p.status != http.StatusForbidden || p.header.Get("Location") != "" || member(t, p.body, "error") != "access_denied" {
			t.Errorf("%s: %d %v %s", name, p.status, p.header, p.body)
		}
		if fresh := b.cookie(tokenCookie); g.claims(t, fresh).Subject != "u-max" { // the refusal brought one along
			t.Errorf("%s: the browser has %q", name, fresh)
		}
	}
	g.upstream.none(t)
}

func TestPlaceholdersOfAPerson(t *testing.T) {
	g := startSignIn(t, `	handle {
		protect {
			token_from cookie accessToken
		}
		respond "{http.auth.user.id} {http.auth.user.organisation} {http.auth.user.org} {http.auth.user.role} {http.auth.user.client_id} {http.auth.user.scope}"
	}`)
	b := g.visitor(t, "grace@acme.example")
	if p := b.open("/x"); p.body != "u-grace acme acme group_manager gatehouse trusted public" {
		t.Errorf("%d %q", p.status, p.body)
	}
}

// TestChallengeBrowserAfterALongTime: a rule asks for a recent sign-in, and a browser can have one.
func TestChallengeBrowserAfterALongTime(t *testing.T) {
	c := setClock(t)
	g := startSignIn(t, gated("", "token_from cookie accessToken", "challenge browser", "require /bank/* max_age 60s", "require /vault/* acr gold"))
	b := g.visitor(t, "grace@acme.example")
	if p := b.navigate("/bank/x"); p.status != http.StatusOK {
		t.Fatalf("just signed in: %d %s", p.status, p.body)
	}
	c.advance(4 * time.Minute) // less than max_staleness
	if p := b.navigate("/other"); p.status != http.StatusOK {
		t.Errorf("where no rule asks: %d %s", p.status, p.body)
	}
	if p := b.open("/bank/x"); p.status != http.StatusUnauthorized || !strings.Contains(p.header.Get("Www-Authenticate"), `max_age="60"`) {
		t.Errorf("a script: %d %v", p.status, p.header)
	}
	if p := b.navigate("/vault/x"); p.status != http.StatusUnauthorized { // no sign-in here is gold
		t.Errorf("another class: %d %s", p.status, p.body)
	}
	g.upstream.seen()
	p := b.navigate("/bank/x")
	if p.status != http.StatusSeeOther {
		t.Fatalf("a navigation: %d %s", p.status, p.body)
	}
	g.upstream.none(t)
	back := b.signIn(b.open(p.header.Get("Location")), "grace@acme.example", peoplePassword)
	g.watched(b.cookie(tokenCookie))
	if back.status != http.StatusSeeOther || !strings.HasSuffix(back.header.Get("Location"), "/bank/x") {
		t.Fatalf("signing in again: %d %v", back.status, back.header)
	}
	if p := b.navigate("/bank/x"); p.status != http.StatusOK {
		t.Errorf("signed in again: %d %s", p.status, p.body)
	}
}

// tokenCookie is the cookie in which a browser that has signed in holds its access token.
const tokenCookie = "accessToken"
