package caddymodule

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"
)

// signsOutByForm submits the form of the issuer's sign-out page and follows redirects.
func (v *visitorOfHosts) signsOutByForm(p answer) (answer, string) {
	v.t.Helper()
	action, fields := formIn(v.t, page(p))
	a := v.send(http.MethodPost, v.gate.at("auth", action), fields.Encode(), "Content-Type", urlEncoded, "Sec-Fetch-Site", "same-origin")
	if a.status != http.StatusSeeOther {
		v.t.Fatalf("the form: %d %s", a.status, a.body)
	}
	next, err := url.Parse(v.gate.at("auth", "/"))
	check(v.t, err)
	next, err = next.Parse(a.header.Get("Location"))
	check(v.t, err)
	return v.walk(next.String(), "")
}

// TestASignOutAtAHostWithoutASession checks a sign-out at a host where the browser has no session. The issuer may still have one, which
// would sign the browser in again without a password. The host therefore redirects to the issuer. The answer must not claim a sign-out that
// has not happened.
func TestASignOutAtAHostWithoutASession(t *testing.T) {
	g := startHosts(t)
	asksIn := func(t *testing.T, v *visitorOfHosts) {
		t.Helper()
		for host, path := range map[string]string{"app": "/x", "wiki": "/pages/1"} {
			if a, _ := v.walk(g.at(host, path), ""); !strings.Contains(a.body, `name="password"`) {
				t.Errorf("%s lets the browser in: %d %s", host, a.status, a.body)
			}
		}
	}
	isAsked := func(t *testing.T, v *visitorOfHosts, target string) answer {
		t.Helper()
		a, at := v.walk(target, "")
		if a.status != http.StatusOK || !strings.HasPrefix(at, g.at("auth", "/oauth/logout")) || !strings.Contains(a.body, "<form") || strings.Contains(a.body, "You are signed out") {
			t.Fatalf("%d at %s: %s", a.status, at, a.body)
		}
		return a
	}
	isDone := func(t *testing.T, a answer) {
		t.Helper()
		if a.status != http.StatusOK || strings.Contains(a.body, "<form") || !strings.Contains(a.body, "You are signed out") {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	t.Run("a host where the browser never was", func(t *testing.T) {
		v := g.signedIn(t, "ada@acme.example")
		done, _ := v.signsOutByForm(isAsked(t, v, g.at("wiki", "/oauth/sign_out")))
		isDone(t, done)
		asksIn(t, v)
	})
	t.Run("the form of a session that has ended", func(t *testing.T) {
		v := g.signedIn(t, "ada@acme.example")
		v.give("app", &http.Cookie{Name: hostCookie, MaxAge: -1})
		a := v.send(http.MethodPost, g.at("app", "/oauth/sign_out"), "", "Sec-Fetch-Site", "same-origin")
		isAsked(t, v, a.header.Get("Location"))
	})
	t.Run("with a path", func(t *testing.T) {
		v := g.signedIn(t, "ada@acme.example")
		want := g.at("wiki", "/pages?bye=1")
		_, at := v.signsOutByForm(isAsked(t, v, g.at("wiki", "/oauth/sign_out?return="+url.QueryEscape("/pages?bye=1"))))
		if at != want {
			t.Errorf("at %s", at)
		}
		asksIn(t, v)
		if _, at := v.walk(g.at("wiki", "/oauth/sign_out?return="+url.QueryEscape("/pages?bye=1")), ""); at != want {
			t.Errorf("who is signed out is led to %s", at)
		}
	})
	t.Run("a path that is too long", func(t *testing.T) {
		v := g.signedIn(t, "ada@acme.example")
		done, _ := v.signsOutByForm(isAsked(t, v, g.at("wiki", "/oauth/sign_out?return=/"+strings.Repeat("x", 2000))))
		isDone(t, done)
	})
	t.Run("whoever turns back stays signed in, and is asked again", func(t *testing.T) {
		v := g.signedIn(t, "ada@acme.example")
		for range 3 {
			isAsked(t, v, g.at("wiki", "/oauth/sign_out"))
		}
		v.send(http.MethodGet, g.at("app", "/"), "").is(t, http.StatusOK)
	})
	t.Run("nobody is signed in", func(t *testing.T) {
		done, _ := g.visitor(t).walk(g.at("wiki", "/oauth/sign_out"), "")
		isDone(t, done)
	})
	t.Run("no cookies", func(t *testing.T) {
		v := g.visitor(t)
		for _, query := range []string{"", "?return=/pages/bye"} {
			v.client.Jar = noCookies{v.jar}
			done, _ := v.walk(g.at("wiki", "/oauth/sign_out"+query), "")
			isDone(t, done)
		}
	})
	t.Run("what an earlier sign-out has left says nothing", func(t *testing.T) {
		v := g.signedIn(t, "ada@acme.example")
		v.signsOut("app") // and never comes back
		v.walk(g.at("app", "/"), "ada@acme.example")
		v.give("app", &http.Cookie{Name: hostCookie, MaxAge: -1})
		isAsked(t, v, g.at("app", "/oauth/sign_out"))
	})
	t.Run("the page is said once", func(t *testing.T) {
		v := g.signedIn(t, "ada@acme.example")
		done, at := v.walk(v.signsOut("app"), "")
		if isDone(t, done); at != g.at("app", "/oauth/sign_out") {
			t.Errorf("at %s", at)
		}
		v.walk(g.at("wiki", "/pages/1"), "ada@acme.example")
		isAsked(t, v, g.at("app", "/oauth/sign_out"))
	})
	t.Run("no issuer", func(t *testing.T) {
		p := newLyingProvider(t)
		g := startDirect(t, p)
		v := g.visitor(t)
		v.walkAt(p, g.at("app", "/"))
		a := v.navigate(g.at("wiki", "/oauth/sign_out"))
		if a.status != http.StatusOK || strings.Contains(a.body, "You are signed out") || !strings.Contains(a.body, "may be signed in still") || !strings.Contains(a.body, "/oauth/sign_in") {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

// noCookies is a cookie jar that stores nothing.
type noCookies struct{ *cookiejar.Jar }

func (noCookies) Cookies(*url.URL) []*http.Cookie { return nil }

// TestASignOutClearsPages checks that a sign-out clears the pages that the browser's back button would show.
func TestASignOutClearsPages(t *testing.T) {
	g := startHosts(t)
	clears := func(what string, a answer) {
		t.Helper()
		if got := a.header.Get("Clear-Site-Data"); a.status != http.StatusSeeOther || got != `"cache"` {
			t.Errorf("%s: %d, Clear-Site-Data %q", what, a.status, got)
		}
	}
	v := g.signedIn(t, "ada@acme.example")
	if a := v.navigate(g.at("app", "/")); a.header.Get("Cache-Control") != "private" {
		t.Errorf("a page of an upstream that says nothing of caches: %q", a.header.Get("Cache-Control"))
	}
	if a := v.navigate(g.at("app", "/public/x")); a.header.Get("Cache-Control") != "" {
		t.Errorf("a page without a session: %q", a.header.Get("Cache-Control"))
	}
	if a := v.navigate(g.at("app", "/oauth/sign_out")); a.header.Get("Clear-Site-Data") != "" {
		t.Error("the page that asks clears already, and any site can place a link")
	}
	clears("at a host", v.send(http.MethodPost, g.at("app", "/oauth/sign_out"), "", "Sec-Fetch-Site", "same-origin"))
	for field, path := range map[string]string{"": "/oauth/logout", "everywhere": "/oauth/account"} {
		v.walk(g.at("app", "/"), "ada@acme.example")
		action, fields := formIn(t, page(v.navigate(g.at("auth", path))))
		if field != "" {
			fields.Set(field, "yes")
		}
		clears(path, v.send(http.MethodPost, g.at("auth", action), fields.Encode(), "Content-Type", urlEncoded, "Sec-Fetch-Site", "same-origin"))
	}
}

// TestWhateverRefusesANavigationIsAPage checks refusals at hosts with sign-in: navigations get a page, programs get JSON.
func TestWhateverRefusesANavigationIsAPage(t *testing.T) {
	g := startHosts(t, "ROUTES", deniedRoutes)
	ada, ben := g.signedIn(t, "ada@acme.example"), g.signedIn(t, "ben@acme.example")
	two := g.signedIn(t, "ada@acme.example")
	app, err := url.Parse(g.at("app", "/"))
	check(t, err)
	for _, path := range []string{"/x", "/save", "/oauth/sign_in"} {
		two.jar.SetCookies(app, []*http.Cookie{{Name: hostCookie, Path: path, Value: "another"}})
	}
	form := func(site string, more ...string) []string {
		return append([]string{"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Sec-Fetch-Site", site, "Content-Type", urlEncoded, "Accept", "text/html,*/*;q=0.8"}, more...)
	}
	old := []string{"Content-Type", urlEncoded, "Accept", "text/html,*/*;q=0.8"}
	for name, c := range map[string]struct {
		v            *visitorOfHosts
		method, path string
		headers      []string
		status       int
		words        string
	}{
		"a form of a sibling host":                 {ada, "POST", "/save", form("same-site", "Origin", g.origin("wiki")), 403, "came from another site"},
		"a form of another site":                   {ada, "POST", "/save", form("cross-site", "Origin", "https://evil.example"), 403, "came from another site"},
		"likewise without the cookie":              {g.visitor(t), "POST", "/save", form("cross-site", "Origin", "null"), 401, "came from another site"},
		"a sibling's without the cookie":           {g.visitor(t), "POST", "/save", form("same-site"), 401, "came from another site"},
		"an old browser's of another site":         {g.visitor(t), "POST", "/save", append(old, "Origin", "https://evil.example"), 401, "came from another site"},
		"an old browser's of a sibling, signed in": {ada, "POST", "/save", append(old, "Origin", g.origin("wiki")), 403, "came from another site"},
		"our own without a session":                {g.visitor(t), "POST", "/save", form("same-origin", "Origin", g.origin("app")), 401, "Please sign in again"},
		"an old browser's own without a session":   {g.visitor(t), "POST", "/save", append(old, "Origin", g.origin("app")), 401, "Please sign in again"},
		"a form that says nothing of where from":   {g.visitor(t), "POST", "/save", old, 401, "Please sign in again"},
		"a form that a rule refuses":               {ben, "POST", "/engineering/x", form("same-origin", "Origin", g.origin("app")), 403, "You may not open this page"},
		"a page that a rule refuses":               {ben, "GET", "/engineering/x", navigation, 403, "You may not open this page"},
		"a path that can be read in two ways":      {ada, "GET", "/a/..;/b", navigation, 400, "This address is ambiguous"},
		"likewise, nobody is signed in":            {g.visitor(t), "GET", "/a/%2e%2e/b", navigation, 400, "This address is ambiguous"},
		"a form at such a path":                    {ada, "POST", "/a/..;/b", form("same-origin"), 400, "This address is ambiguous"},
		"a path in German":                         {ada, "GET", "/wiki/Washington,_D.C.", append([]string{"Accept-Language", "de"}, navigation...), 400, "Diese Adresse ist nicht eindeutig"},
		"two methods in the query":                 {ada, "GET", "/x?_method=PUT&_method=GET", navigation, 400, "This link is not complete"},
		"two session cookies":                      {two, "GET", "/x", navigation, 400, "Your browser has two sessions here"},
		"likewise, the way out":                    {two, "GET", "/x", navigation, 400, `href="/oauth/sign_out"`},
		"likewise a form":                          {two, "POST", "/save", form("same-origin", "Origin", g.origin("app")), 400, `href="/oauth/sign_out"`},
		"likewise our own path":                    {two, "GET", "/oauth/sign_in", navigation, 400, `href="/oauth/sign_out"`},
		"our own form, of a sibling":               {ada, "POST", "/oauth/sign_out", form("same-site", "Origin", g.origin("wiki")), 403, "could not accept this form"},
		"our own path, another method":             {ada, "POST", "/oauth/sign_in", form("same-origin"), 405, "cannot be opened like this"},
	} {
		t.Run(name, func(t *testing.T) {
			body := ""
			if c.method == "POST" {
				body = "a=b"
			}
			g.upstream.seen()
			a := c.v.send(c.method, g.at("app", c.path), body, c.headers...)
			if a.status != c.status || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") || !strings.Contains(a.body, c.words) {
				t.Errorf("%d %s %s", a.status, a.header.Get("Content-Type"), a.body)
			}
			for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "X-Frame-Options": "DENY"} {
				if got := a.header.Get(name); got != want {
					t.Errorf("%s: %q", name, got)
				}
			}
			g.upstream.none(t)
		})
	}
	for name, headers := range map[string][]string{
		"a fetch": {"Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty", "Sec-Fetch-Site", "same-site", "Accept", "text/html"}, "a program": {"Accept", "*/*"},
		"a program with a token": {"Accept", "text/html", "Authorization", "Bearer x.y.z"}, "a frame": {"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe", "Sec-Fetch-Site", "same-site"},
	} {
		if a := ada.send(http.MethodPost, g.at("app", "/save"), "a=b", headers...); a.status < 400 || strings.Contains(a.body, "<html") {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	if a := ada.navigate(g.at("auth", "/oauth/accuont")); a.status != http.StatusNotFound || !strings.Contains(a.body, "<html") {
		t.Errorf("a mistyped page of the issuer: %d %s", a.status, a.body)
	}
	if a := ada.send(http.MethodGet, g.at("auth", "/oauth/accuont"), "", "Accept", "*/*"); a.status != http.StatusNotFound || strings.Contains(a.body, "<html") {
		t.Errorf("likewise a program: %d %s", a.status, a.body)
	}
}

// TestEveryAnswerOfOursIsNotSniffed checks that every page, redirect and refusal has X-Content-Type-Options: nosniff.
func TestEveryAnswerOfOursIsNotSniffed(t *testing.T) {
	g := startHosts(t, "ROUTES", deniedRoutes+"\n\thandle /shared/* {\n\t\tprotect {\n\t\t\tcors *\n\t\t}\n\t\treverse_proxy UPSTREAM\n\t}\n", "limits {", "openid\n\t\tlimits {")
	ada, ben, nobody := g.signedIn(t, "ada@acme.example"), g.signedIn(t, "ben@acme.example"), g.visitor(t)
	hold := func(what string, a answer) {
		t.Helper()
		if got := a.header.Values("X-Content-Type-Options"); len(got) != 1 || got[0] != "nosniff" {
			t.Errorf("%s: %d %q", what, a.status, got)
		}
	}
	for _, v := range []*visitorOfHosts{ada, ben, nobody} {
		for _, path := range []string{
			"/oauth/login", "/oauth/account", "/oauth/logout", "/oauth/consent", "/oauth/authorize", "/oauth/authorize?client_id=x", "/oauth/nothing", "/oauth/jwks", "/oauth/userinfo",
			"/oauth/token", "/oauth/token/info", "/oauth/revoke", "/.well-known/openid-configuration", "/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource",
		} {
			hold(path, v.navigate(g.at("auth", path)))
			hold(path+", by a program", v.send(http.MethodGet, g.at("auth", path), ""))
			hold("POST "+path, v.send(http.MethodPost, g.at("auth", path), "a=b", "Content-Type", urlEncoded))
		}
		for _, path := range []string{
			"/oauth/sign_in", "/oauth/sign_in?prompt=login", "/oauth/sign_in?return=/x", "/oauth/sign_out", "/oauth/sign_out?return=/x", "/oauth/callback", "/oauth/callback?state=x", "/oauth/session",
			"/engineering/x", "/a/..;/b", "/api/x", "/.well-known/oauth-protected-resource/api",
		} {
			if a := v.navigate(g.at("app", path)); a.status != http.StatusOK || strings.HasPrefix(path, "/oauth/") || strings.HasPrefix(path, "/.well-known/") {
				hold(path, a)
			}
			if a := v.send(http.MethodPost, g.at("app", path), "a=b"); a.status != http.StatusOK || strings.HasPrefix(path, "/oauth/") {
				hold("POST "+path, a)
			}
		}
		hold("the form of a sibling", v.send(http.MethodPost, g.at("app", "/save"), "a=b", "Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"))
	}
	hold("sent to sign in", nobody.navigate(g.at("app", "/x")))
	hold("a preflight", nobody.send(http.MethodOptions, g.at("app", "/shared/x"), "", "Origin", "https://a.example", "Access-Control-Request-Method", "GET"))
	hold("the admin API", nobody.send(http.MethodGet, "http://"+g.admin+"/oauth/status", ""))
	hold("likewise, refused", nobody.send(http.MethodGet, "http://"+g.admin+"/oauth/clients/none", ""))
	ada.give("app", &http.Cookie{Name: hostCookie, MaxAge: -1})
	begun := ada.begun("app", "/y")
	hold("the callback of another browser", g.visitor(t).navigate(begun.String()))
	hold("an answer that refuses", ada.navigate(strings.Replace(begun.String(), "code=", "error=access_denied&x=", 1)))
}

// TestAnUnavailableIssuerIsAnOutage checks that an answer temporarily_unavailable of the issuer is shown as an outage, with the link that
// tries again, and an answer that refuses is not.
func TestAnUnavailableIssuerIsAnOutage(t *testing.T) {
	g := startHosts(t)
	for failure, want := range map[string]int{"temporarily_unavailable": http.StatusServiceUnavailable, "access_denied": http.StatusForbidden} {
		ada := g.visitor(t)
		ada.walk(g.at("app", "/x"), "ada@acme.example")
		ada.give("app", &http.Cookie{Name: hostCookie, MaxAge: -1})
		begun := ada.begun("app", "/y")
		ada.navigate(strings.Replace(begun.String(), "code=", "error="+failure+"&x=", 1))
		begun.RawQuery = ""
		a := ada.navigate(begun.String())
		if a.status != want || (a.header.Get("Retry-After") != "") != (want == http.StatusServiceUnavailable) || !strings.Contains(a.body, "/oauth/sign_in?return=%2Fy") {
			t.Errorf("%s: %d %v %.3000s", failure, a.status, a.header, a.body)
		}
	}
}

// TestADeepLinkKeepsItsQuery checks that a link keeps its query for as long as the derived URLs and cookies fit into Caddy's limits, in
// every way of signing in. For longer links a page says that the link was shortened.
func TestADeepLinkKeepsItsQuery(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) // incompressible text, not a secret
	letters := func(n int) string {
		out := make([]byte, n)
		for i := range out {
			out[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[random.IntN(64)]
		}
		return string(out)
	}
	words := func(n int) string { // as in an application's URLs
		var out strings.Builder
		for out.Len() < n {
			fmt.Fprintf(&out, "filter%%5B%d%%5D=status_%s&", random.IntN(100), []string{"open", "closed", "in%20progress", "waiting+for+review"}[random.IntN(4)])
			fmt.Fprintf(&out, "id=%x&", random.Uint32())
		}
		return out.String()[:n-3] + "end"
	}
	type walk func(t *testing.T, path string) (a answer, at, origin string)
	walks := map[string]func(t *testing.T) walk{
		"with a password": func(t *testing.T) walk {
			g := startHosts(t)
			return func(t *testing.T, path string) (answer, string, string) {
				a, at := g.visitor(t).walk(g.at("app", path), "ada@acme.example")
				return a, at, g.origin("app")
			}
		},
		"by way of the issuer at a provider": func(t *testing.T) walk {
			p := newLyingProvider(t)
			g := startHosts(t, signInAtCorp(p, "default")...)
			return func(t *testing.T, path string) (answer, string, string) {
				a, at, _ := g.visitor(t).walkAt(p, g.at("app", path))
				return a, at, g.origin("app")
			}
		},
		"at a provider": func(t *testing.T) walk {
			p := newLyingProvider(t)
			g := startDirect(t, p)
			return func(t *testing.T, path string) (answer, string, string) {
				a, at, _ := g.visitor(t).walkAt(p, g.at("app", path))
				return a, at, g.origin("app")
			}
		},
	}
	for way, start := range walks {
		t.Run(way, func(t *testing.T) {
			walk := start(t)
			kept := map[string]string{
				"short": "/x?q=1", "3 KiB": "/x?q=" + letters(3<<10), "6,000 characters": "/x?q=" + words(6000), "a long path": "/" + words(6000), "escapes": "/x?q=" + strings.Repeat("%C3%A9%20", 660),
			}
			if way == "with a password" {
				kept["9,000 characters of any kind"], kept["11,000"], kept["14,000 of one kind"] = "/x?q="+letters(9000), "/x?q="+letters(11000), "/x?q="+strings.Repeat("a", 14000)
			}
			for name, path := range kept {
				if a, at, origin := walk(t, path); a.status != http.StatusOK || at != origin+path {
					t.Errorf("%s: %d at %.80s… (%d bytes, want %d): %.300s", name, a.status, at, len(at), len(origin+path), a.body)
				}
			}
			for _, n := range []int{12500, 13500, 14500} {
				path := "/x/y?q=" + letters(n)
				a, at, origin := walk(t, path)
				if a.status != http.StatusOK || !strings.HasPrefix(at, origin+"/oauth/callback") || !strings.Contains(a.body, "too long to be kept") || !strings.Contains(a.body, `href="`+origin+`/x/y"`) {
					t.Errorf("%d bytes: %d at %.80s…: %.900s", len(path), a.status, at, a.body)
				}
			}
			// There is a limit somewhere, but at no length is anything lost silently.
			for n := 4000; n < 14000; n += 777 {
				path := "/x?q=" + letters(n)
				if a, at, origin := walk(t, path); a.status != http.StatusOK || at != origin+path && !strings.Contains(a.body, "too long to be kept") {
					t.Errorf("%d bytes: %d at %.80s…: %.300s", len(path), a.status, at, a.body)
				}
			}
		})
	}
	t.Run("signed in already", func(t *testing.T) {
		byPassword := startHosts(t)
		v := byPassword.signedIn(t, "ada@acme.example")
		v.give("app", &http.Cookie{Name: hostCookie, MaxAge: -1})
		path := "/x?q=" + letters(6000)
		v.arrives(t, byPassword.at("app", path), "")
		if a := v.navigate(byPassword.at("app", "/oauth/sign_in?return="+url.QueryEscape(path))); a.header.Get("Location") != byPassword.at("app", path) {
			t.Errorf("a link: %d to %.80s…", a.status, a.header.Get("Location"))
		}
	})
}

// TestSessionsLiveAsLongAsConfigured checks sessions at the issuer and at hosts.
func TestSessionsLiveAsLongAsConfigured(t *testing.T) {
	sessions := func(lines string) []string { return []string{"limits {", "sessions {\n" + lines + "\n}\nlimits {"} }
	alive := func(v *visitorOfHosts) (issuer, host bool) {
		return v.navigate(v.gate.at("auth", "/oauth/account")).status == http.StatusOK, v.send(http.MethodGet, v.gate.at("app", "/"), "").status == http.StatusOK
	}
	start := func(t *testing.T, lines string) (*testClock, *gateway, *visitorOfHosts) {
		c := setClock(t)
		g := startHosts(t, sessions(lines)...)
		return c, &gateway{gatehouse: g.gatehouse}, g.signedIn(t, "ada@acme.example")
	}
	t.Run("a short time", func(t *testing.T) {
		c, g, v := start(t, "idle 10m\nmax 1h")
		for range 8 { // in constant use
			g.later(c, 7*time.Minute)
			if issuer, host := alive(v); !issuer || !host {
				t.Fatalf("a session in use has ended: %t, %t", issuer, host)
			}
		}
		g.later(c, 5*time.Minute)
		if issuer, host := alive(v); issuer || host {
			t.Errorf("an hour old, and alive: %t, %t", issuer, host)
		}
	})
	t.Run("the token of a session ends with it", func(t *testing.T) {
		_, _, v := start(t, "max 1h")
		exp, _ := claims(t, v.cookie("auth", "accessToken"))["exp"].(float64)
		iat, _ := claims(t, v.cookie("auth", "accessToken"))["iat"].(float64)
		if exp-iat > 3600 {
			t.Errorf("it lives for %v s", exp-iat)
		}
	})
	t.Run("max alone, and shorter than the default of idle", func(t *testing.T) {
		c, g, v := start(t, "max 2d")
		g.later(c, 47*time.Hour)
		if issuer, host := alive(v); !issuer || !host {
			t.Errorf("47 hours: %t, %t", issuer, host)
		}
		g.later(c, 2*time.Hour)
		if issuer, host := alive(v); issuer || host {
			t.Errorf("49 hours: %t, %t", issuer, host)
		}
	})
	t.Run("a reload with a shorter time holds for sessions of before", func(t *testing.T) {
		c, g, v := start(t, "max 10d")
		g.later(c, 30*time.Hour)
		g.reload(hostsCaddyfile(sessions("max 1d")...))
		if issuer, host := alive(v); issuer || host {
			t.Errorf("alive: %t, %t", issuer, host)
		}
	})
	t.Run("no issuer", func(t *testing.T) {
		c := setClock(t)
		p := newLyingProvider(t)
		g := startDirect(t, p, "MORE", "sessions {\nidle 1h\nmax 2h\n}\nMORE")
		v := g.visitor(t)
		v.walkAt(p, g.at("app", "/"))
		door := &gateway{gatehouse: g.gatehouse}
		status := func() int { return v.send(http.MethodGet, g.at("app", "/"), "").status }
		for range 3 {
			door.later(c, 35*time.Minute)
			if got := status(); got != http.StatusOK {
				t.Fatalf("in use: %d", got)
			}
		}
		door.later(c, 20*time.Minute)
		if got := status(); got != http.StatusUnauthorized {
			t.Errorf("2 hours old: %d", got)
		}
	})
}

// TestTheIssuersOwnAddressSaysWhatOneCanDo checks the issuer's front page, which a route of the site replaces.
func TestTheIssuersOwnAddressSaysWhatOneCanDo(t *testing.T) {
	const site = "{\n\tadmin ADMIN\n\toauth {\n\t\tissuer http://localhost:TCPPORTPREFIX\n\t\tstore memory\n\t}\n}\nhttp://localhost:TCPPORT, http://other.localhost:TCPPORT {\n\toauth_server\nROUTES\n}\n"
	for name, c := range map[string]struct {
		prefix, routes, path, host string
		front                      bool
	}{
		"nothing else":                {"", "", "/", "localhost", true},
		"routes elsewhere":            {"", "handle /x/* {\nrespond ok\n}", "/", "localhost", true},
		"headers and compression":     {"", "encode gzip\nheader X-A b", "/", "localhost", true},
		"a site of its own":           {"", "handle {\nrespond mine\n}", "/", "localhost", false},
		"a redirect":                  {"", "redir / /start", "/", "localhost", false},
		"refused":                     {"", "handle {\nrespond 404\n}", "/", "localhost", false},
		"an empty answer":             {"", "respond / 200", "/", "localhost", false},
		"behind the gate":             {"", "protect", "/", "localhost", false},
		"files that are not there":    {"", "root * /nowhere\nfile_server", "/", "localhost", false},
		"another path":                {"", "", "/x", "localhost", false},
		"another host":                {"", "", "/", "other.localhost", false},
		"a path of the issuer":        {"/id", "", "/id/", "localhost", true},
		"likewise without a slash":    {"/id", "", "/id", "localhost", true},
		"above the path of an issuer": {"/id", "", "/", "localhost", false},
	} {
		t.Run(name, func(t *testing.T) {
			g := startGatehouse(t, strings.NewReplacer("PREFIX", c.prefix, "ROUTES", c.routes).Replace(site))
			_, port, _ := strings.Cut(g.addr, ":")
			status, header, body := g.raw("GET " + c.path + " HTTP/1.1\r\nHost: " + c.host + ":" + port + "\r\nAccept: text/html\r\nConnection: close\r\n\r\n")
			links := strings.Contains(body, `href="`+c.prefix+`/oauth/account"`) && strings.Contains(body, `href="`+c.prefix+`/oauth/logout"`)
			if front := status == http.StatusOK && links; front != c.front || strings.Contains(body, "<html") != c.front {
				t.Errorf("%d %v %s", status, header, body)
			}
			if c.front && (header.Get("X-Content-Type-Options") != "nosniff" || header.Get("Cache-Control") != "no-store" || header.Get("Content-Security-Policy") == "") {
				t.Errorf("%v", header)
			}
			if c.front {
				if status, _, body := g.raw("POST " + c.path + " HTTP/1.1\r\nHost: " + c.host + ":" + port + "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"); status != http.StatusOK || body != "" {
					t.Errorf("POST: %d %s", status, body)
				}
			}
		})
	}
}
