package caddymodule

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/identity"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Tokens in cookies: when a cookie counts as a token, which proof a request with one needs, and where the cookie is removed.

var cookieRoutes = gated("/strip/*", "token_from cookie app_token", "upstream_token strip") +
	gated("/optional/*", "token_from cookie app_token", "optional") + gated("/header/*", "token_from header") +
	gated("/tcp/*", "token_from cookie app_token", "upgrade tcp") +
	gated("", "token_from cookie app_token", "anonymous /pub/*", "require /orders/* scope orders.read")

// TestG85G91TokenInACookie: `token_from cookie`: a GET → accepted; a POST without a same-origin proof → 403; with another token in the header
// → 400; an invalid token on optional, guarded and stream paths → never proof, 401.
func TestG85G91TokenInACookie(t *testing.T) {
	c := setClock(t)
	g := startGate(t, siteWith("", cookieRoutes))
	token, other := g.server("public"), g.server("public")
	expired := g.issuedFor(time.Minute)
	cookie, forged := "Cookie: theme=dark; app_token="+token, "Cookie: app_token="+token[:len(token)-4]+"AAAA"
	c.advance(2 * time.Minute)
	for name, test := range map[string]struct {
		method, target string
		lines          []string
		want           int
	}{
		"GET":                            {"GET", "/x", []string{cookie}, 200},
		"HEAD":                           {"HEAD", "/x", []string{cookie}, 200},
		"OPTIONS":                        {"OPTIONS", "/x", []string{cookie}, 200},
		"with spaces around":             {"GET", "/x", []string{"Cookie: a=b;  app_token = " + token + " ; c=d"}, 200},
		"header of a foreign page":       {"POST", "/x", []string{bearer(token), "Origin: https://evil.test", "Sec-Fetch-Site: cross-site"}, 200},
		"the same in header and cookie":  {"POST", "/x", []string{cookie, bearer(token)}, 200},
		"empty beside the header":        {"GET", "/x", []string{"Cookie: app_token=", bearer(token)}, 200},
		"a route that takes the header":  {"GET", "/header/x", []string{cookie}, 401},
		"scope missing":                  {"GET", "/orders/x", []string{cookie}, 403},
		"POST from this origin":          {"POST", "/x", []string{cookie, "Origin: http://ADDR"}, 200},
		"POST by Sec-Fetch-Site":         {"POST", "/x", []string{cookie, "Sec-Fetch-Site: same-origin"}, 200},
		"POST of a page without referer": {"POST", "/x", []string{cookie, "Sec-Fetch-Site: same-origin", "Origin: null"}, 200},
		"POST without proof":             {"POST", "/x", []string{cookie}, 403},
		"DELETE without proof":           {"DELETE", "/x", []string{cookie}, 403},
		"optional without proof":         {"POST", "/optional/x", []string{cookie}, 403},
		"POST from evil":                 {"POST", "/x", []string{cookie, "Origin: https://evil.test"}, 403},
		"POST from null":                 {"POST", "/x", []string{cookie, "Origin: null"}, 403},
		"POST cross-site":                {"POST", "/x", []string{cookie, "Sec-Fetch-Site: cross-site"}, 403},
		"POST same-site":                 {"POST", "/x", []string{cookie, "Sec-Fetch-Site: same-site"}, 403},
		"POST another port":              {"POST", "/x", []string{cookie, "Origin: http://ADDR0"}, 403},
		"POST in contradiction":          {"POST", "/x", []string{cookie, "Origin: http://ADDR", "Sec-Fetch-Site: cross-site"}, 403},
		"POST in another contradiction":  {"POST", "/x", []string{cookie, "Origin: https://evil.test", "Sec-Fetch-Site: same-origin"}, 403},
		"POST two origins":               {"POST", "/x", []string{cookie, "Origin: http://ADDR", "Origin: https://evil.test"}, 403},
		"another token in the header":    {"GET", "/x", []string{cookie, bearer(other)}, 400},
		"two cookies":                    {"GET", "/x", []string{cookie + "; app_token=" + other}, 400},
		"two cookies on two lines":       {"GET", "/x", []string{cookie, "Cookie: app_token=" + other}, 400},
		"a second one without a name":    {"GET", "/x", []string{cookie + "; =app_token=" + other}, 400},
		"another token in the query":     {"GET", "/x?access_token=" + other, []string{cookie}, 400},
		"no cookie":                      {"GET", "/x", nil, 401},
		"an empty cookie":                {"GET", "/x", []string{"Cookie: app_token="}, 401},
		"quoted":                         {"GET", "/x", []string{`Cookie: app_token="` + token + `"`}, 401},
		"expired":                        {"GET", "/x", []string{"Cookie: app_token=" + expired}, 401},
		"junk, at a stream":              {"GET", "/x", []string{"Cookie: app_token=junk", "Accept: text/event-stream"}, 401},
		"forged":                         {"GET", "/x", []string{forged}, 401},
		"forged, optional":               {"GET", "/optional/x", []string{forged}, 401},
		"forged, a rule":                 {"GET", "/orders/x", []string{forged}, 401},
	} {
		t.Run(name, func(t *testing.T) {
			lines := append([]string{"Connection: close"}, test.lines...)
			for i := range lines {
				lines[i] = strings.ReplaceAll(lines[i], "ADDR", g.addr)
			}
			if test.want == http.StatusOK {
				status, _, body := g.asked(t, g.request(test.method, test.target, lines...))
				if status != http.StatusOK {
					t.Fatalf("status %d %s", status, body)
				}
				g.upstream.one(t).has(t, identity.Subject, "conf")
				return
			}
			_, body := g.refused(t, g.request(test.method, test.target, lines...), test.want)
			code := map[int]string{400: "invalid_request", 403: "access_denied"}[test.want]
			if name == "scope missing" {
				code = "insufficient_scope"
			}
			if code != "" && member(t, body, "error") != code {
				t.Errorf("body %s, want %s", body, code)
			}
		})
	}
}

// issuedFor issues a server token with another lifetime.
func (g *gateway) issuedFor(lifetime time.Duration) string {
	g.t.Helper()
	client := &store.Client{ID: "conf", Lifetimes: store.Lifetimes{ClientCredentials: lifetime}}
	return g.watched(g.issue(issuer.Grant{Type: oauth.ClientCredentials, Client: client, Scopes: []string{"public"}}))
}

// answering returns an upstream that answers every request with these lines and "ok".
func answering(lines ...string) func(net.Conn, *recorded) {
	return func(connection net.Conn, _ *recorded) {
		_, _ = fmt.Fprintf(connection, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n%s\r\n\r\nok", strings.Join(lines, "\r\n"))
	}
}

func TestG57ATokenInACookieStopsHere(t *testing.T) {
	g := startGate(t, siteWith("", cookieRoutes))
	token := g.server("public")
	cookie := "Cookie: a=1; app_token=" + token + "; session=s; b=2"
	seen := g.passed(t, g.request("GET", "/x", cookie))
	seen.has(t, "Cookie", "a=1; b=2").has(t, "Authorization").has(t, identity.Subject, "conf")
	g.passed(t, g.request("GET", "/x", cookie, bearer(token))).has(t, "Cookie", "a=1; b=2").has(t, "Authorization")
	g.passed(t, g.request("GET", "/x", cookie, "Authorization: Basic YTpi")).has(t, "Authorization", "Basic YTpi")
	seen = g.passed(t, g.request("GET", "/strip/x", cookie, bearer(token)))
	seen.has(t, "Cookie", "a=1; b=2").has(t, "Authorization")
	g.passed(t, g.request("GET", "/pub/x", cookie)).has(t, "Cookie", "a=1; b=2")
	for credential, want := range map[string]string{bearer(token): "", cookie: "private"} { // G85
		if _, header, _ := g.asked(t, g.request("GET", "/x", credential)); header.Get("Cache-Control") != want {
			t.Errorf("%.12s: Cache-Control %q, want %q", credential, header.Get("Cache-Control"), want)
		}
	}
	g.upstream.seen()
}

// webSocket are the header lines of a WebSocket handshake.
var webSocket = []string{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="}

// TestG96WebSocketCredentials: a WebSocket without a token or with a foreign Origin → 401, 403 before 101.
func TestG96WebSocketCredentials(t *testing.T) {
	g := startGate(t, siteWith("", cookieRoutes))
	g.upstream.answer = websocketUpstream
	token := g.server("public")
	cookie := "Cookie: app_token=" + token
	for name, test := range map[string]struct {
		lines []string
		want  int
	}{
		"no token":                     {nil, 401},
		"bad token":                    {[]string{"Authorization: Bearer bad"}, 401},
		"token in the subprotocol":     {[]string{"Sec-WebSocket-Protocol: bearer, " + token[:30]}, 401},
		"cookie alone":                 {[]string{cookie}, 403},
		"cookie, foreign origin":       {[]string{cookie, "Origin: https://evil.test"}, 403},
		"cookie, same-site":            {[]string{cookie, "Origin: http://ADDR", "Sec-Fetch-Site: same-site"}, 403},
		"cookie, own origin":           {[]string{cookie, "Origin: http://ADDR"}, 101},
		"header":                       {[]string{bearer(token)}, 101},
		"bad cookie, own origin":       {[]string{"Cookie: app_token=bad", "Origin: http://ADDR"}, 401},
		"bad cookie, foreign, no word": {[]string{"Cookie: app_token=bad", "Origin: https://evil.test"}, 403},
	} {
		t.Run(name, func(t *testing.T) {
			lines := append([]string(nil), webSocket...)
			for _, line := range test.lines {
				lines = append(lines, strings.ReplaceAll(line, "ADDR", g.addr))
			}
			if test.want != http.StatusSwitchingProtocols {
				g.refused(t, g.request("GET", "/socket", lines...), test.want)
				return
			}
			w := g.dial(t, g.request("GET", "/socket", lines...))
			w.echoes(t)
			seen := g.upstream.one(t)
			seen.has(t, identity.Subject, "conf").has(t, "Cookie")
		})
	}
	// An upgrade to another protocol is reduced to a GET, unless the route allows it.
	g.passed(t, g.request("GET", "/socket", cookie, "Connection: Upgrade", "Upgrade: h2c")).has(t, "Upgrade")
	g.refused(t, g.request("GET", "/tcp/socket", cookie, "Connection: Upgrade", "Upgrade: tcp"), 403)
}

// TestG78GateSettingsThatCannotWork: a malformed setting of `protect`, an unknown role or cookie, one that contradicts another → refused
// with its line.
func TestG78GateSettingsThatCannotWork(t *testing.T) {
	for option, want := range map[string]struct {
		line int
		text string
	}{
		"require role boss":                             {3, `unknown role "boss"`},
		"require role admin Admin":                      {3, `unknown role "Admin"`},
		"require role":                                  {3, "write a rule as"},
		"token_from":                                    {3, "write it as `token_from header`"},
		"token_from cookie":                             {3, "write it as `token_from header`"},
		"token_from query access_token":                 {3, "write it as `token_from header`"},
		"token_from header X-Token":                     {3, "write it as `token_from header`"},
		"token_from cookie a b":                         {3, "write it as `token_from header`"},
		`token_from cookie "a b"`:                       {3, `token_from cookie "a b": a cookie cannot have this name`},
		"token_from cookie a=b":                         {3, `token_from cookie "a=b": a cookie cannot have this name`},
		"token_from cookie session":                     {3, "token_from cookie session: this cookie"},
		"token_from cookie __Host-session":              {3, "token_from cookie __Host-session: this cookie"},
		"token_from cookie gatehouse_browser":           {3, "token_from cookie gatehouse_browser: this cookie"},
		"token_from cookie a\n\ttoken_from cookie b":    {4, "token_from cookie is set twice"},
		"challenge page":                                {3, `challenge "page": use api or browser`},
		"challenge browser corp\n\ttoken_from cookie a": {5, "challenge browser takes no token from the cookie a"},
		"streams":     {3, "wrong argument count"},
		"streams cut": {3, `streams "cut": use close or keep`},
	} {
		_, err := adapt(":80 {\n protect {\n\t" + option + "\n }\n}\n")
		if err == nil || !strings.Contains(err.Error(), want.text) || !strings.Contains(err.Error(), "at Caddyfile:"+itoa(want.line)) {
			t.Errorf("%s: %v, want %q in line %d", option, err, want.text, want.line)
		}
	}
}
