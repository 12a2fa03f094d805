package caddymodule

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// behind serves people under an issuer with another scheme and path.
func behind(t *testing.T, scheme, path string) *gatehouse {
	t.Helper()
	changes := []string{"issuer http://ADDR", "issuer " + scheme + "://ADDR" + path}
	if scheme == "https" {
		certificate, key := certificateFiles(t)
		changes = append(changes, "http://ADDR {\n", "https://ADDR {\n\ttls "+certificate+" "+key+"\n",
			"admin ADMIN\n", "admin ADMIN\n\tauto_https off\n")
	}
	g := startPeople(t, changes...)
	g.url = scheme + "://" + g.addr
	return g
}

// certificateFiles writes the tests' certificate and its key to files. Caddy's own, of `tls internal`, come from a goroutine that races
// with Caddy's start, which the race detector reports.
func certificateFiles(t *testing.T) (certificate, key string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range testCertificate() {
		check(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return filepath.Join(dir, "certificate"), filepath.Join(dir, "key")
}

// trusting returns a browser that accepts any certificate.
func (g *gatehouse) trusting() *browser {
	b := g.browser()
	b.client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	return b
}

// walk goes through sign-in and consent under an issuer with the path, checks every address on the way, and returns the answer to the
// client.
func (b *browser) walk(t *testing.T, r request, path, email string) page {
	t.Helper()
	p := b.open(path + r.path())
	for range 6 {
		holdNoStore(t, p)
		location := p.header.Get("Location")
		switch {
		case p.status >= 400:
			t.Fatalf("%d %.300s", p.status, p.body)
		case strings.HasPrefix(location, "/"):
			if !strings.HasPrefix(location, path+"/oauth/") {
				t.Errorf("%s leads away from %s", location, path)
			}
			p = b.open(location)
			continue
		case location != "":
			return p
		}
		holdPage(t, p, http.StatusOK)
		if action, _ := formIn(t, p); !strings.HasPrefix(action, path+"/oauth/") {
			t.Errorf("the form goes to %s", action)
		}
		if strings.Contains(p.body, `name="password"`) {
			p = b.signIn(p, email, peoplePassword)
		} else {
			if link := hrefIn(t, p, "switch="); !strings.HasPrefix(link, path+"/oauth/login?") {
				t.Errorf("the link to another account: %s", link)
			}
			p = b.decide(p, "allow")
		}
	}
	t.Fatalf("the flow does not end: %d", p.status)
	return p
}

// holdCookies checks the attributes of the cookies that a sign-in sets.
func holdCookies(t *testing.T, set map[string]*http.Cookie, secure bool, names map[string]int) {
	t.Helper()
	for name, maxAge := range names {
		c := set[name]
		if c == nil {
			t.Errorf("no cookie %s in %v", name, set)
			continue
		}
		if c.Secure != secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" || c.MaxAge != maxAge || !c.Expires.IsZero() {
			t.Errorf("%s", c.Raw)
		}
	}
	for name := range set {
		if _, known := names[name]; !known {
			t.Errorf("another cookie: %s", name)
		}
	}
}

const deviceSeconds = int(400 * 24 * time.Hour / time.Second)

// TestA72CookiesUnderHTTPS: cookies under https → `__Host-`, Secure, HttpOnly, SameSite=Lax, Path=/, no Domain. It also checks the origin
// of forms under https.
func TestA72CookiesUnderHTTPS(t *testing.T) {
	g := behind(t, "https", "")
	b := g.trusting()
	r := requestOf("conf")
	page := b.open(r.path())
	holdPage(t, page, http.StatusOK)
	holdCookies(t, cookiesIn(page), true, map[string]int{"__Host-gatehouse-browser": 0})
	answer := b.signIn(page, "ada@acme.example", peoplePassword)
	signedIn := cookiesIn(answer)
	holdCookies(t, signedIn, true, map[string]int{"__Host-session": 0, "accessToken": 21600, "__Host-gatehouse-device": deviceSeconds})
	for name, c := range signedIn {
		if lower := strings.ToLower(c.Raw); !strings.Contains(lower, "; secure") || !strings.Contains(lower, "; httponly") || strings.Contains(lower, "domain") {
			t.Errorf("%s: %s", name, c.Raw)
		}
	}
	got := g.obtain(r.exchange(b.codeToClient(t, b.walk(t, r, "", "ada@acme.example"), r)))
	if !g.alive(got.AccessToken) || !g.alive(signedIn["accessToken"].Value) {
		t.Error("the gate does not take the tokens")
	}
	if claimed := claims(t, signedIn["accessToken"].Value); int(claimed["exp"].(float64)-claimed["iat"].(float64)) != 21600 || claimed["sub"] != "u-ada" {
		t.Errorf("accessToken: %v", claimed)
	}
	session := signedIn["__Host-session"].Value
	t.Run("names of plain http count for nothing", func(t *testing.T) {
		for _, name := range []string{"session", "__Secure-session", "__host-session", "Host-session"} {
			if status, _, _ := g.do(http.MethodGet, "/oauth/account", "", "Cookie", name+"="+session); status != http.StatusSeeOther {
				t.Errorf("%s: %d", name, status)
			}
		}
		status, _, _ := g.do(http.MethodGet, "/oauth/account", "", "Cookie", "session=evil; __Host-session="+session+"; gatehouse_browser=evil")
		if status != http.StatusOK {
			t.Errorf("the real one beside tossed ones: %d", status)
		}
	})
	t.Run("origins", func(t *testing.T) {
		for origin, ours := range map[string]bool{
			g.url: true, "http://" + g.addr: false, "https://" + strings.ToUpper("localhost"): false, "https://evil.tld": false, "null": false,
		} {
			_, fields := formIn(t, b.open("/oauth/account"))
			fields.Set("session", "unknown")
			p := b.post("/oauth/account", fields, "Origin", origin)
			if ours != (p.status == http.StatusSeeOther) || !ours && p.status != http.StatusForbidden {
				t.Errorf("%s: %d", origin, p.status)
			}
		}
	})
	t.Run("signing out", func(t *testing.T) {
		p := b.signOut()
		holdCookies(t, cookiesIn(p), true, map[string]int{"__Host-session": -1, "accessToken": -1})
		if status, _, _ := g.do(http.MethodGet, "/oauth/account", "", "Cookie", "__Host-session="+session); status != http.StatusSeeOther {
			t.Errorf("replayed: %d", status)
		}
	})
	g.notLogged(t, session, signedIn["accessToken"].Value, signedIn["__Host-gatehouse-device"].Value, got.AccessToken, got.RefreshToken, peoplePassword)
}

// TestA72CookiesOnLoopback checks that cookies under plain http lack only the `__Host-` prefix and Secure, which need https.
func TestA72CookiesOnLoopback(t *testing.T) {
	g := startPeople(t)
	b := g.browser()
	page := b.open(requestOf("conf").path())
	holdCookies(t, cookiesIn(page), false, map[string]int{"gatehouse_browser": 0})
	if p := b.open("/oauth/login"); len(cookiesIn(p)) != 0 {
		t.Errorf("a browser that is known gets cookies: %v", cookiesIn(p))
	}
	signedIn := cookiesIn(b.signIn(page, "ada@acme.example", peoplePassword))
	holdCookies(t, signedIn, false, map[string]int{"session": 0, "accessToken": 21600, "gatehouse_device": deviceSeconds})
	if p := b.open("/oauth/account"); len(cookiesIn(p)) != 0 {
		t.Errorf("the account page sets cookies: %v", cookiesIn(p))
	}
	// The gate does not accept the cookie as a credential.
	if status, _, _ := g.do(http.MethodGet, "/api/x", "", "Cookie", "accessToken="+signedIn["accessToken"].Value); status != http.StatusUnauthorized {
		t.Errorf("the gate takes the cookie: %d", status)
	}
	g.upstream.none(t)
	failed := g.browser()
	p := failed.signIn(failed.open("/oauth/login"), "ada@acme.example", "wrong")
	if set := cookiesIn(p); len(set) != 0 {
		t.Errorf("a wrong password sets cookies: %v", set)
	}
}

// TestIssuerWithAPath checks that an issuer serves everything below its path and nothing outside it.
func TestIssuerWithAPath(t *testing.T) {
	for _, path := range []string{"/tenant", "/tenant/a%20b"} {
		t.Run(path, func(t *testing.T) { atPath(t, path) })
	}
}

func atPath(t *testing.T, path string) {
	g := behind(t, "http", path)
	b := g.browser()
	r := requestOf("conf")
	code := b.codeToClient(t, b.walk(t, r, path, "ada@acme.example"), r)
	_, _, issued := g.post(path+"/oauth/token", r.exchange(code))
	if token := member(t, issued, "access_token"); claims(t, token)["iss"] != g.url+path || !g.alive(token) {
		t.Errorf("iss %v", claims(t, token)["iss"])
	}
	if b.cookie("session") == "" {
		t.Error("no session cookie for the whole host")
	}
	page := b.open(path + "/oauth/account")
	holdPage(t, page, http.StatusOK)
	if link := hrefIn(t, page, "logout"); link != path+"/oauth/logout" {
		t.Errorf("the link to sign out: %s", link)
	}
	action, fields := formIn(t, page)
	fields.Set("application", "conf")
	holdChanged(t, b.send(action, fields), path+"/oauth/account?done=application")
	if p := b.open(path + "/oauth/login"); p.header.Get("Location") != path+"/oauth/account" {
		t.Errorf("the sign-in page leads to %q", p.header.Get("Location"))
	}
	action, fields = formIn(t, b.open(path+"/oauth/logout"))
	if action != path+"/oauth/logout" {
		t.Errorf("the sign-out form goes to %s", action)
	}
	holdChanged(t, b.send(action, fields), path+"/oauth/logout")
	if link := hrefIn(t, b.open(path+"/oauth/logout"), "login"); link != path+"/oauth/login" {
		t.Errorf("the link to sign in again: %s", link)
	}
	p := b.open(path + "/oauth/account")
	if p.location().EscapedPath() != path+"/oauth/login" {
		t.Fatalf("signed out: %d %q", p.status, p.header.Get("Location"))
	}
	p = b.signIn(b.open(p.header.Get("Location")), "ada@acme.example", peoplePassword)
	if p.header.Get("Location") != path+"/oauth/account" {
		t.Errorf("back to %q", p.header.Get("Location"))
	}
	t.Run("consent after the session has gone", func(t *testing.T) {
		site, _ := url.Parse(g.url)
		asking := b.open(path + "/oauth/authorize?" + r.with("prompt", "consent").Encode())
		b.jar.SetCookies(site, []*http.Cookie{{Name: "session", MaxAge: -1, Path: "/"}})
		if p := b.decide(asking, "allow"); p.status != http.StatusSeeOther || p.location().EscapedPath() != path+"/oauth/login" {
			t.Errorf("%d %q", p.status, p.header.Get("Location"))
		}
	})
	t.Run("a POST from another site", func(t *testing.T) {
		p := g.browser().fetch(http.MethodPost, path+"/oauth/authorize", r.values().Encode(), "Content-Type", urlEncoded, "Sec-Fetch-Site", "cross-site")
		if p.status != http.StatusSeeOther || p.location().EscapedPath() != path+"/oauth/authorize" {
			t.Errorf("%d %q", p.status, p.header.Get("Location"))
		}
	})
	t.Run("nothing beside it", func(t *testing.T) {
		for _, outside := range []string{"/oauth/login", "/oauth/authorize", "/tenant2/oauth/login", "/TENANT/oauth/login", "/tenant//oauth/login", "/tenant/../oauth/login", "/tenant/x/oauth/login"} {
			status, header, body := g.raw(fmt.Sprintf("GET %s HTTP/1.1\nHost: %s\nConnection: close\n\n", outside, g.addr))
			if status == http.StatusOK || strings.Contains(body, "password") || header.Get("Set-Cookie") != "" {
				t.Errorf("%s: %d", outside, status)
			}
		}
	})
	t.Run("metadata names the pages below it", func(t *testing.T) {
		_, _, body := g.get("/.well-known/oauth-authorization-server"+path, "")
		if got := member(t, body, "authorization_endpoint"); got != g.url+path+"/oauth/authorize" {
			t.Errorf("authorization_endpoint %s", got)
		}
	})
}
