package caddymodule

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Paths, methods and hosts in every spelling. The gate refuses an ambiguous path and judges any other as the upstream will read it.

// everythingDenied requires a scope for every path.
var everythingDenied = siteWith("", gated(" trusted"))

// publicAside is open for paths that look public to the gate but not to the upstream. Only the path distinguishes them.
var publicAside = siteWith("", gated("", "anonymous /public/*", "require /api/* scope trusted"))

// lenientAside is publicAside for an upstream that needs unusual paths.
var lenientAside = strings.Replace(publicAside, "anonymous /public/*", "anonymous /public/*\n\t\t\tpaths lenient", 1)

// ambiguousPaths has one path for each reason to refuse one. Package requestpath tests all variants.
var ambiguousPaths = map[string]string{
	"path_backslash": "/public/..%5c..%5capi", "path_control_byte": "/api/x%0d%0aX:y", "path_dot_segment": "/public/%2e%2e/api/x", "path_double_encoding": "/public/%252e%252e/api/x",
	"path_empty_segment": "//api/x", "path_invalid_utf8": "/api/%c0%ae%c0%ae/x", "path_ignorable": "/ap%C2%ADi/x", "path_lookalike": "/%ef%bd%81pi/x",
	"path_lookalike_slash": "/public/..%EF%BC%8Fapi/x", "path_semicolon": "/public/..;/api/x", "path_trimmed_segment": "/api./x",
}

func TestG59To61G63G98AmbiguousPaths(t *testing.T) {
	for name, configuration := range map[string]string{"everything denied": everythingDenied, "public aside": publicAside, "lenient": lenientAside} {
		t.Run(name, func(t *testing.T) {
			g := startBoth(t, configuration)
			public, trusted := g.server("public"), g.user("u-1", "", "", "trusted", "public")
			for reason, path := range ambiguousPaths {
				if name == "lenient" {
					g.refused(t, g.request("GET", path), 401)
					g.refused(t, g.request("GET", path, bearer(public)), 403)
					g.passed(t, g.request("GET", path, bearer(trusted)))
					continue
				}
				g.because(t, g.request("GET", path), 400, reason)
				g.because(t, g.request("POST", "http://"+g.addr+path, bearer(trusted)), 400, reason)
			}
			g.refused(t, g.request("GET", "/api"), 401)
			for _, path := range []string{"/api", "/caf%C3%A9", "/漢字/%E6%BC%A2"} {
				g.passed(t, g.request("GET", path, bearer(trusted)))
			}
			if name == "lenient" {
				g.passed(t, g.request("GET", "/public/x"))
				g.passed(t, g.request("GET", "/other", bearer(public)))
			}
		})
	}
}

// TestG65QueryAndFragment: a path in query or fragment, or a request target that is neither a path nor a URL → never matched.
func TestG65QueryAndFragment(t *testing.T) {
	g := startBoth(t, publicAside)
	public := g.server("public")
	for _, target := range []string{"/public/x#/api", "/public/x%23/api", "/public/x%3f/../api", "/api?/public/", "/api#/public/x", "/?x=/public/x", "/x?/public/../api"} {
		status, _, body := g.asked(t, g.request("GET", target))
		if status != 401 && status != 400 {
			t.Errorf("%s: %d %s", target, status, body)
		}
		g.upstream.none(t)
	}
	// The query may contain anything.
	if seen := g.passed(t, g.request("GET", "/public/x?/../api;a=%2e%2e\\")); seen.Target != "/public/x?/../api;a=%2e%2e\\" {
		t.Errorf("forwarded %s", seen.Target)
	}
	g.refused(t, g.request("GET", "/api/x?/public/x", bearer(public)), 403)
	// A fragment in the request target belongs to the path and is forwarded as an encoded number sign.
	if seen := g.passed(t, g.request("GET", "/public/x#/api", bearer(public))); seen.Target != "/public/x%23/api" {
		t.Errorf("forwarded %s", seen.Target)
	}
	for _, target := range []string{"x:api/s", "http:api/s", "mailto:public/x", "*", "public/x", "?/public/x", "/public/\tx", "/%", "/%zz", "/public/%u002e%u002e/api/x", "/public/%", "http://[::1/x"} {
		for _, lines := range [][]string{nil, {bearer(public)}} {
			status, _, body := g.asked(t, g.request("GET", target, lines...))
			seen := g.upstream.seen()
			if lines == nil && (len(seen) > 0 || body == "ok") {
				t.Errorf("GET %s: %d %s", target, status, body)
			}
			for _, r := range seen {
				if strings.Contains(r.Target, "api") || strings.Contains(r.Target, "public") {
					t.Errorf("GET %s was forwarded as %s", target, r.Target)
				}
			}
		}
	}
}

// TestG66Hosts: an absolute-form target, another case, port, trailing dot, two Hosts, a differing `:authority` → the same site or 400;
// unknown hosts are never proxied.
func TestG66Hosts(t *testing.T) {
	g := startBoth(t, site)
	_, port, _ := strings.Cut(g.addr, ":")
	var hosts strings.Builder
	for i := range 120 {
		hosts.WriteString("http://h" + itoa(i) + ".example:" + port + " ")
	}
	g.reload(publicAside + "\n" + hosts.String() + "{\n\troute {\n\t\tprotect {\n\t\t\tanonymous /public/*\n\t\t}\n\t\treverse_proxy UPSTREAM\n\t}\n}\n")
	token := g.server("public")
	with := func(target, host string, lines ...string) string {
		return "GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\n" + strings.Join(append(lines, ""), "\r\n") + "\r\n"
	}
	for _, host := range []string{"h5.example:" + port, "H5.EXAMPLE:" + port, "h119.example", "H119.Example:" + port, "h7.example:1"} {
		g.refused(t, with("/x", host), 401)
		g.refused(t, with("/x", host, "X-Forwarded-Host: "+g.addr), 401)
		answerOf(g.asked(t, with("/x", host, bearer(token)))).is(t, 200, host)
		g.upstream.one(t)
	}
	// The host of the absolute form counts. The Host header is ignored (RFC 9112 §3.2.2).
	g.refused(t, with("http://h5.example:"+port+"/x", g.addr), 401)
	g.refused(t, with("http://H5.example:"+port+"/x", "evil.test"), 401)
	g.refused(t, with("http://"+g.addr+"/api/x", "h5.example:"+port, bearer(token)), 403) // the rule of the target's site
	g.refused(t, with("http://user:pass@"+g.addr+"/api/x", "evil.test", bearer(token)), 403)
	g.refused(t, with("http://"+g.addr, g.addr), 401)
	g.refused(t, with("http://"+g.addr+"?/public/x", g.addr), 401)
	// A host without a site is not proxied.
	for _, request := range []string{
		with("/x", "evil.test", bearer(token)), with("/public/x", "evil.test"), with("http://evil.test/public/x", g.addr), with("/public/x", ""),
		with("/public/x", g.addr+"\r\nHost: h5.example"), with("/public/x", g.addr+", h5.example"), with("/public/x", "h5.example@evil.test"),
		with("/public/x", "h5.example:"+port+"/"), with("//evil.test/public/x", "evil.test"), with("https://evil.test/public/x", "evil.test"),
		with("/public/x", "..."), with("/public/x", "h5.example\x00"), with("/public/x", "h120.example"), with("/public/x", "xh5.example"),
	} {
		status, _, body := g.raw(request)
		if body == "ok" {
			t.Errorf("%q was proxied: %d", request, status)
		}
		if fields, data, ok := g.inH2(request); ok {
			if status, _, body := g.h2(t, fields, data...); body == "ok" {
				t.Errorf("%q was proxied: %d", fields, status)
			}
		}
		g.upstream.none(t)
	}
	// A trailing dot names the same host in DNS. The request is either judged the same or not served.
	if status, _, _ := g.raw(with("/x", "h5.example.:"+port)); status != 401 && status != 200 && status != 400 {
		t.Errorf("trailing dot: %d", status)
	}
	g.upstream.none(t)
}

// TestG66SpellingsOfAHostInARule: the host of a rule or of an `anonymous` that spares it, at a site that takes every host, with dots at its end, in
// another case or with a port, in a Host, an absolute-form target and an `:authority` → the rule holds; percent-encoded, beyond ASCII, in
// brackets or with two ports → 400; other hosts, addresses and no host pass.
func TestG66SpellingsOfAHostInARule(t *testing.T) {
	g := startGate(t, siteWith("\t\tprotocols h1 h2c", "")+"\nhttp://:TCPPORT {\n\tlog\n\t@admin host admin.example m\u00fcller.example\n\t@others not host admin.example m\u00fcller.example\n"+
		"\t@header header Host admin.example\n\t@named expression \"{http.request.host} == 'admin.example'\"\n\t@unnamed expression \"{http.request.host} != 'admin.example'\"\n"+
		gated("/open/*", "anonymous @others")+gated("/unnamed/*", "anonymous @unnamed")+gated("/lenient/*", "require @admin scope trusted", "paths lenient")+
		gated("/header/*", "require @header scope trusted")+
		gated("/named/*", "require @named scope trusted")+gated("/told/*", `require expression "{http.request.host} != 'admin.example'"`)+
		gated("", "require @admin scope trusted")+"}\n")
	public, trusted := g.server("public"), g.server("trusted")
	with := func(target, host, token string) string {
		lines := "GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\n"
		if token != "" {
			lines += bearer(token) + "\r\n"
		}
		return lines + "\r\n"
	}
	overH2 := func(host string) (int, string) {
		status, _, body := g.h2(t, [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", host}, {":path", "/x"}, {"authorization", "Bearer " + public}})
		g.upstream.none(t)
		return status, body
	}
	dotted := []string{"admin.example.", "ADMIN.example.:80", "admin.example..", "admin.example.:", "xn--mller-kva.example."}
	for _, host := range append(dotted, "admin.example", "ADMIN.Example", "admin.example:80", "admin.example:", "xn--mller-kva.example") {
		for _, target := range []string{"/x", "/lenient/x", "/header/x"} {
			if target == "/header/x" && strings.HasPrefix(host, "xn--") {
				continue
			}
			g.because(t, with(target, host, public), http.StatusForbidden, "scope_missing")
			g.passed(t, with(target, host, trusted))
		}
		g.because(t, with("/open/x", host, ""), http.StatusUnauthorized, "token_missing")
		g.because(t, with("http://"+host+"/x", "other.example", public), http.StatusForbidden, "scope_missing")
		g.because(t, with("http://"+host+"/open/x", "other.example", ""), http.StatusUnauthorized, "token_missing")
		if status, body := overH2(host); status != http.StatusForbidden {
			t.Errorf(":authority %q: %d %s", host, status, body)
		}
	}
	for _, host := range append(dotted, "other.example.", "ADMIN.Example", "admin.examplE:80", "Other.example") {
		g.because(t, with("/named/x", host, public), http.StatusForbidden, "scope_missing")
		g.because(t, with("/unnamed/x", host, ""), http.StatusUnauthorized, "token_missing")
		g.because(t, with("/told/x", host, trusted), http.StatusForbidden, "expression_failed")
	}
	for _, host := range []string{
		"%61dmin.example", "admin.example%2e", "admin.example:80:80", "admin.example:80:", "admin.example,x", "[admin.example.]", "[admin.example]", "[admin.example", "admin.example]",
		"admin.example:x", "admin.example.:x", "admin.example;", "[::1]admin.example", "[::1].", "[127.0.0.2]",
	} {
		for _, target := range []string{"/x", "/lenient/x", "/open/x"} {
			g.because(t, with(target, host, public), http.StatusBadRequest, "host_ambiguous")
			g.because(t, with(target, host, trusted), http.StatusBadRequest, "host_ambiguous")
		}
		g.because(t, with("/open/x", host, ""), http.StatusBadRequest, "host_ambiguous")
		if status, body := overH2(host); body == "ok" { // either the server refuses the :authority, or the gate does
			t.Errorf(":authority %q: %d %s", host, status, body)
		}
	}
	for _, host := range []string{"m%C3%BCller.example", "m\u00fcller.example:80", "admin.example%E3%80%82", "%EF%BD%81dmin.example", "%61dmin.example", "."} { // Go or Caddy refuses these
		g.turnedAway(t, with("http://"+host+"/x", "other.example", public), http.StatusBadRequest)
		g.turnedAway(t, with("/open/x", host, ""), http.StatusBadRequest)
	}
	g.turnedAway(t, with("/x", "x@admin.example", public), http.StatusBadRequest)
	g.because(t, with("http://x@admin.example/x", "other.example", public), http.StatusForbidden, "scope_missing")
	g.because(t, with("/x", " admin.example\t", public), http.StatusForbidden, "scope_missing")
	for _, host := range []string{"other.example", "_sip.a-b.example:8080", "127.0.0.2", "[::1]", "[::1]:80", "[fe80::1%25eth0]"} {
		for _, target := range []string{"/x", "/named/x", "/told/x"} {
			g.passed(t, with(target, host, public))
		}
		g.passed(t, with("/open/x", host, ""))
		g.passed(t, with("/unnamed/x", host, ""))
	}
	g.passed(t, with("/x", "other.example.", public))
	g.passed(t, with("/open/x", "other.example.", ""))
	g.passed(t, "GET /x HTTP/1.0\r\n"+bearer(public)+"\r\n\r\n")
}

func TestG66Authority(t *testing.T) {
	g := startGate(t, siteWith("\t\tprotocols h1 h2c", "\tprotect trusted\n\treverse_proxy UPSTREAM"))
	public, trusted := g.server("public"), g.user("u-1", "", "", "trusted")
	for name, fields := range map[string][][2]string{
		"two paths":            {{":method", "GET"}, {":scheme", "http"}, {":authority", g.addr}, {":path", "/x"}, {":path", "/y"}},
		"two authorities":      {{":method", "GET"}, {":scheme", "http"}, {":authority", g.addr}, {":authority", "evil.test"}, {":path", "/x"}},
		"another scheme":       {{":method", "GET"}, {":scheme", "https"}, {":authority", g.addr}, {":path", "/x"}},
		"upper-case name":      {{":method", "GET"}, {":scheme", "http"}, {":authority", g.addr}, {":path", "/x"}, {"X-Auth-Subject", "admin"}},
		"line in a value":      {{":method", "GET"}, {":scheme", "http"}, {":authority", g.addr}, {":path", "/x"}, {"x", "y\r\nX-Auth-Subject: admin"}},
		"websocket by CONNECT": {{":method", "CONNECT"}, {":protocol", "websocket"}, {":scheme", "http"}, {":authority", g.addr}, {":path", "/x"}},
		"plain CONNECT":        {{":method", "CONNECT"}, {":authority", g.addr}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, token := range []string{"", public} {
				sent := fields
				if token != "" {
					sent = append(fields[:len(fields):len(fields)], [2]string{"authorization", "Bearer " + token})
				}
				status, _, body := g.h2(t, sent)
				if body == "ok" {
					t.Errorf("%d %s", status, body)
				}
				g.upstream.none(t)
			}
		})
	}
	answerOf(g.h2(t, g.fields("GET", "/x", "authorization", "Bearer "+trusted))).is(t, 200, "a good request")
	g.upstream.one(t)
}

// TestG67MethodsThatAreNone: `get`, TRACE, CONNECT → 405.
func TestG67MethodsThatAreNone(t *testing.T) {
	g := startBoth(t, publicAside)
	trusted := g.user("u-1", "", "", "trusted", "public")
	for _, method := range []string{"get", "FOO", "TRACE", "head", "CONNECT"} {
		for _, target := range []string{"/api/x", "/public/x"} {
			header, _ := g.refused(t, g.request(method, target, bearer(trusted)), 405)
			if !strings.HasPrefix(header.Get("Allow"), "GET, HEAD") || header.Get("Www-Authenticate") != "" {
				t.Errorf("%s: %v", method, header)
			}
			g.refused(t, g.request(method, target), 405)
		}
	}
	g.turnedAway(t, g.request("CONNECT", g.addr, bearer(trusted)), 405)
	g.turnedAway(t, g.request("CONNECT", "upstream.test:443", bearer(trusted)), 405, 400, 200)
	for _, method := range []string{"GET", "POST", "PROPFIND", "QUERY"} {
		g.passed(t, g.request(method, "/api/x", bearer(trusted), "Content-Length: 0"))
	}
	for _, target := range []string{"*", "/api/x"} { // the server answers OPTIONS * itself
		_, _, body := g.asked(t, g.request("OPTIONS", target))
		if body == "ok" {
			t.Errorf("OPTIONS %s was proxied", target)
		}
		g.upstream.none(t)
	}
}

// TestV10TwoMethodsInTheQuery: two methods in the query → 400; one counts where a preflight or the origin of a cookie is judged. Package rule
// tests the rules.
func TestV10TwoMethodsInTheQuery(t *testing.T) {
	g := startGate(t, siteWith("", gated("/shared/*", "cors https://spa.example {\npreflight upstream\n}")+gated("/cookie/*", "token_from cookie app_token")+gated("", "anonymous /open/*")))
	public := g.server("public")
	for _, query := range []string{"_method=DELETE&_method=PUT", "_method=PUT&X-HTTP-Method-Override=DELETE"} {
		g.because(t, g.request("POST", "/x?"+query, bearer(public), "Content-Length: 0"), http.StatusBadRequest, "method_twice")
		g.because(t, g.request("GET", "/open/x?"+query), http.StatusBadRequest, "method_twice")
	}
	g.refused(t, g.request("OPTIONS", "/shared/x?_method=DELETE", "Origin: https://spa.example", "Access-Control-Request-Method: POST"), http.StatusUnauthorized)
	g.refused(t, g.request("GET", "/cookie/x?_method=DELETE", "Cookie: app_token="+public, "Sec-Fetch-Site: cross-site"), http.StatusForbidden)
	g.passed(t, g.request("GET", "/cookie/x?_method=HEAD", "Cookie: app_token="+public, "Sec-Fetch-Site: cross-site"))
	g.passed(t, g.request("GET", "/cookie/x?_method=DELETE", "Cookie: app_token="+public, "Sec-Fetch-Site: same-origin"))
}

// TestG97OtherSpellings: other spellings of our endpoints: slashes, dots, escapes, case, `;x` → 404 from us, never at the next handler.
// Package endpoint tests every spelling. A client with a slash at the end of its base URL sent its credentials to //oauth/token, and the
// site forwarded them.
func TestG97OtherSpellings(t *testing.T) {
	for _, routes := range []string{"\toauth_server\n\treverse_proxy UPSTREAM", "\troute {\n\t\toauth_server\n\t\tprotect {\n\t\t\tanonymous /public/*\n\t\t}\n\t\treverse_proxy UPSTREAM\n\t}"} {
		g := startGate(t, siteWith("", routes))
		form := "grant_type=client_credentials&client_id=conf&client_secret=" + confSecret
		for _, target := range []string{
			"//oauth/token", "/x/../oauth/token", "/OAuth/Token", "/%6fauth/token", "/oauth%2ftoken", "/oauth;a=b/token", "/oauth%00/token", "/oauth", "/oauth/../public/x", "x:oauth/token",
			"http://" + g.addr + "//oauth/token", "//.well-known/oauth-authorization-server", "//.well-known/oauth-protected-resource/x", "//api/v1/organisations/me/users/1/access_tokens",
		} {
			for _, lines := range [][]string{nil, {bearer(g.server("public"))}} {
				lines = append(lines, "Content-Type: application/x-www-form-urlencoded", "Content-Length: "+itoa(len(form)), "Connection: close")
				status, header, body := g.raw(g.requestWith(form, "POST", target, lines...))
				if (status < 400 || status > 405) || !strings.HasPrefix(body, `{"error`) || header.Get("Cache-Control") != "no-store" {
					t.Errorf("%s: %d %v %s", target, status, header, body)
				}
				g.upstream.none(t)
			}
		}
		for _, target := range []string{"/oauthx", "/login/oauth/authorize", "/.well-known/x"} {
			if status, _, body := g.raw(g.request("GET", target, bearer(g.server("public")))); status != 200 || body != "ok" {
				t.Errorf("%s: %d %s", target, status, body)
			}
			g.upstream.one(t)
		}
		if logs := g.logs(); strings.Contains(logs, confSecret) {
			t.Error("the client's secret is in the logs")
		}
	}
}

// answered is one answer on a connection.
type answered struct {
	status int
	body   string
}

// exchange writes text on one connection. It reads answers until the server closes it, or, after at least the given number of answers,
// until a read times out.
func (g *gateway) exchange(t *testing.T, text string, least int) []answered {
	t.Helper()
	connection, err := net.Dial("tcp", g.addr)
	check(t, err)
	defer func() { _ = connection.Close() }()
	_ = connection.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(connection, text)
	reader := bufio.NewReader(connection)
	var answers []answered
	for {
		if len(answers) >= least {
			_ = connection.SetReadDeadline(time.Now().Add(2 * time.Second))
		}
		answer, err := http.ReadResponse(reader, nil)
		if err != nil {
			return answers
		}
		body, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		answers = append(answers, answered{answer.StatusCode, string(body)})
	}
}
