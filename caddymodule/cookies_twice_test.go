package caddymodule

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestV11TwoSessionCookies: two different session cookies of a host → 400; its sign-out deletes both, also one that a page has stored with
// Partitioned. Package browser tests how cookies are written.
func TestV11TwoSessionCookies(t *testing.T) {
	g := startSecureHosts(t)
	v, name := g.visitor(t), "__Host-gatehouse-session"
	v.client.Transport = g.transports(t)["HTTP/1.1"]
	v.walk(g.at("app", "/"), "ada@acme.example")
	own := v.cookie("app", name)
	other := strings.Repeat("x", len(own))
	g.upstream.seen()
	bare := &http.Client{Transport: v.client.Transport, CheckRedirect: stays, Timeout: patience}
	for spelling, c := range map[string]struct {
		lines []string
		want  int
	}{
		"one":                 {[]string{name + "=" + own}, 200},
		"the same twice":      {[]string{name + "=" + own + "; " + name + "=" + own}, 200},
		"in another line":     {[]string{name + "=" + own, "\t" + name + "=" + other}, 400},
		"three":               {[]string{name + "=a; " + name + "=b; " + name + "=" + own}, 400},
		"one that is no good": {[]string{name + "=" + other}, 401},
	} {
		var headers []string
		for _, line := range c.lines {
			headers = append(headers, "Cookie", "theme=dark; "+strings.TrimPrefix(line, " "))
		}
		if a := sentBy(t, bare, http.MethodGet, g.at("app", "/x"), "", headers...); a.status != c.want {
			t.Errorf("%s: %d %s, want %d", spelling, a.status, a.body, c.want)
		}
		for _, seen := range g.upstream.seen() {
			if cookies := strings.Join(seen.Header["Cookie"], ";"); c.want != 200 || strings.Contains(cookies, name+"=") {
				t.Errorf("%s: the upstream got %q", spelling, cookies)
			}
		}
	}
	two := []string{"Cookie", name + "=" + own + "; " + name + "=" + other}
	for _, path := range []string{"/oauth/session", "/oauth/sign_in"} {
		if a := sentBy(t, bare, http.MethodGet, g.at("app", path), "", two...); a.status != http.StatusBadRequest {
			t.Errorf("%s: %d", path, a.status)
		}
	}
	a := sentBy(t, bare, http.MethodGet, g.at("app", "/oauth/sign_out"), "", two...)
	deleted := a.header["Set-Cookie"]
	if a.status != http.StatusSeeOther || len(deleted) == 0 || slices.ContainsFunc(deleted, func(line string) bool { return !strings.Contains(line, "Max-Age=0") }) {
		t.Errorf("signing out: %d %q", a.status, deleted)
	}
	if len(deleted) != 2 || !strings.HasSuffix(deleted[1], "; Partitioned") {
		t.Errorf("the partitioned cookie stays: %q", deleted)
	}
}

// TestV11TwoSessionsOfTheIssuer: two different session cookies of the issuer under https → not signed in.
func TestV11TwoSessionsOfTheIssuer(t *testing.T) {
	g := behind(t, "https", "")
	b := g.trusting()
	r := requestOf("conf")
	b.signIn(b.open(r.path()), "ada@acme.example", peoplePassword)
	own := b.cookie("__Host-session")
	for name, c := range map[string]struct {
		cookie string
		in     bool
	}{
		"one":            {"__Host-session=" + own, true},
		"the same twice": {"__Host-session=" + own + "; __Host-session=" + own, false},
		"another before": {"__Host-session=x; __Host-session=" + own, false},
		"another behind": {"__Host-session=" + own + ";\t__Host-session=x", false},
	} {
		status, _, body := g.do(http.MethodGet, "/oauth/account", "", "Cookie", c.cookie, "X-Forwarded-Proto", "https")
		if in := status == http.StatusOK && strings.Contains(body, "ada@acme.example"); own == "" || in != c.in {
			t.Errorf("%s: %d", name, status)
		}
	}
}

// TestNginxV11CookiesOfTheGate: behind nginx, however a client writes cookies of ours, the application gets none of them and all of its
// own, and browsers refuse those that it sets. Two different session cookies are refused.
func TestNginxV11CookiesOfTheGate(t *testing.T) {
	g := startApplications(t)
	v := g.signedIn(t, "ada@example.com")
	own := hostCookie + "=" + v.cookie("app", hostCookie)
	long := "long=" + strings.Repeat("x", 7000)
	host := strings.TrimPrefix(g.origin("app"), "http://")
	for name, c := range map[string]struct {
		cookies []string
		want    int
		kept    string
	}{
		"alone":           {[]string{own}, 200, ""},
		"last":            {[]string{"theme=dark; " + own}, 200, "theme=dark"},
		"first":           {[]string{own + "; theme=dark"}, 200, "theme=dark"},
		"twice":           {[]string{own + "; theme=dark; " + own}, 200, "theme=dark"},
		"behind a tab":    {[]string{own + ";\t" + own + "; theme=dark"}, 200, "theme=dark"},
		"without a space": {[]string{"a=b;" + own + ";theme=dark"}, 200, "a=b;theme=dark"},
		"two lines":       {[]string{own + "; a=b", "theme=dark; " + own}, 200, "a=b; theme=dark"},
		"all of ours":     {[]string{"__Host-gatehouse-session=x; __Host-gatehouse-sign-in=x; __Host-gatehouse-signed-out=x; gatehouse_sign_in=x; accessToken=x; " + own + "; theme=dark"}, 200, "theme=dark"},
		"long":            {[]string{long + "; " + own}, 200, long},
		"two different":   {[]string{own + "; theme=dark;\t" + hostCookie + "=x"}, 400, ""},
	} {
		t.Run(name, func(t *testing.T) {
			status, _, body := g.raw("GET /x HTTP/1.1\r\nHost: " + host + "\r\nCookie: " + strings.Join(c.cookies, "\r\nCookie: ") + "\r\nConnection: close\r\n\r\n")
			if status != c.want {
				t.Fatalf("%d %s, want %d", status, body, c.want)
			}
			for _, seen := range g.upstream.seen() {
				if got := strings.Join(seen.Header["Cookie"], "|"); c.want != 200 || got != c.kept {
					t.Errorf("the application got %q, want %q", got, c.kept)
				}
			}
		})
	}
	// nginx does not recognize a cookie without a name (=__Host-…), and browsers refuse it by themselves (RFC 6265bis §5.6).
	set := []string{"__Host-gatehouse-session=a; Path=/; Secure; HttpOnly", "__host-gatehouse-session=a; Secure; path=/; Partitioned", "\t__Host-gatehouse-signed-out=a;Path=/;SECURE", "theme=dark; Path=/; Secure"}
	var lines []string
	for _, line := range set {
		lines = append(lines, "Set-Cookie: "+line)
	}
	g.upstream.answer = answering(lines...)
	status, header, _ := g.raw("GET /x HTTP/1.1\r\nHost: " + host + "\r\nCookie: " + own + "\r\nConnection: close\r\n\r\n")
	if status != http.StatusOK || len(header["Set-Cookie"]) != len(set) {
		t.Errorf("%d %q", status, header["Set-Cookie"])
	}
	for _, line := range header["Set-Cookie"] {
		if secure := strings.Contains(strings.ToLower(line), "secure"); secure != strings.HasPrefix(line, "theme") {
			t.Errorf("browsers take %q: %v", line, secure)
		}
	}
}
