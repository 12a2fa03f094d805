package caddymodule

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/configuration"
)

// TestA70A71SessionsBeginAndEndOnTheServer: a session cookie set before sign-in → a new session; a cookie replayed after sign-out or a
// password change → dead; the page from before (A82) decides nothing.
func TestA70A71SessionsBeginAndEndOnTheServer(t *testing.T) {
	now := setClock(t)
	g := startPeople(t)
	site, _ := url.Parse(g.url)
	carrying := func(cookie string) *browser { // another browser with that session cookie
		b := g.browser()
		b.jar.SetCookies(site, []*http.Cookie{{Name: "session", Value: cookie}})
		return b
	}
	t.Run("A70 a cookie that an attacker has set", func(t *testing.T) {
		attacker := g.consented("max@acme.example")
		planted := attacker.cookie("session")
		now.advance(time.Second) // a sign-in of the same instant would satisfy the request
		for name, value := range map[string]string{"the attacker's own": planted, "made up": strings.Repeat("a", len(planted)), "empty": "", "short": "1"} {
			victim := carrying(value)
			p := victim.signIn(victim.ask(requestOf("conf").with("prompt", "login")), "ada@acme.example", peoplePassword)
			if p.status != http.StatusSeeOther {
				t.Fatalf("%s: %d", name, p.status)
			}
			fresh := victim.cookie("session")
			if fresh == value || !strings.Contains(victim.open("/oauth/account").body, "ada@acme.example") {
				t.Errorf("%s: the session was not made anew", name)
			}
			if name == "the attacker's own" && carrying(planted).isSignedIn() {
				t.Error("the planted session lives on")
			}
		}
	})
	t.Run("a second sign-in ends the session before", func(t *testing.T) {
		b := g.consented("ada@acme.example")
		now.advance(time.Second)
		before, token := b.cookie("session"), b.cookie("accessToken")
		if !g.alive(token) {
			t.Fatal("the session's token does not pass")
		}
		b.signIn(b.ask(requestOf("conf").with("prompt", "login")), "ada@acme.example", peoplePassword)
		if carrying(before).isSignedIn() || g.alive(token) {
			t.Error("the session before lives on")
		}
		if !b.isSignedIn() || !g.alive(b.cookie("accessToken")) {
			t.Error("the new one does not")
		}
	})
	t.Run("A71 after signing out", func(t *testing.T) {
		b, elsewhere := g.consented("ada@acme.example"), g.consented("ada@acme.example")
		session, token := b.cookie("session"), b.cookie("accessToken")
		page := b.consentFor(t, requestOf("conf"))
		b.signOut()
		if b.cookie("session") != "" || b.cookie("accessToken") != "" {
			t.Error("the browser keeps its cookies")
		}
		replaying := carrying(session)
		if replaying.isSignedIn() || g.alive(token) {
			t.Error("the session is replayed")
		}
		replaying.errorToClient(t, replaying.ask(requestOf("conf").with("prompt", "none")), requestOf("conf"), "login_required", "")
		if p := b.decide(page, "allow"); p.location().Query().Has("code") {
			t.Error("A82: the page from before decides")
		}
		if !elsewhere.isSignedIn() {
			t.Error("the other browser is signed out")
		}
	})
	t.Run("idle and old", func(t *testing.T) {
		b := g.consented("ada@acme.example")
		for range 4 { // used every six days
			now.advance(6 * 24 * time.Hour)
			if !b.isSignedIn() {
				t.Fatal("a session in use has ended")
			}
		}
		now.advance(6*24*time.Hour + time.Minute)
		if b.isSignedIn() {
			t.Error("30 days old and still there")
		}
		idle := g.consented("ada@acme.example")
		now.advance(7*24*time.Hour + time.Minute)
		if idle.isSignedIn() {
			t.Error("7 days idle and still there")
		}
		idle.errorToClient(t, idle.ask(requestOf("conf").with("prompt", "none")), requestOf("conf"), "login_required", "")
	})
	t.Run("signing out is a form of ours", func(t *testing.T) {
		b := g.consented("ada@acme.example")
		for _, origin := range origins {
			_, fields := formIn(t, b.open("/oauth/logout"))
			if origin.ours {
				continue
			}
			holdForbidden(t, b.post("/oauth/logout", fields, g.filled(origin.headers)...))
		}
		holdForbidden(t, b.send("/oauth/logout", url.Values{}))
		b.open("/oauth/logout?x=1")
		if !b.isSignedIn() {
			t.Error("signed out")
		}
	})
}

// TestA73CookiesThatAreNone: two session cookies, garbage, 8 KiB → at most the one session that is ours, no 500.
func TestA73CookiesThatAreNone(t *testing.T) {
	g := startPeople(t)
	b := g.consented("ada@acme.example")
	session, token := b.cookie("session"), b.cookie("accessToken")
	refresh := g.userTokens(requestOf("conf"), "ada@acme.example").RefreshToken
	code := b.codeToClient(t, b.open(requestOf("conf").path()), requestOf("conf"))
	get := func(cookie string) int {
		status, header, body := g.do(http.MethodGet, "/oauth/account", "", "Cookie", cookie)
		if status == http.StatusOK && !strings.Contains(body, "ada@acme.example") || status >= 500 {
			t.Errorf("%d %v", status, header)
		}
		return status
	}
	for name, cookie := range map[string]string{
		"ours": "session=" + session, "among others": "a=b; session=" + session + "; c=d", "quoted": `session="` + session + `"`,
		"ours first": "session=" + session + "; session=evil", "ours last": "session=evil; session=" + session, "empty one beside": "session=; session=" + session,
		"beside a longer name": "xsession=evil; session=" + session + "; sessionx=evil; Session=evil",
	} {
		if got := get(cookie); got != http.StatusOK {
			t.Errorf("%s: %d", name, got)
		}
	}
	flipped := []byte(session)
	flipped[len(flipped)-1] ^= 1
	for name, cookie := range map[string]string{
		"twice": "session=" + session + "; session=" + session, "8 KiB": "session=" + strings.Repeat("a", 8<<10), "8 KiB behind": "session=" + session + strings.Repeat("a", 8<<10),
		"garbage": "session=\xff\xfe", "no value": "session", "nothing": "=; =;;; ;", "cut": "session=" + session[:len(session)-1], "longer": "session=" + session + "a",
		"a letter changed": "session=" + string(flipped), "other case": "session=" + strings.ToUpper(session), "its id alone": "session=" + session[:22], "encoded": "session=%" + fmt.Sprintf("%x", session[0]) + session[1:],
		"the token": "session=" + token, "a refresh token": "session=" + refresh, "a code": "session=" + code, "the browser's": "session=" + b.cookie("gatehouse_browser"),
		"the token's cookie alone": "accessToken=" + token, "the https name": "__Host-session=" + session, "SQL": "session=' OR 1=1--", "a path": "$Version=1; session=" + session[1:] + "; $Path=/",
	} {
		if got := get(cookie); got != http.StatusSeeOther {
			t.Errorf("%s: %d", name, got)
		}
	}
	t.Run("two lines", func(t *testing.T) {
		status, _, _ := g.do(http.MethodGet, "/oauth/account", "", "Cookie", "session="+session, "Cookie", "session=evil")
		if status != http.StatusOK {
			t.Errorf("%d", status)
		}
	})
	t.Run("too much for the server", func(t *testing.T) {
		g.headTooLarge(t, "GET /oauth/account HTTP/1.1\r\nHost: "+g.addr+"\r\nCookie: session="+strings.Repeat("a", 32<<10)+"\r\n\r\n")
	})
	t.Run("the browser's own cookie", func(t *testing.T) {
		// A second, planted cookie drops the pending request and opens no other.
		c := g.browser()
		_, fields := formIn(t, c.open(requestOf("conf").path()))
		own := c.cookie("gatehouse_browser")
		for name, cookie := range map[string]string{
			"twice": "gatehouse_browser=" + own + "; gatehouse_browser=evil", "long": "gatehouse_browser=" + strings.Repeat("a", 5000), "short": "gatehouse_browser=a", "none": "x=y",
			"another": "gatehouse_browser=" + strings.Repeat("a", len(own)),
		} {
			status, _, _ := g.do(http.MethodGet, "/oauth/login?pending="+url.QueryEscape(fields.Get("pending")), "", "Cookie", cookie)
			if status != http.StatusBadRequest {
				t.Errorf("%s: %d", name, status)
			}
		}
	})
	if !b.isSignedIn() {
		t.Error("the real one is signed out")
	}
}

// TestA74PlainHTTPIsForLoopback: an issuer with plain http off loopback → refused at start.
func TestA74PlainHTTPIsForLoopback(t *testing.T) {
	g := startPeople(t)
	for _, issuer := range []string{
		"http://api.example.com", "http://10.0.0.1", "http://192.168.1.1:8080", "http://0.0.0.0", "http://localhost.evil.tld", "http://127.0.0.1.evil.tld", "http://[::]",
		"http://[fe80::1]", "http://localhost@evil.tld", "HTTP://api.example.com", "ftp://127.0.0.1", "http://",
	} {
		if err := g.tryReload(strings.ReplaceAll(strings.Replace(peopleBlock, "issuer http://ADDR", "issuer "+issuer, 1), "HASH", peopleHash())); err == nil {
			t.Errorf("%s is accepted", issuer)
		}
	}
	if status, _, _ := g.get("/oauth/login", ""); status != http.StatusOK {
		t.Errorf("the configuration before: %d", status)
	}
	for _, issuer := range []string{"http://localhost:1", "http://127.0.0.1:1", "http://[::1]:1", "https://api.example.com"} {
		if _, err := (&configuration.Block{Issuer: issuer}).Read(); err != nil {
			t.Errorf("%s: %v", issuer, err)
		}
	}
}

// TestA84A87NothingIsKeptOfVisitors: authorization requests without a sign-in → no row in the store; session ids are
// random. For users who sign in, TestT22T94A87NoCredentialIsStored checks that the store holds nothing that a thief
// could present.
func TestA84A87NothingIsKeptOfVisitors(t *testing.T) {
	g := startPeople(t, "store memory", "store sqlite DIR/x.db")
	db := besideAt(t, g.vars.Replace("DIR/x.db"))
	rows := func() map[string]int {
		tables, err := db.Query("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
		check(t, err)
		var names []string
		for tables.Next() {
			var name string
			check(t, tables.Scan(&name))
			names = append(names, name)
		}
		check(t, tables.Err())
		_ = tables.Close()
		counts := make(map[string]int)
		for _, name := range names {
			var n int
			check(t, db.QueryRow("SELECT count(*) FROM \""+name+"\"").Scan(&n))
			counts[name] = n
		}
		return counts
	}
	g.awaitHousekeeping() // the housekeeper's lease is a row too
	before := rows()
	for range 30 {
		b := g.browser()
		p := b.open(requestOf("conf").path())
		_, fields := formIn(t, p)
		b.open("/oauth/login?pending=" + url.QueryEscape(fields.Get("pending")))
		b.ask(requestOf("conf").with("prompt", "none"))
	}
	if after := rows(); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("A84: rows %v, before %v", after, before)
	}
	ids := make(map[string]bool)
	for range 4 {
		b := g.browser()
		b.toClient(t, b.authorize(requestOf("conf"), ada), requestOf("conf"))
		ids[b.cookie("session")] = true
		if !regexp.MustCompile(`^[0-9A-Za-z]{60,}$`).MatchString(b.cookie("session")) {
			t.Errorf("A87: the session cookie %q", b.cookie("session"))
		}
	}
	if len(ids) != 4 {
		t.Errorf("A87: %d session ids of 4", len(ids))
	}
	if after := rows(); fmt.Sprint(after) == fmt.Sprint(before) {
		t.Error("the rows do not grow with sessions: the count counts nothing")
	}
}
