package caddymodule

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
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
		planted, token := attacker.cookie("session"), attacker.cookie("accessToken")
		if !g.alive(token) {
			t.Fatal("the attacker's token does not pass")
		}
		now.advance(time.Second) // a sign-in of the same instant would satisfy the request
		for name, value := range map[string]string{"the attacker's own": planted, "made up": strings.Repeat("a", len(planted)), "empty": ""} {
			victim := carrying(value)
			victim.signIn(victim.ask(requestOf("conf").with("prompt", "login")), "ada@acme.example", peoplePassword)
			if victim.cookie("session") == value || !strings.Contains(victim.open("/oauth/account").body, "ada@acme.example") {
				t.Errorf("%s: the session was not made anew", name)
			}
		}
		if carrying(planted).isSignedIn() || g.alive(token) {
			t.Error("the planted session lives on")
		}
	})
	t.Run("A71 after signing out", func(t *testing.T) {
		b, elsewhere := g.consented("ada@acme.example"), g.consented("ada@acme.example")
		session, token := b.cookie("session"), b.cookie("accessToken")
		page := b.consentFor(t, requestOf("conf"))
		_, fields := formIn(t, b.open("/oauth/logout"))
		holdForbidden(t, b.post("/oauth/logout", fields, "Origin", "https://evil.tld"))
		holdForbidden(t, b.send("/oauth/logout", url.Values{}))
		if !b.isSignedIn() || !g.alive(token) {
			t.Error("signed out by a form that is not ours")
		}
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
	})
}

// TestA73CookiesThatAreNone: two session cookies, garbage, 8 KiB → at most the one session that is ours, no 500.
func TestA73CookiesThatAreNone(t *testing.T) {
	g := startPeople(t)
	b := g.consented("ada@acme.example")
	session, token := b.cookie("session"), b.cookie("accessToken")
	tokens := g.userTokens(requestOf("conf"), "ada@acme.example")
	flipped := []byte(session)
	flipped[len(flipped)-1] ^= 1
	for status, cookies := range map[int][]string{
		http.StatusOK: {
			"session=" + session, "a=b; session=" + session + "; c=d", `session="` + session + `"`, "session=" + session + "; session=evil", "session=evil; session=" + session,
			"session=; session=" + session, "xsession=evil; session=" + session + "; sessionx=evil; Session=evil",
		},
		http.StatusSeeOther: {
			"session=" + session + "; session=" + session, "session=" + strings.Repeat("a", 8<<10), "session=" + session + strings.Repeat("a", 8<<10), "session=\xff\xfe", "session", "=; =;;; ;",
			"session=" + session[:len(session)-1], "session=" + session + "a", "session=" + string(flipped), "session=" + strings.ToUpper(session), "session=" + session[:22],
			"session=%" + fmt.Sprintf("%x", session[0]) + session[1:], "session=" + token, "session=" + tokens.RefreshToken, "session=" + b.cookie("gatehouse_browser"),
			"accessToken=" + token, "__Host-session=" + session, "session=' OR 1=1--", "$Version=1; session=" + session[1:] + "; $Path=/",
		},
	} {
		for _, cookie := range cookies {
			got, _, body := g.do(http.MethodGet, "/oauth/account", "", "Cookie", cookie)
			if got != status || strings.Contains(body, "ada@acme.example") != (status == http.StatusOK) {
				t.Errorf("%.200s: %d", cookie, got)
			}
		}
	}
	if status, _, _ := g.do(http.MethodGet, "/oauth/account", "", "Cookie", "session="+session, "Cookie", "session=evil"); status != http.StatusOK {
		t.Errorf("two lines: %d", status)
	}
	g.headTooLarge(t, "GET /oauth/account HTTP/1.1\r\nHost: "+g.addr+"\r\nCookie: session="+strings.Repeat("a", 32<<10)+"\r\n\r\n")
	// A second, planted cookie of the browser drops the pending request and opens no other.
	c := g.browser()
	_, fields := formIn(t, c.open(requestOf("conf").path()))
	own := c.cookie("gatehouse_browser")
	for _, cookie := range []string{"gatehouse_browser=" + own + "; gatehouse_browser=evil", "gatehouse_browser=" + strings.Repeat("a", 5000), "x=y", "gatehouse_browser=" + strings.Repeat("a", len(own))} {
		if status, _, _ := g.do(http.MethodGet, "/oauth/login?pending="+url.QueryEscape(fields.Get("pending")), "", "Cookie", cookie); status != http.StatusBadRequest {
			t.Errorf("%.200s: %d", cookie, status)
		}
	}
	if !b.isSignedIn() {
		t.Error("the real one is signed out")
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
