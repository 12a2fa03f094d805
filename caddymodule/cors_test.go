package caddymodule

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// CORS: preflights, and which answers pages of other origins may read.

const spa = "https://spa.example"

var corsRoutes = handled("handle /api/*", protect("cors https://spa.example http://localhost:3000 {\npreflight upstream\n}", "token_from cookie app_token", "require /api/orders/* scope orders.read"),
	"reverse_proxy UPSTREAM {\nflush_interval -1\n}") +
	gated("/bearer/*", "cors https://spa.example {\npreflight upstream\n}", "trust_headers X-HTTP-Method-Override") +
	gated("/every/*", "cors * {\npreflight upstream\n}") +
	gated("/own/* public", "cors https://spa.example http://localhost:3000") +
	gated("/ownany/*", "cors *", "anonymous /ownany/open") +
	gated("/owncookie/*", "cors https://spa.example", "token_from cookie app_token") + gated("/closed/*")

// TestG68PreflightsThatNeedNoToken: OPTIONS → needs a token unless it is a preflight and configured.
func TestG68PreflightsThatNeedNoToken(t *testing.T) {
	g := startGate(t, siteWith("\t\ttrusted_proxies static 127.0.0.1/32", corsRoutes))
	token := g.server("public")
	origin, method := "Origin: "+spa, "Access-Control-Request-Method: PUT"
	for name, test := range map[string]struct {
		method, target string
		lines          []string
		passes         bool
	}{
		"a preflight":              {"OPTIONS", "/api/x", []string{origin, method}, true},
		"of any origin":            {"OPTIONS", "/every/x", []string{"Origin: https://evil.test", method}, true},
		"without the option":       {"OPTIONS", "/closed/x", []string{origin, method}, false},
		"without an origin":        {"OPTIONS", "/api/x", []string{method}, false},
		"without a method":         {"OPTIONS", "/api/x", []string{origin}, false},
		"a method that is none":    {"OPTIONS", "/api/x", []string{origin, "Access-Control-Request-Method: PUT, GET"}, false},
		"two origins":              {"OPTIONS", "/api/x", []string{origin, origin, method}, false},
		"two methods":              {"OPTIONS", "/api/x", []string{origin, method, method}, false},
		"of another origin":        {"OPTIONS", "/api/x", []string{"Origin: https://evil.test", method}, false},
		"another port":             {"OPTIONS", "/api/x", []string{origin + ":8443", method}, false},
		"null":                     {"OPTIONS", "/api/x", []string{"Origin: null", method}, false},
		"a list of origins":        {"OPTIONS", "/api/x", []string{origin + " https://evil.test", method}, false},
		"another method":           {"GET", "/api/x", []string{origin, method}, false},
		"a POST":                   {"POST", "/api/x", []string{origin, method, "Content-Length: 0"}, false},
		"an upgrade":               {"OPTIONS", "/api/x", []string{origin, method, "Connection: Upgrade", "Upgrade: websocket"}, false},
		"a body":                   {"OPTIONS", "/api/x", []string{origin, method, "Content-Length: 5", "", "x"}, false},
		"a body in pieces":         {"OPTIONS", "/api/x", []string{origin, method, "Transfer-Encoding: chunked", "", "0\r\n"}, false},
		"another method by header": {"OPTIONS", "/bearer/x", []string{origin, method, "X-HTTP-Method-Override: DELETE"}, false},
		"a header that goes away":  {"OPTIONS", "/api/x", []string{origin, method, "X-HTTP-Method-Override: DELETE"}, true},
		"an encoded slash":         {"OPTIONS", "/api/x%2fy", []string{origin, method}, false},
		"a path in two spellings":  {"OPTIONS", "/api/%78", []string{origin, method}, false},
	} {
		t.Run(name, func(t *testing.T) {
			lines := append([]string{"Connection: close"}, test.lines...)
			if slices.Contains(lines, "Connection: Upgrade") {
				lines = lines[1:]
			}
			request := g.request(test.method, test.target, lines...)
			if test.passes {
				g.passed(t, request).anonymous(t)
				return
			}
			g.refused(t, request, 401)
		})
	}
	t.Run("ambiguous", func(t *testing.T) {
		g.refused(t, g.request("OPTIONS", "/api/../every/x", origin, method), 400)
	})
	t.Run("with a token it is checked as before", func(t *testing.T) {
		g.passed(t, g.request("OPTIONS", "/closed/x", origin, method, bearer(token))).has(t, "X-Auth-Subject", "conf")
		g.refused(t, g.request("OPTIONS", "/closed/x", origin, method, bearer("bad")), 401)
	})
	t.Run("its credentials are kept back", func(t *testing.T) {
		for _, shown := range []string{token, "forged.by.nobody"} {
			seen := g.passed(t, g.request("OPTIONS", "/api/x", origin, method, bearer(shown), "Cookie: theme=dark; app_token="+shown, "X-Auth-Subject: admin"))
			seen.anonymous(t).has(t, "Authorization").has(t, "Cookie", "theme=dark").has(t, "Access-Control-Request-Method", "PUT")
		}
	})
}

// readableBy checks which origin may read an answer. An empty origin means none.
func readableBy(t *testing.T, header http.Header, origin string, credentials bool) {
	t.Helper()
	var allowed, exposed, credential []string
	if origin != "" {
		allowed, exposed = []string{origin}, []string{"WWW-Authenticate, Retry-After"}
	}
	if credentials {
		credential = []string{"true"}
	}
	for name, want := range map[string][]string{
		"Access-Control-Allow-Origin": allowed, "Access-Control-Expose-Headers": exposed, "Access-Control-Allow-Credentials": credential,
	} {
		if got := header.Values(name); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if !slices.Contains(header.Values("Vary"), "Origin") {
		t.Errorf("Vary: %q", header.Values("Vary"))
	}
}

// TestPagesOfOtherOriginsReadRefusals checks that a page can read why it was refused. Otherwise it could not request another token.
func TestPagesOfOtherOriginsReadRefusals(t *testing.T) {
	for _, errorRoutes := range []string{
		"", handled("handle_errors", "header Access-Control-Allow-Origin https://of.the.site", `respond "site {err.status_code}"`), errorsProxied,
	} {
		t.Run("with"+errorRoutes, func(t *testing.T) {
			g := startGate(t, siteWith("", corsRoutes+errorRoutes))
			g.upstream.answer = func(connection net.Conn, _ *recorded) {
				_, _ = io.WriteString(connection, "HTTP/1.1 418 Teapot\r\nAccess-Control-Allow-Origin: https://upstream.test\r\n"+
					"Access-Control-Allow-Credentials: false\r\nContent-Length: 4\r\nConnection: close\r\n\r\nsite")
			}
			token := g.server("public")
			for name, test := range map[string]struct {
				target, origin, line string
				want                 int
				allowed              string
				credentials          bool
			}{
				"401":            {"/bearer/x", spa, "", 401, spa, false},
				"403":            {"/api/orders/x", spa, bearer(token), 403, spa, true},
				"400":            {"/bearer/x", spa, "Authorization: Bearer  x", 400, spa, false},
				"of any origin":  {"/every/x", "https://other.test", "", 401, "*", false},
				"another origin": {"/bearer/x", "https://evil.test", "", 401, "", false},
				"null":           {"/bearer/x", "null", "", 401, "", false},
				"no origin":      {"/bearer/x", "", "", 401, "", false},
			} {
				t.Run(name, func(t *testing.T) {
					lines := []string{"Connection: close"}
					if test.origin != "" {
						lines = append(lines, "Origin: "+test.origin)
					}
					if test.line != "" {
						lines = append(lines, test.line)
					}
					status, header, body := g.raw(g.request("GET", test.target, lines...))
					if errorRoutes == "" && status != test.want || errorRoutes != "" && !strings.HasPrefix(body, "site") {
						t.Fatalf("%d %s, want %d", status, body, test.want)
					}
					if test.allowed == "" && errorRoutes != "" { // the site's error routes decide what other origins may read
						if got := header.Get("Access-Control-Allow-Origin"); got == test.origin && got != "" || header.Get("Access-Control-Expose-Headers") != "" {
							t.Errorf("readable: %v", header)
						}
						return
					}
					if strings.Contains(errorRoutes, "reverse_proxy") && !test.credentials {
						header.Del("Access-Control-Allow-Credentials") // the upstream's
					}
					readableBy(t, header, test.allowed, test.credentials)
				})
			}
			t.Run("without the option", func(t *testing.T) {
				_, header, _ := g.raw(g.request("GET", "/closed/x", "Origin: "+spa))
				if got := header.Get("Access-Control-Allow-Origin"); got == spa || got == "*" || header.Get("Access-Control-Expose-Headers") != "" {
					t.Errorf("readable: %v", header)
				}
			})
			g.upstream.seen()
		})
	}
}

func (g *gateway) revokeOverTheWire(token string) {
	status, _, body := g.do(http.MethodPost, "/oauth/revoke", "token="+token+"&client_id=conf&client_secret="+confSecret,
		"Content-Type", "application/x-www-form-urlencoded")
	if status != http.StatusOK {
		g.t.Errorf("revoke: %d %s", status, body)
	}
}

// TestG124TheGateAnswersPreflights: `cors`: a listed origin's preflight → 204 by the gate; others → need a token.
func TestG124TheGateAnswersPreflights(t *testing.T) {
	g := startBoth(t, siteWith("", corsRoutes))
	method, headers := "Access-Control-Request-Method: PUT", "Access-Control-Request-Headers: authorization,content-type"
	for name, test := range map[string]struct {
		target, origin, allowed string
		credentials             bool
	}{
		"listed": {"/own/x", spa, spa, false}, "the other": {"/own/x", "http://localhost:3000", "http://localhost:3000", false},
		"any": {"/ownany/x", "https://other.test", "*", false}, "anonymous": {"/ownany/open", "null", "*", false}, "with cookies": {"/owncookie/x", spa, spa, true},
	} {
		t.Run(name, func(t *testing.T) {
			request := g.request("OPTIONS", test.target, "Origin: "+test.origin, method, headers)
			status, header, body := g.raw(request)
			if status != http.StatusNoContent || body != "" {
				t.Fatalf("%d %s", status, body)
			}
			g.overOthers(t, request, func(other said) {
				if other.status != status || other.header.Get("Access-Control-Allow-Origin") != test.allowed {
					t.Errorf("over %s: %d %v", other.name, other.status, other.header)
				}
			})
			for name, want := range map[string]string{
				"Access-Control-Allow-Origin": test.allowed, "Access-Control-Allow-Methods": "PUT", "Access-Control-Allow-Headers": "authorization,content-type",
				"Access-Control-Max-Age": "600", "Access-Control-Allow-Credentials": map[bool]string{true: "true"}[test.credentials],
			} {
				if got := header.Get(name); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
			if vary := strings.Join(header.Values("Vary"), ", "); vary != "Origin, Access-Control-Request-Method, Access-Control-Request-Headers" {
				t.Errorf("Vary: %s", vary)
			}
			g.upstream.none(t)
		})
	}
	for name, lines := range map[string][]string{
		"another origin": {"Origin: https://evil.test", method}, "no method": {"Origin: " + spa}, "a body": {"Origin: " + spa, method, "Content-Length: 1"},
	} {
		t.Run(name, func(t *testing.T) {
			body := map[bool]string{true: "x"}[name == "a body"]
			g.refused(t, g.requestWith(body, "OPTIONS", "/own/x", append([]string{"Connection: close"}, lines...)...), 401)
		})
	}
	t.Run("headers that are none", func(t *testing.T) {
		_, header, _ := g.raw(g.request("OPTIONS", "/own/x", "Origin: "+spa, method, `Access-Control-Request-Headers: a"<b>`))
		if got := header.Get("Access-Control-Allow-Headers"); got != "" {
			t.Errorf("allowed %q", got)
		}
	})
}

// TestPassedAnswersKeepTheirOwnCORS checks that the gate adds CORS headers only to answers of the upstream without any. It leaves answers
// to forwarded preflights unchanged.
func TestPassedAnswersKeepTheirOwnCORS(t *testing.T) {
	g := startGate(t, siteWith("", corsRoutes))
	token := g.server("public")
	const own, preflight = "Access-Control-Allow-Origin: https://chosen.test\r\nAccess-Control-Allow-Credentials: true\r\nVary: Cookie\r\n", "Access-Control-Request-Method: PUT"
	for _, c := range [][4]string{ // the method, a line, what the upstream says, and what the page gets
		{"GET", bearer(token), "", spa + "; true; Origin; WWW-Authenticate, Retry-After"}, {"OPTIONS", preflight, "", "; ; ; "},
		{"GET", bearer(token), own, "https://chosen.test; true; Cookie; "}, {"OPTIONS", preflight, own, "https://chosen.test; true; Cookie; "},
	} {
		g.upstream.answer = func(connection net.Conn, _ *recorded) {
			_, _ = io.WriteString(connection, "HTTP/1.1 200 OK\r\n"+c[2]+"Content-Length: 2\r\nConnection: close\r\n\r\nok")
		}
		status, header, _ := g.raw(g.request(c[0], "/api/x", c[1], "Origin: "+spa))
		var got []string
		for _, name := range []string{"Access-Control-Allow-Origin", "Access-Control-Allow-Credentials", "Vary", "Access-Control-Expose-Headers"} {
			got = append(got, header.Get(name))
		}
		if told := strings.Join(got, "; "); status != http.StatusOK || told != c[3] {
			t.Errorf("%s, %q: %d, %q, want %q", c[0], c[2], status, told, c[3])
		}
	}
	g.upstream.seen()
}

// TestG85AnAllowedOriginIsNoProof checks that an allowed origin may read a refusal but may not act with the cookie of the browser's user.
func TestG85AnAllowedOriginIsNoProof(t *testing.T) {
	g := startGate(t, siteWith("", corsRoutes))
	token := g.server("public")
	for _, lines := range [][]string{{"Sec-Fetch-Site: same-site"}, {"Sec-Fetch-Site: cross-site"}, nil} {
		header, _ := g.refused(t, g.request("POST", "/api/x", append(lines, "Origin: "+spa, "Cookie: app_token="+token, "Content-Length: 0")...), 403)
		readableBy(t, header, spa, true)
	}
	g.passed(t, g.request("POST", "/api/x", "Origin: "+g.url, "Cookie: app_token="+token, "Content-Length: 0"))
	g.passed(t, g.request("POST", "/api/x", "Origin: "+spa, bearer(token), "Content-Length: 0"))
}

// TestOriginsThatNoBrowserSends checks that origins that can never match are refused with file and line.
func TestOriginsThatNoBrowserSends(t *testing.T) {
	for _, origin := range []string{
		"https://a.example/", "https://a.example/x", "https://a.example?x", "https://a.example#x", "https://u@a.example", "https://A.example",
		"HTTPS://a.example", "a.example", "//a.example", "https://", "https://a.example:443", "http://a.example:80", "http://[::1]:80", "https://a.example:",
		"https://a.example:0443", "https://a.example:123456", "https://*.a.example", "*.a.example", "https://a..example", "https://a.example.", "https://ä.example",
		"file://", "{http.request.header.Origin}", "{env.ORIGIN}", `""`, "https://a.example,https://b.example", "http://[::1", "https://a.example:*",
	} {
		_, err := adapt("http://a.example {\n\tprotect {\n\t\tcors https://b.example " + origin + "\n\t}\n}\n")
		checkRefusal(t, err, fmt.Sprintf("parsing caddyfile tokens for 'protect': cors %q: write an origin as browsers send it, like https://app.example.com "+
			"or http://localhost:3000: in lower case, without a path, a slash at the end, or the scheme's own port, at Caddyfile:3", strings.Trim(origin, `"`)))
	}
	for _, origin := range []string{
		"https://a.example", "http://localhost:3000", "http://127.0.0.1:8080", "http://[::1]:3000", "https://xn--4ca.example:8443", "http://a.example:443", "capacitor://localhost",
		"chrome-extension://abcdefghijklmnop", "https://a_b.example",
	} {
		if _, err := adapt("http://a.example {\n\tprotect {\n\t\tcors " + origin + "\n\t}\n}\n"); err != nil {
			t.Errorf("%s: %v", origin, err)
		}
	}
}
