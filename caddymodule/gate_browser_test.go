package caddymodule

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/identity"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Browsers at the gate on the issuer's own host: which requests redirect to sign-in, and where the cookie accessToken is accepted as a
// token.

var browserRoutes = gatedBelow("/app/*", "challenge browser", "anonymous /pub/*", "require /orders/* scope orders.read", "require /admins/* role admin") +
	gated("/optional/*", "challenge browser", "optional") +
	gated("/api/*", "token_from cookie accessToken") + gated("/header/*") +
	`	handle {
		respond 404
	}`

// startSignIn serves the users of people_test.go with other routes.
func startSignIn(t *testing.T, routes string, changes ...string) *gateway {
	t.Helper()
	globals, _, _ := strings.Cut(peopleSite(changes...), "\nhttp://ADDR {")
	return startGate(t, strings.ReplaceAll(globals+"\nhttp://ADDR {\n\tlog\n\toauth_server\n"+routes+"\n}\n", "HASH", peopleHash()))
}

// visitor returns a browser that has signed in.
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

func (b *browser) give(c *http.Cookie) {
	site, _ := url.Parse(b.url)
	b.jar.SetCookies(site, []*http.Cookie{c})
}

var navigation = []string{"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Sec-Fetch-Site", "none", "Accept", "text/html,*/*;q=0.8"}

// later advances the clock and refreshes the feed.
func (g *gateway) later(c *testClock, d time.Duration) {
	g.t.Helper()
	c.advance(d)
	check(g.t, g.app().node.Refresh(context.Background()))
}

// TestG123TheCookieIsReadAsItIs: `token_from cookie accessToken` missing, junk or expired → read like any cookie, nothing is renewed; two →
// 400.
func TestG123TheCookieIsReadAsItIs(t *testing.T) {
	c := setClock(t)
	g := startSignIn(t, browserRoutes)
	ada, max := g.visitor(t, "ada@acme.example"), g.visitor(t, "max@acme.example")
	session, token, another := "session="+ada.cookie("session"), "accessToken="+ada.cookie(tokenCookie), "accessToken="+max.cookie(tokenCookie)
	html := []string{"Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Sec-Fetch-Site: none", "User-Agent: Mozilla/5.0", "Accept: text/html"}
	for name, test := range map[string]struct {
		cookies string
		want    int
		subject string
	}{
		"the token":                     {token, 200, "u-ada"},
		"the session alone":             {session, 401, ""},
		"empty beside the session":      {session + "; accessToken=", 401, ""},
		"junk beside the session":       {session + "; accessToken=junk", 401, ""},
		"another's beside the session":  {session + "; " + another, 200, "u-max"},
		"two, of which one is junk":     {session + "; accessToken=junk; " + token, 400, ""},
		"two":                           {session + "; " + token + "; " + another, 400, ""},
		"two sessions beside the token": {session + "; session=" + max.cookie("session") + "; " + token, 200, "u-ada"},
	} {
		for sender, lines := range map[string][]string{"a program": nil, "a browser": html} {
			t.Run(name+", "+sender, func(t *testing.T) {
				status, header, body := g.asked(t, g.request("GET", "/api/x", append(lines, "Cookie: "+test.cookies)...))
				if status != test.want || header["Set-Cookie"] != nil || header.Get("Location") != "" {
					t.Errorf("%d %v %s", status, header, body)
				}
				if test.want != http.StatusOK {
					g.upstream.none(t)
					return
				}
				seen := g.upstream.one(t).has(t, identity.Subject, test.subject).has(t, "Cookie").has(t, "Authorization").has(t, identity.Client, store.BuiltInClientID)
				if test.subject == "u-ada" {
					seen.has(t, identity.Organisation, "acme").has(t, identity.Role, "admin")
				}
			})
		}
	}
	g.refused(t, g.request("GET", "/header/x", "Cookie: "+token), 401) // a route that takes none
	for site, want := range map[string]int{"same-origin": 200, "same-site": 403, "cross-site": 403, "none": 403} {
		ada.fetch(http.MethodPost, "/api/x", "", "Sec-Fetch-Site", site).is(t, want, "POST ", site)
	}
	g.upstream.one(t)
	g.later(c, 6*time.Hour-time.Minute) // shortly before it expires
	if status, header, _ := g.asked(t, g.request("GET", "/api/x", "Cookie: "+session+"; "+token)); status != http.StatusOK || header["Set-Cookie"] != nil {
		t.Errorf("near its end: %d %v", status, header)
	}
	g.upstream.seen()
	g.later(c, 2*time.Minute)
	if header, _ := g.refused(t, g.request("GET", "/api/x", "Cookie: "+session+"; "+token), 401); header["Set-Cookie"] != nil {
		t.Errorf("after its end: %v", header)
	}
}

// TestG123NoTokenCookieBesideChallengeBrowser checks that `token_from cookie` of any name is refused next to `challenge browser` in JSON too,
// because browsers have a session of their host.
func TestG123NoTokenCookieBesideChallengeBrowser(t *testing.T) {
	err := validateJSON(t, []byte(`{"apps":{"oauth":{"issuer":"http://localhost:1"},"http":{"servers":{"s":{"listen":["127.0.0.1:1"],"routes":[{"handle":[`+
		`{"handler":"oauth_protect","challenge":"browser","token_cookie":"accessToken","source":"Caddyfile:7"}]}]}}}}}`))
	if err == nil || !strings.Contains(err.Error(), "leave `token_from cookie` out") || !strings.Contains(err.Error(), "Caddyfile:7") {
		t.Errorf("as JSON: %v", err)
	}
}

// TestA71AnEndedSessionEndsItsToken: after a sign-out, and after an operator has disabled the user, the cookie opens nothing, and an open
// stream ends.
func TestA71AnEndedSessionEndsItsToken(t *testing.T) {
	g := startSignIn(t, browserRoutes)
	user := g.addUser("zoe@acme.example", "acme", store.RoleMember)
	for _, end := range []func(b *browser){
		func(b *browser) {
			if p := b.signOut(); p.status >= 400 {
				t.Fatalf("signing out: %d %s", p.status, p.body)
			}
		},
		func(*browser) { check(t, g.app().registry.People.SetUserStatus(t.Context(), user, store.UserDisabled)) },
	} {
		b := g.visitor(t, "zoe@acme.example")
		token := "Cookie: accessToken=" + b.cookie(tokenCookie)
		u := g.streams()
		w := g.dial(t, g.request("GET", "/api/socket", append([]string{token, "Origin: http://" + g.addr}, webSocket...)...))
		w.echoes(t)
		end(b)
		w.closed(t)
		u.gone(t, "/api/socket")
		g.awaitAudit(t, "stream closed at the gate")
		g.upstream.seen()
		g.refused(t, g.request("GET", "/api/x", token), 401)
	}
}

// TestS2OnlyNavigationsAreSentToSignIn: a fetch, program, image, frame, POST or WebSocket without a session → 401 with a challenge, no
// redirect.
func TestS2OnlyNavigationsAreSentToSignIn(t *testing.T) {
	g := startSignIn(t, browserRoutes)
	html := "Accept: text/html,application/xhtml+xml,*/*;q=0.8"
	for name, test := range map[string]struct {
		method, target string
		lines          []string
		want           int
	}{
		"a page":                     {"GET", "/app/x?a=1", []string{"Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Sec-Fetch-Site: cross-site", html}, 303},
		"its head":                   {"HEAD", "/app/x?a=1", []string{"Sec-Fetch-Mode: navigate"}, 303},
		"a cookie that is no token":  {"GET", "/app/x?a=1", []string{html, "Cookie: accessToken=junk"}, 303},
		"a token in the query":       {"GET", "/app/x?a=1&access_token=x", []string{html}, 303},
		"a program":                  {"GET", "/app/x", []string{"Accept: */*"}, 401},
		"fetch()":                    {"GET", "/app/x", []string{"Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty", html}, 401},
		"an image":                   {"GET", "/app/x", []string{"Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image", html}, 401},
		"a frame":                    {"GET", "/app/x", []string{"Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe", html}, 401},
		"a form":                     {"POST", "/app/x", []string{"Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", html, "Content-Length: 0"}, 401},
		"a WebSocket":                {"GET", "/app/x", append([]string{"Sec-Fetch-Mode: websocket", html}, webSocket...), 401},
		"a route for programs":       {"GET", "/api/x", []string{html}, 401},
		"a dead token in the header": {"GET", "/app/x", []string{html, "Authorization: Bearer bad"}, 401}, // the browser would send it again
		"another scheme":             {"GET", "/app/x?a=1", []string{html, "Authorization: Basic YTpi"}, 303},
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
			if err != nil || status != http.StatusSeeOther || body != "" || !strings.HasPrefix(location.String(), g.url+"/oauth/authorize?") {
				t.Fatalf("%d %v %q", status, header, body)
			}
			if header.Get("Cache-Control") != "no-store" || !strings.Contains(header.Get("Vary"), "Cookie") || header.Get("Www-Authenticate") != "" {
				t.Errorf("headers: %v", header)
			}
			attempt, _, err := keys.UnwrapAny[signin.HostAttempt](g.app().issuer.Families.Master.HostSignIns, g.url, oauth.NewSecret(location.Query().Get("state")))
			if want := strings.TrimSuffix(test.target, "&access_token=x"); err != nil || attempt.Return != want {
				t.Errorf("comes back to %q, %v, want %q", attempt.Return, err, want)
			}
		})
	}
}

// tokenCookie is the cookie with the access token of a signed-in browser.
const tokenCookie = "accessToken"
