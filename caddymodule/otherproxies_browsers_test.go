package caddymodule

import (
	"net"
	"net/http"
	"strings"
	"testing"
)

// These tests cover browsers behind other proxies, with the configurations of docs/other-proxies.md: two applications
// and the issuer.

// documentedApplications returns a Caddyfile for browsers from the document. The proxy is at one address, the gate at
// another.
func documentedApplications(t *testing.T, block int, proxy, gate string) string {
	t.Helper()
	_, port, _ := net.SplitHostPort(gate)
	return atLocalhost(proxy).Replace(strings.NewReplacer(
		"issuer https://auth.example.com", "issuer https://auth.example.com\n\t\tstore memory\n\t\tlimits {\n\t\t\tlogin off\n\t\t\tgrants off\n\t\t}",
		"{env.ADA_HASH}", peopleHash(), "{env.BEN_HASH}", peopleHash(), ":9080", ":"+port, ":9081", ":TCPPORT",
	).Replace("{\n\tadmin ADMIN\n\tlog {\n\t\toutput file LOG\n\t\tlevel DEBUG\n\t}\n" + strings.TrimPrefix(documented(t, "caddyfile")[block], "{\n")))
}

// atLocalhost replaces hosts of the document: https://app.example.com becomes http://app.localhost with the proxy's
// port, and so on.
func atLocalhost(proxy string) *strings.Replacer {
	_, port, _ := net.SplitHostPort(proxy)
	var pairs []string
	for _, name := range []string{"app", "wiki", "auth"} {
		pairs = append(pairs, "https://"+name+".example.com", "http://"+name+".localhost:"+port, name+".example.com", name+".localhost")
	}
	return strings.NewReplacer(append(pairs, "$server_name;", "$server_name:"+port+";")...)
}

// startApplications runs nginx in front of the document's applications.
func startApplications(t *testing.T) *hostsGate {
	t.Helper()
	proxy, gate := freeAddr(t), freeAddr(t)
	g := startGatehouse(t, documentedApplications(t, 2, proxy, gate))
	nginx := documentedNginx(t)
	places := strings.NewReplacer("127.0.0.1:9080", gate, "127.0.0.1:9081", g.addr, "127.0.0.1:8080", g.upstream.addr, "127.0.0.1:8081", g.upstream.addr)
	runNginxAt(t, proxy, atLocalhost(proxy).Replace(places.Replace(nginx["applications"])), map[string]string{
		"gate.conf": atLocalhost(proxy).Replace(nginx["gate.conf"]), "headers.conf": nginx["headers.conf"],
	})
	front := *g
	front.addr, front.url = proxy, "http://"+proxy
	return &hostsGate{&front}
}

// TestNginxS100S104OneSignInForTheApplications: behind nginx, a navigation to a deep link → signed in and back; the next application asks
// nothing; upstreams see no cookie of ours; signing out at one application → all ask for a sign-in.
func TestNginxS100S104OneSignInForTheApplications(t *testing.T) {
	g := startApplications(t)
	v := g.visitor(t)
	v.give("app", &http.Cookie{Name: "theme", Value: "dark"})
	deep := g.at("app", "/deep/link%20x?q=1&r=%C3%A4&s=a%26b")
	v.arrives(t, deep, "ada@example.com")
	seen := g.upstream.one(t)
	if seen.Target != "/deep/link%20x?q=1&r=%C3%A4&s=a%26b" || seen.Method != http.MethodGet {
		t.Errorf("the upstream saw %s %s", seen.Method, seen.Target)
	}
	seen.has(t, "X-Auth-Subject", "ada").has(t, "X-Auth-Groups", "writers").has(t, "Authorization")
	if cookies := strings.Join(seen.Header.Values("Cookie"), "; "); strings.Contains(cookies, "gatehouse") || !strings.Contains(cookies, "theme=dark") {
		t.Errorf("the upstream got the cookies %q", cookies)
	}
	wiki := g.at("wiki", "/pages/1")
	v.arrives(t, wiki, "")
	g.upstream.one(t).has(t, "X-Auth-Subject", "ada")
	if a := g.visitor(t).send(http.MethodHead, deep, "", navigation...); a.status != http.StatusSeeOther || a.header.Get("Location") == "" {
		t.Errorf("HEAD: %d", a.status)
	}
	g.upstream.none(t)
	if a := v.navigate(g.at("app", "/oauth/sign_out")); a.status != http.StatusOK || !strings.Contains(a.body, "ada@example.com") {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if a := v.send(http.MethodPost, g.at("app", "/oauth/sign_out"), "", "Sec-Fetch-Site", "same-origin", "Content-Type", urlEncoded); a.status != http.StatusSeeOther {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for _, target := range []string{g.at("app", "/"), g.at("wiki", "/pages/1")} {
		if a, at := v.walk(target, ""); !strings.HasPrefix(at, g.origin("auth")) || !strings.Contains(a.body, `name="password"`) {
			t.Errorf("%s: %d at %s", target, a.status, at)
		}
	}
	g.upstream.none(t)
}

// TestNginxS101WhatIsNoNavigationIsRefused: behind nginx without a session: fetch, image, frame, WebSocket, POST → 401 with one
// challenge; a form → a page that says that nothing was sent.
func TestNginxS101WhatIsNoNavigationIsRefused(t *testing.T) {
	g := startApplications(t)
	v := g.visitor(t)
	form := []string{"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Sec-Fetch-Site", "same-origin", "Origin", g.origin("app"), "Accept", "text/html"}
	for name, c := range map[string]struct {
		method, body string
		headers      []string
		page         bool
	}{
		"fetch":      {method: http.MethodGet, headers: []string{"Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty", "Sec-Fetch-Site", "same-origin"}},
		"frame":      {method: http.MethodGet, headers: []string{"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe", "Sec-Fetch-Site", "same-origin"}},
		"POST":       {method: http.MethodPost, body: "a=b", headers: []string{"Content-Type", urlEncoded}},
		"a form":     {method: http.MethodPost, body: "a=b", headers: append(form, "Content-Type", urlEncoded), page: true},
		"own answer": {method: http.MethodGet, headers: []string{"X-Refused", "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := v.send(c.method, g.at("app", "/x"), c.body, c.headers...)
			if a.status != http.StatusUnauthorized || len(a.header.Values("WWW-Authenticate")) != 1 || a.header.Get("Location") != "" {
				t.Errorf("%d %v", a.status, a.header)
			}
			if strings.HasPrefix(a.header.Get("Content-Type"), "text/html") != c.page || strings.Contains(a.body, "nginx") {
				t.Errorf("the answer: %v %s", a.header, a.body)
			}
		})
	}
	g.upstream.none(t)
}

// TestNginxS102UnsafeRequestsProveTheirOrigin: behind nginx: POST or WebSocket of the application's own page → passes with its body; of a
// sibling or another site → 403.
func TestNginxS102UnsafeRequestsProveTheirOrigin(t *testing.T) {
	g := startApplications(t)
	v := g.signedIn(t, "ada@example.com")
	for name, c := range map[string]struct {
		headers []string
		want    int
	}{
		"a page of the application": {[]string{"Sec-Fetch-Site", "same-origin", "Origin", g.origin("app")}, 200},
		"a page of a sibling":       {[]string{"Sec-Fetch-Site", "same-site", "Origin", g.origin("wiki")}, 403},
		"another site's":            {[]string{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"}, 403},
		"nobody knows whose":        {nil, 403},
		"another method in a header": {
			[]string{"Sec-Fetch-Site", "same-site", "Origin", g.origin("wiki"), "X-Forwarded-Method", "GET", "X-HTTP-Method-Override", "GET"}, 403,
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := v.send(http.MethodPost, g.at("app", "/orders?x=1"), "a=b", append(c.headers, "Content-Type", urlEncoded)...)
			if a.status != c.want {
				t.Errorf("%d %s", a.status, a.body)
			}
			if c.want != http.StatusOK {
				g.upstream.none(t)
				return
			}
			if seen := g.upstream.one(t); seen.Method != http.MethodPost || seen.Target != "/orders?x=1" || string(seen.Body) != "a=b" {
				t.Errorf("the upstream saw %s %s %q", seen.Method, seen.Target, seen.Body)
			}
		})
	}
	g.upstream.answer = websocketUpstream
	nginx := &gateway{gatehouse: g.gatehouse}
	lines := []string{"Host: " + strings.TrimPrefix(g.origin("app"), "http://"), "Cookie: " + hostCookie + "=" + v.cookie("app", hostCookie), "Connection: Upgrade", "Upgrade: websocket"}
	request := func(origin string) string {
		return "GET /ws HTTP/1.1\r\n" + strings.Join(append(lines, "Origin: "+origin), "\r\n") + "\r\n\r\n"
	}
	answerOf(nginx.raw(strings.Replace(request(g.origin("wiki")), "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1))).is(t, http.StatusForbidden, "of a sibling")
	g.upstream.none(t)
	w := nginx.dial(t, request(g.origin("app")))
	w.echoes(t)
	g.upstream.one(t).has(t, "X-Auth-Subject", "ada")
	_ = w.Close()
}

// TestNginxS103S105NobodyChoosesWhichRuleIsAsked: behind nginx: a rule refuses a session's user → a 403 page that names the account; another host in
// line or header, the gate's own location, hostile return paths → the rule of the application that nginx chose, or 404.
func TestNginxS103S105NobodyChoosesWhichRuleIsAsked(t *testing.T) {
	g := startApplications(t)
	v := g.signedIn(t, "ben@example.com")
	a, at := v.walk(g.at("wiki", "/pages/1"), "")
	if a.status != http.StatusForbidden || at != g.at("wiki", "/pages/1") || !strings.Contains(a.body, "ben@example.com") || !strings.Contains(a.body, "/oauth/sign_out") {
		t.Errorf("%d at %s: %s", a.status, at, a.body)
	}
	fetch := []string{"Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty", "Sec-Fetch-Site", "same-origin"}
	if a := v.send(http.MethodGet, g.at("wiki", "/api"), "", fetch...); a.status != http.StatusForbidden || strings.Contains(a.body, "<html") {
		t.Errorf("a fetch: %d %v %s", a.status, a.header, a.body)
	}
	v.navigate(g.at("app", "/")).is(t, http.StatusOK, "the other application")
	g.upstream.one(t)
	session := "Cookie: " + hostCookie + "=" + v.cookie("app", hostCookie)
	_, port, _ := net.SplitHostPort(g.addr)
	for name, c := range map[string]struct {
		request string
		want    int
	}{
		"a host in the request line, another in Host": {"GET http://wiki.localhost:" + port + "/x HTTP/1.1\r\nHost: app.localhost:" + port + "\r\n" + session, 401},
		"a host in a header":                          {"GET /x HTTP/1.1\r\nHost: wiki.localhost:" + port + "\r\nX-Forwarded-Host: app.localhost:" + port + "\r\nX-Forwarded-Uri: /\r\n" + session, 401},
		"a host that is none of ours":                 {"GET /x HTTP/1.1\r\nHost: evil.example\r\n" + session, 200}, // nginx selects the first server, which is app
		"the gate's own location":                     {"GET /_gate HTTP/1.1\r\nHost: app.localhost:" + port + "\r\n" + session, 404},
		"a question that gets no yes":                 {"GET /x HTTP/1.1\r\nHost: app.localhost:" + port + "\r\nX-Refused: 1\r\n" + session, 503},
	} {
		t.Run(name, func(t *testing.T) {
			status, header, body := g.raw(c.request + "\r\nConnection: close\r\n\r\n")
			if status != c.want || header.Get("Location") != "" {
				t.Errorf("%d %v %s", status, header, body)
			}
			for _, seen := range g.upstream.seen() {
				if c.want != http.StatusOK {
					t.Errorf("the upstream saw %s", seen.Raw)
				}
			}
		})
	}
	if a, at := g.visitor(t).walk(g.at("app", "//evil.example/x"), "ada@example.com"); !strings.HasPrefix(at, g.origin("app")+"/") {
		t.Errorf("%d at %s", a.status, at)
	}
}
