package caddymodule

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// These tests cover a route that is an MCP server: what three lines imply, and who may call which tool.

// mcpSite returns a site with MCP servers in all the ways that the tests need.
func mcpSite() string {
	scopes := ""
	for _, name := range []string{"mcp:use", "mcp:write", "mcp:admin"} {
		scopes += "\t\tscope " + name + " \"Words\" {\n\t\t\tserver_tokens\n\t\t}\n"
	}
	routes := gated("/mcp* mcp:use", "mcp", "require /mcp/orders* scope mcp:write", "tool delete_* purge {\ndeny\n}", "tool write_* {\nscope mcp:write\n}", "tool *_all {\nscope mcp:admin\n}",
		"tool own_* {\nrequire claim org acme\n}", "tool delete_draft {\nscope mcp:write\n}") +
		gated("/plain* mcp:use", "mcp") +
		gated("/apart*", "mcp", "audience urn:apart", "upstream_token relay", "cors https://spa.example") +
		gated("/named*", "mcp {\ntool drop {\ndeny\n}\n}", "resource https://named.example/server/") +
		gated("/open*", "mcp", "optional", "anonymous /open/free*", "tool paid {\nscope mcp:use\n}", "tool never {\ndeny\n}") +
		gated("/allow*", "mcp", "tool * {\ndeny\n}", "tool search {\nscope mcp:use\n}", "tool ping {\n}") +
		"\thandle {\n\t\trespond 404\n\t}\n"
	// Without an access log: Caddy writes there how much of a body was read, which races with the transport that reads it on a busy machine.
	return strings.NewReplacer("\t\tstore memory\n", "\t\tstore memory\n"+scopes, "\n\tlog\n", "\n").Replace(siteWith("", routes))
}

// mcpToken returns a server token for the resource of a route.
func (g *gateway) mcpToken(path string, scopes ...string) string {
	g.t.Helper()
	return g.watched(g.issue(issuer.Grant{Type: oauth.ClientCredentials, Scopes: scopes, Audience: []string{g.url + path}}))
}

// rpc returns a POST request with a body.
func (g *gateway) rpc(target, body string, lines ...string) string {
	return g.requestWith(body, "POST", target, append(lines, "Content-Type: application/json", fmt.Sprintf("Content-Length: %d", len(body)))...)
}

// calling returns a tool call.
func calling(tool string) string {
	return `{"jsonrpc":"2.0","id":"c-1","method":"tools/call","params":{"name":"` + tool + `","arguments":{"name":"delete_everything"}}}`
}

// rpcError is the response to a refused call.
type rpcError struct {
	Version string `json:"jsonrpc"`
	ID      any    `json:"id"`
	Error   struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    struct {
			Error string `json:"error"`
		} `json:"data"`
	} `json:"error"`
}

func readRPCError(t *testing.T, body string) (e rpcError) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &e); err != nil || e.Version != "2.0" || e.Error.Code == 0 || e.Error.Message == "" {
		t.Errorf("%s is no JSON-RPC error: %v", body, err)
	}
	return e
}

// TestQ5ThreeLines: `mcp`: a token for the server's resource, with or without a slash → passes, unseen by the upstream; one for another
// resource → 401 with a challenge.
func TestQ5ThreeLines(t *testing.T) {
	g := startGate(t, mcpSite())
	asked := func(resource ...string) string {
		form := serverGrant()
		form["resource"] = resource
		form.Set("scope", "public")
		_, _, body := g.post("/oauth/token", form)
		return g.watched(member(t, body, "access_token"))
	}
	good := g.mcpToken("/plain", "mcp:use")
	for _, path := range []string{"/plain", "/plain/", "/plain/x"} {
		seen := g.passed(t, g.rpc(path, "{}", bearer(good)))
		if seen.has(t, "X-Auth-Subject", "conf").has(t, "Authorization"); seen.Target != path || seen.Body != "{}" {
			t.Errorf("%s %s", seen.Target, seen.Body)
		}
		for name, token := range map[string]string{
			"another server's": g.mcpToken("/mcp", "mcp:use"), "none's": g.server("mcp:use"), "the issuer's": g.mcpToken("", "mcp:use"), "what is below it": g.mcpToken("/plain/x", "mcp:use"),
		} {
			header, _ := g.because(t, g.rpc(path, "{}", bearer(token)), http.StatusUnauthorized, "audience_wrong")
			if c := parameters(t, header); c["error"] != "invalid_token" || c["resource_metadata"] != g.url+wellKnown+"/plain" || c["scope"] != "mcp:use" {
				t.Errorf("%s: %v", name, c)
			}
		}
	}
	for _, spelling := range []string{g.url + "/mcp", g.url + "/mcp/"} {
		if aud := claims(t, asked(spelling))["aud"]; aud != g.url+"/mcp" {
			t.Errorf("%s: aud %v", spelling, aud)
		}
	}
	for path, resource := range map[string]string{"/plain": g.url + "/plain", "/named": "https://named.example/server"} {
		for _, slash := range []string{"", "/"} {
			at := strings.TrimPrefix(resource, g.url)
			if found := g.document(t, g.host(), wellKnown+strings.TrimPrefix(at, "https://named.example")+slash); found.Resource != resource+slash {
				t.Errorf("%s: %+v", path, found)
			}
		}
	}
}

// host returns the host of the site, without its port.
func (g *gateway) host() string {
	host, _, _ := strings.Cut(g.addr, ":")
	return host
}

// TestQ6Q28WhatIsSetApart: `mcp` beside what it implies → what is written counts; what contradicts it → refused with the line; `caddy oauth routes` →
// names MCP servers and the rules of their tools.
func TestQ6Q28WhatIsSetApart(t *testing.T) {
	g := startGate(t, mcpSite())
	apart := g.watched(g.issue(issuer.Grant{Type: oauth.ClientCredentials, Audience: []string{"urn:apart"}}))
	g.passed(t, g.rpc("/apart", "{}", bearer(apart))).has(t, "Authorization", "Bearer "+apart)
	g.passed(t, g.rpc("/apart", "{}", bearer(g.mcpToken("/apart"))))
	g.because(t, g.rpc("/apart", "{}", bearer(g.server())), http.StatusUnauthorized, "audience_wrong")
	named := g.watched(g.issue(issuer.Grant{Type: oauth.ClientCredentials, Audience: []string{"https://named.example/server/"}}))
	g.passed(t, g.rpc("/named", "{}", bearer(named)))
	g.because(t, g.rpc("/named", "{}", bearer(g.mcpToken("/named"))), http.StatusUnauthorized, "audience_wrong")
	text := g.ok("routes")
	for _, want := range []string{"tool delete_* purge: deny", "tool write_*: scope mcp:write", "tool own_*: claim org acme", "tool ping: allow", "MCP"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if text := g.ok("routes", "--json"); !strings.Contains(text, `"mcp":true`) && !strings.Contains(text, `"mcp": true`) {
		t.Error(text)
	}
	for name, test := range map[string]struct{ settings, want string }{
		"tool without mcp":      {"tool x {\ndeny\n}", "write `mcp` beside it"},
		"an argument":           {"mcp yes", "wrong argument count"},
		"another option":        {"mcp {\nscope x\n}", `unknown mcp option "scope": use tool`},
		"no pattern":            {"mcp\ntool {\ndeny\n}", "tool needs the name of one"},
		"a placeholder":         {"mcp\ntool {http.request.uri} {\ndeny\n}", "write a name as clients send it"},
		"another tool option":   {"mcp\ntool x {\nallow\n}", `unknown tool option "allow"`},
		"deny beside a scope":   {"mcp\ntool x {\ndeny\nscope mcp:use\n}", "deny stands beside scope"},
		"deny with an argument": {"mcp\ntool x {\ndeny y\n}", "wrong argument count"},
		"no scope":              {"mcp\ntool x {\nscope\n}", "wrong argument count"},
		"an unknown scope":      {"mcp\ntool x {\nscope nobody:knows\n}", `unknown scope "nobody:knows"`},
		"a role of nobody":      {"mcp\ntool x {\nrequire role emperor\n}", "emperor"},
		"where nobody sees it":  {"mcp\nforward_to response", "mcp stands beside forward_to response"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := g.tryReload(strings.Replace(mcpSite(), "\thandle {\n", gated("/bad*", test.settings)+"\thandle {\n", 1)); err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "Caddyfile:") {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestQ10Q11PagesOfForeignOrigins: `mcp` and a foreign, `null`, doubled or rebound Origin, even with a good token, or its preflight → 403; the
// resource's own, loopback and `cors` origins → pass, and 204; never with credentials.
func TestQ10Q11PagesOfForeignOrigins(t *testing.T) {
	g := startGate(t, mcpSite())
	token := g.mcpToken("/plain", "mcp:use")
	for name, test := range map[string]struct {
		lines  []string
		passes bool
	}{
		"none": {nil, true}, "its own": {[]string{"Origin: " + g.url}, true}, "of this machine": {[]string{"Origin: http://localhost:6274"}, true},
		"another": {[]string{"Origin: https://evil.test"}, false}, "null": {[]string{"Origin: null"}, false}, "an empty one": {[]string{"Origin:"}, false},
		"two": {[]string{"Origin: " + g.url, "Origin: " + g.url}, false}, "a list": {[]string{"Origin: " + g.url + " https://evil.test"}, false}, "another port": {[]string{"Origin: http://192.168.0.1:1"}, false},
		"what the page was named by": {[]string{"Origin: http://rebound.test:80"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, method := range []string{"GET", "DELETE", "POST"} {
				lines := append([]string{bearer(token), "Content-Length: 0"}, test.lines...)
				if test.passes {
					g.passed(t, g.request(method, "/plain", lines...))
				} else {
					g.because(t, g.request(method, "/plain", lines...), http.StatusForbidden, "origin_foreign")
					g.because(t, g.request(method, "/plain", lines[1:]...), http.StatusForbidden, "origin_foreign")
				}
			}
		})
	}
	g.passed(t, g.rpc("/apart", "{}", "Origin: https://spa.example", bearer(g.mcpToken("/apart"))))
	g.because(t, g.rpc("/apart", "{}", "Origin: https://evil.test", bearer(g.mcpToken("/apart"))), http.StatusForbidden, "origin_foreign")
	for _, test := range []struct {
		path, origin string
		want         int
	}{
		{"/plain", "http://localhost:6274", 204}, {"/plain", g.url, 204}, {"/plain", "https://evil.test", 403}, {"/apart", "https://spa.example", 204}, {"/apart", "http://127.0.0.1:1", 204}, {"/mcp/", g.url, 204},
	} {
		status, header, _ := g.raw(g.request("OPTIONS", test.path, "Connection: close", "Origin: "+test.origin, "Access-Control-Request-Method: DELETE", "Access-Control-Request-Headers: authorization, mcp-session-id"))
		if status != test.want || status == 204 && (header.Get("Access-Control-Allow-Origin") != test.origin || header.Get("Access-Control-Allow-Methods") != "DELETE" || !strings.Contains(header.Get("Access-Control-Allow-Headers"), "mcp-session-id")) {
			t.Errorf("%s of %s: %d %v", test.path, test.origin, status, header)
		}
	}
	g.upstream.none(t)
	_, header, _ := g.raw(g.rpc("/plain", "{}", "Connection: close", "Origin: http://localhost:6274"))
	if exposed := header.Get("Access-Control-Expose-Headers"); !strings.Contains(exposed, "WWW-Authenticate") || !strings.Contains(exposed, "Mcp-Session-Id") || header.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("%v", header)
	}
}

// TestQ12StreamsOfMCPServers: an MCP event stream whose token is revoked → ends.
func TestQ12StreamsOfMCPServers(t *testing.T) {
	g := startGate(t, mcpSite())
	u := g.streams()
	token := g.mcpToken("/mcp", "mcp:use")
	post := calling("read_file")
	for name, request := range map[string]string{
		"GET":  g.request("GET", "/mcp", bearer(token), "Accept: text/event-stream", "Mcp-Session-Id: s-1", "Last-Event-ID: 7"),
		"POST": g.rpc("/mcp/", post, bearer(token), "Accept: application/json, text/event-stream"),
	} {
		w := g.dial(t, request)
		w.reads(t, "data: first")
		_ = w.Close()
		u.gone(t, map[string]string{"GET": "/mcp", "POST": "/mcp/"}[name])
	}
	for _, seen := range g.upstream.seen() {
		if seen.Method == "GET" && (seen.Header.Get("Mcp-Session-Id") != "s-1" || seen.Header.Get("Last-Event-Id")+seen.Header.Get("Last-Event-ID") == "") {
			t.Errorf("%v", seen.Header)
		}
	}
	w := g.dial(t, g.request("GET", "/mcp", bearer(token), "Accept: text/event-stream"))
	w.reads(t, "data: first")
	g.upstream.seen()
	g.revokeOverTheWire(token)
	w.closed(t)
	g.upstream.answer = nil
	if seen := g.passed(t, g.request("DELETE", "/mcp", bearer(g.mcpToken("/mcp", "mcp:use")), "Mcp-Session-Id: s-1")); seen.Method != "DELETE" {
		t.Errorf("%s", seen.Method)
	}
}

// TestQ21ToolsAndTheirRules: `tool` rules and a call by body, headers, batch, notification, compressed, too large or
// contradicting, over each HTTP version → the rules of every tool called hold, or the body is refused; it goes on
// byte for byte.
func TestQ21ToolsAndTheirRules(t *testing.T) {
	// The site has two addresses, and clients use the first.
	named := regexp.MustCompile(`\thandle (/mcp|/plain|/allow)\* \{\n\t\tprotect( mcp:use)? \{\n`).ReplaceAllString(mcpSite(), "${0}\t\t\tresource http://ADDR$1\n")
	g := startBoth(t, named)
	use, write := g.mcpToken("/mcp", "mcp:use"), g.mcpToken("/mcp", "mcp:use", "mcp:write")
	headers := func(method, name string) []string { return []string{"Mcp-Method: " + method, "Mcp-Name: " + name} }
	ping := `{"jsonrpc":"2.0","id":9,"method":"ping"}`
	large := func(size int) string {
		body := calling("read_file")
		return body[:len(body)-1] + strings.Repeat(" ", size-len(body)) + "}"
	}
	for name, test := range map[string]struct {
		body, token string
		lines       []string
		status      int // 0: it passes
		reason      string
	}{
		"a tool without rules":              {calling("read_file"), use, nil, 0, ""},
		"by header as well":                 {calling("read_file"), use, headers("tools/call", "read_file"), 0, ""},
		"no call":                           {ping, use, headers("ping", ""), 0, ""},
		"a notification":                    {`{"jsonrpc":"2.0","method":"notifications/initialized"}`, use, nil, 0, ""},
		"a response":                        {`{"jsonrpc":"2.0","id":1,"result":{"method":"tools/call","params":{"name":"purge"}}}`, use, nil, 0, ""},
		"a batch":                           {"[" + ping + "," + calling("read_file") + "]", use, nil, 0, ""},
		"a scope":                           {calling("write_file"), write, nil, 0, ""},
		"no scope":                          {calling("write_file"), use, nil, 403, "scope_missing"},
		"of two rules one":                  {calling("write_all"), write, nil, 403, "scope_missing"},
		"a claim":                           {calling("own_x"), write, nil, 403, "claim_missing"},
		"denied":                            {calling("purge"), write, nil, 403, "tool_denied"},
		"denied, but for one":               {calling("delete_draft"), write, nil, 0, ""},
		"denied, in a batch":                {"[" + ping + "," + calling("read_file") + "," + calling("purge") + "]", write, nil, 403, "tool_denied"},
		"a header that lies about the tool": {calling("purge"), write, headers("tools/call", "read_file"), 400, "rpc_header_mismatch"},
		"a header that lies about a batch":  {"[" + ping + "," + calling("purge") + "]", write, headers("ping", ""), 400, "rpc_header_mismatch"},
		"name twice":                        {`{"method":"tools/call","params":{"name":"read_file","name":"purge"}}`, write, nil, 400, "rpc_malformed"},
		"no JSON":                           {"name=purge", write, nil, 400, "rpc_malformed"},
		"256 KiB":                           {large(256 << 10), use, nil, 0, ""},
		"a byte more":                       {large(256<<10 + 1), use, nil, 413, "rpc_too_large"},
		"UTF-7":                             {calling("read_file"), use, []string{"Content-Type: application/json; charset=utf-7"}, 415, "rpc_encoding"},
		"no token":                          {calling("purge"), "", nil, 401, "token_missing"},
	} {
		t.Run(name, func(t *testing.T) {
			lines := append([]string{"Connection: close"}, test.lines...)
			if test.token != "" {
				lines = append(lines, bearer(test.token))
			}
			request := g.rpc("/mcp", test.body, lines...)
			if strings.Contains(strings.Join(test.lines, ""), "Content-Type") {
				request = strings.Replace(request, "Content-Type: application/json\r\n", "", 1)
			}
			if test.status == 0 {
				if seen := g.passed(t, request); seen.Body != test.body || seen.Header.Get("Content-Length") != fmt.Sprint(len(test.body)) {
					t.Errorf("the upstream got %q", seen.Body)
				}
				return
			}
			header, body := g.because(t, request, test.status, test.reason)
			if test.token == "" {
				return
			}
			e := readRPCError(t, body)
			want := map[int]int{413: -32600, 415: -32600, 403: -32003, 400: -32700}[test.status]
			if test.reason == "rpc_header_mismatch" {
				want = -32020
			}
			if e.Error.Code != want || header.Get("Content-Type") != "application/json" {
				t.Errorf("%d: %s", e.Error.Code, body)
			}
			if calls := strings.Contains(test.body, `"c-1"`); calls && test.status == 403 && e.ID != "c-1" {
				t.Errorf("id %v in %s", e.ID, body)
			}
		})
	}
	t.Run("in pieces", func(t *testing.T) {
		head := g.request("POST", "/mcp", "Connection: close", bearer(write), "Content-Type: application/json", "Transfer-Encoding: chunked")
		chunked := func(body string) (int, string) {
			status, _, answer := g.raw(head + fmt.Sprintf("%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n", 10, body[:10], len(body)-10, body[10:]))
			return status, answer
		}
		if status, answer := chunked(calling("purge")); status != http.StatusForbidden || readRPCError(t, answer).ID != "c-1" {
			t.Errorf("%d %s", status, answer)
		}
		if status, answer := chunked(large(257 << 10)); status != http.StatusRequestEntityTooLarge {
			t.Errorf("257 KiB: %d %s", status, answer)
		}
		g.upstream.none(t)
		if status, answer := chunked(calling("read_file")); status != http.StatusOK || g.upstream.one(t).Body != calling("read_file") {
			t.Errorf("%d %s", status, answer)
		}
	})
	t.Run("compressed", func(t *testing.T) {
		g.passed(t, g.rpc("/mcp", "{}", bearer(write), "Content-Encoding: Identity"))
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, _ = w.Write([]byte(calling("purge")))
		_ = w.Close()
		_, body := g.because(t, g.rpc("/mcp", packed.String(), bearer(write), "Content-Encoding: gzip"), http.StatusUnsupportedMediaType, "rpc_encoding")
		readRPCError(t, body)
	})
	t.Run("without a body", func(t *testing.T) {
		g.passed(t, g.request("POST", "/mcp", bearer(use), "Content-Length: 0"))
		g.because(t, g.request("POST", "/mcp", append(headers("tools/call", "purge"), bearer(use), "Content-Length: 0")...), http.StatusForbidden, "tool_denied")
		g.because(t, g.request("GET", "/mcp", append(headers("tools/call", "purge"), bearer(use))...), http.StatusForbidden, "tool_denied")
	})
	t.Run("over a WebSocket", func(t *testing.T) {
		g.because(t, g.request("GET", "/mcp", append(slices.Clone(webSocket), bearer(use))...), http.StatusForbidden, "upgrade_unread")
	})
	t.Run("in the block of mcp", func(t *testing.T) {
		named := g.watched(g.issue(issuer.Grant{Type: oauth.ClientCredentials, Audience: []string{"https://named.example/server/"}}))
		g.because(t, g.rpc("/named", calling("drop"), bearer(named)), http.StatusForbidden, "tool_denied")
		g.passed(t, g.rpc("/named", calling("drops"), bearer(named)))
	})
	t.Run("no rules, nothing is read", func(t *testing.T) {
		seen := g.passed(t, g.rpc("/plain", "not JSON", append(headers("tools/call", "x"), bearer(g.mcpToken("/plain", "mcp:use")))...))
		if seen.Body != "not JSON" {
			t.Errorf("the upstream got %q", seen.Body)
		}
	})
}

// TestQ23ChallengesOfTools: a token that lacks scopes of tool, route and rule → one challenge with all of them; a denied tool → none.
func TestQ23ChallengesOfTools(t *testing.T) {
	g := startGate(t, mcpSite())
	for name, test := range map[string]struct {
		path, body string
		token      []string // scopes of the token; nil: there is none
		lines      []string
		status     int
		want       string
	}{
		"no token":                          {"/mcp", calling("write_file"), nil, nil, 401, "mcp:use"},
		"no token, by header":               {"/mcp", calling("write_all"), nil, []string{"Mcp-Method: tools/call", "Mcp-Name: write_all"}, 401, "mcp:use mcp:write mcp:admin"},
		"no token, a rule for the path too": {"/mcp/orders", calling("find_all"), nil, []string{"Mcp-Method: tools/call", "Mcp-Name: find_all"}, 401, "mcp:use mcp:write mcp:admin"},
		"the tool's":                        {"/mcp", calling("write_file"), []string{"mcp:use"}, nil, 403, "mcp:use mcp:write"},
		"the tool's and the path's":         {"/mcp/orders", calling("find_all"), []string{"mcp:use"}, nil, 403, "mcp:use mcp:write mcp:admin"},
		"the route's":                       {"/mcp", calling("write_file"), []string{"mcp:write"}, nil, 403, "mcp:use mcp:write"},
		"of a batch":                        {"/mcp", "[" + calling("read_file") + "," + calling("write_file") + "," + calling("find_all") + "]", []string{"mcp:use"}, nil, 403, "mcp:use mcp:write mcp:admin"},
	} {
		t.Run(name, func(t *testing.T) {
			lines := test.lines
			if test.token != nil {
				lines = append(slices.Clone(lines), bearer(g.mcpToken("/mcp", test.token...)))
			}
			header, _ := g.refused(t, g.rpc(test.path, test.body, lines...), test.status)
			c := parameters(t, header)
			if c["scope"] != test.want || c["resource_metadata"] != g.url+wellKnown+"/mcp" || test.status == 403 && c["error"] != "insufficient_scope" {
				t.Errorf("%v, want %s", c, test.want)
			}
			if name != "no token" { // without a token, the body is not read
				g.passed(t, g.rpc(test.path, test.body, append(slices.Clone(test.lines), bearer(g.mcpToken("/mcp", strings.Fields(c["scope"])...)))...))
			}
		})
	}
	header, _ := g.because(t, g.rpc("/mcp", calling("purge"), bearer(g.mcpToken("/mcp", "mcp:use"))), http.StatusForbidden, "tool_denied")
	if challenge := header.Get("Www-Authenticate"); challenge != "" {
		t.Errorf("no scope would help, and the challenge is %s", challenge)
	}
}

// TestQ24TheLogsNameTheTool: tool names with control characters, bidirectional text, 2 KB → printable ASCII of at most 200 bytes in the
// logs.
func TestQ24TheLogsNameTheTool(t *testing.T) {
	g := startGate(t, strings.Replace(mcpSite(), "\n\toauth_server", "\n\tlog\n\toauth_server", 1))
	token := g.mcpToken("/mcp", "mcp:use")
	for body, want := range map[string]string{
		calling("read_file"): "read_file", calling("purge"): "purge", calling(`a\u2028\u202e`): `a\u2028\u202e`, "[" + calling("read_file") + "," + calling("purge") + "]": "read_file purge",
		calling("purge" + strings.Repeat("x", 2000)): "purge" + strings.Repeat("x", 195),
	} {
		g.audited()
		g.raw(g.rpc("/mcp", body, "Connection: close", bearer(token)))
		lines := g.audited()
		if len(lines) != 1 || lines[0]["tool"] != want || lines[0]["client_id"] != "conf" {
			t.Errorf("%v, want %s", lines, want)
		}
	}
	g.upstream.seen()
	g.eventually("the access log names it", func() bool {
		return slices.ContainsFunc(strings.Split(g.logs(), "\n"), func(line string) bool {
			return strings.Contains(line, "http.log.access") && strings.Contains(line, `"tool":"read_file purge"`)
		})
	})
}

// TestQ25ToolsWithoutAToken: `tool` rules on optional or anonymous routes → the rules still apply.
func TestQ25ToolsWithoutAToken(t *testing.T) {
	g := startGate(t, mcpSite())
	for _, path := range []string{"/open", "/open/free"} {
		g.passed(t, g.rpc(path, calling("read_file"))).anonymous(t)
		header, body := g.because(t, g.rpc(path, calling("paid")), http.StatusUnauthorized, "token_missing")
		if scope := parameters(t, header)["scope"]; scope != "mcp:use" || readRPCError(t, body).ID != "c-1" {
			t.Errorf("scope %s: %s", scope, body)
		}
		g.because(t, g.rpc(path, calling("never")), http.StatusForbidden, "tool_denied")
		g.because(t, g.rpc(path, "[]"), http.StatusBadRequest, "rpc_malformed")
	}
	g.passed(t, g.rpc("/open", calling("paid"), bearer(g.mcpToken("/open", "mcp:use"))))
}

// TestQ143ThreeLinesAdmitClients: a route with `mcp` and nothing else, an unknown client → a token for that server alone.
func TestQ143ThreeLinesAdmitClients(t *testing.T) {
	const agents = "\thandle /mcp* {\n\t\tprotect mcp:use {\n\t\t\tmcp\n\t\t\ttool add {\n\t\t\t\tscope mcp:write\n\t\t\t}\n\t\t}\n\t\treverse_proxy UPSTREAM\n\t}\n\thandle /pub/* {"
	const private = "password_grant\n\t\tscope mcp:write\n\t\tclient_metadata {\n\t\t\tallow_private_network\n\t\t}"
	d := newDescribing(t)
	describe := func(g *gatehouse) request {
		r := d.client("/agent.json", `"client_name":"Agent","redirect_uris":["https://agent.example/cb"]`, "https://agent.example/cb")
		r.scope, r.more = "mcp:use mcp:write offline_access", url.Values{"resource": {g.url + "/mcp/"}}
		return r
	}
	g := startPeople(t, "password_grant", private, "\thandle /pub/* {", agents)
	r, b := describe(g), g.browser()
	code := b.authorize(r, "ada@acme.example").location().Query().Get("code")
	got := g.obtain(r.exchange(code))
	if got.Scope != "mcp:use mcp:write" {
		t.Fatalf("scope %q, code %q", got.Scope, code)
	}
	for path, want := range map[string]int{"/mcp": http.StatusOK, "/mcp/": http.StatusOK, "/api/x": http.StatusUnauthorized} {
		answerOf(g.do("GET", path, "", "Authorization", "Bearer "+got.AccessToken)).is(t, want, path)
	}
	if _, _, body := g.do("GET", "/.well-known/oauth-authorization-server", ""); !strings.Contains(body, `"client_id_metadata_document_supported":true`) || !strings.Contains(body, `"mcp:write"`) {
		t.Errorf("metadata %s", body)
	}
	g.reload(peopleSite("password_grant", "password_grant\n\t\tscope mcp:write\n\t\tclient_metadata off", "\thandle /pub/* {", agents))
	if p := b.open(r.path()); p.status != http.StatusBadRequest && p.status != http.StatusUnauthorized {
		t.Errorf("off: %d %.300s", p.status, p.body)
	}
}

// half is a connection on which a test sends a request in parts.
type half struct {
	net.Conn
	*bufio.Reader
}

func (g *gateway) begin(t *testing.T, head string) *half {
	t.Helper()
	connection, err := net.Dial("tcp", g.addr)
	check(t, err)
	t.Cleanup(func() { _ = connection.Close() })
	check(t, connection.SetDeadline(time.Now().Add(patience)))
	h := &half{connection, bufio.NewReader(connection)}
	h.send(t, head)
	return h
}

func (h *half) send(t *testing.T, text string) {
	t.Helper()
	_, err := io.WriteString(h.Conn, text)
	check(t, err)
}

// answer reads a response, which may be 100 Continue.
func (h *half) answer(t *testing.T) (int, string) {
	t.Helper()
	response, err := http.ReadResponse(h.Reader, nil)
	check(t, err)
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(body)
}

// TestQ206BodiesThatTakeTheirTime: `tool` rules and a body after 100 Continue, in pieces, cut off or announced too large → the rules
// hold, a refusal does not ask for the body.
func TestQ206BodiesThatTakeTheirTime(t *testing.T) {
	g := startGate(t, mcpSite())
	use, write := g.mcpToken("/mcp", "mcp:use"), g.mcpToken("/mcp", "mcp:use", "mcp:write")
	expecting := func(token string, length int) string {
		return g.request("POST", "/mcp", bearer(token), "Content-Type: application/json", "Expect: 100-continue", fmt.Sprintf("Content-Length: %d", length))
	}
	for tool, want := range map[string]int{"read_file": http.StatusOK, "purge": http.StatusForbidden} {
		body := calling(tool)
		h := g.begin(t, expecting(write, len(body)))
		if status, _ := h.answer(t); status != http.StatusContinue {
			t.Fatalf("%s: %d before the body", tool, status)
		}
		h.send(t, body)
		if status, answer := h.answer(t); status != want {
			t.Errorf("%s: %d %s", tool, status, answer)
		}
		if seen := g.upstream.seen(); want == http.StatusOK && (len(seen) != 1 || seen[0].Body != body) || want != http.StatusOK && len(seen) != 0 {
			t.Errorf("%s: the upstream got %d requests", tool, len(seen))
		}
	}
	for name, test := range map[string]struct {
		head string
		want int
	}{
		"too large": {expecting(use, 256<<10+1), http.StatusRequestEntityTooLarge}, "without a token": {strings.Replace(expecting(use, 100), bearer(use), "X: y", 1), http.StatusUnauthorized},
	} {
		if status, body := g.begin(t, test.head).answer(t); status != test.want {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}

	// While one client sends slowly, others are served, and no request is forwarded before its body is complete.
	body := calling("read_file")
	slow := g.begin(t, g.request("POST", "/mcp", bearer(use), "Content-Type: application/json", fmt.Sprintf("Content-Length: %d", len(body))))
	for _, piece := range []string{body[:1], body[1:20]} {
		slow.send(t, piece)
		answerOf(g.raw(g.rpc("/mcp", body, bearer(use), "Connection: close"))).is(t, http.StatusOK, "beside it")
		g.upstream.one(t)
	}
	slow.send(t, body[20:])
	if status, answer := slow.answer(t); status != http.StatusOK || g.upstream.one(t).Body != body {
		t.Errorf("the slow one: %d %s", status, answer)
	}

	// A request whose client disconnects midway, or sends less than announced, does not reach the upstream.
	for name, head := range map[string]string{
		"less than announced": g.request("POST", "/mcp", bearer(use), "Content-Type: application/json", fmt.Sprintf("Content-Length: %d", len(body)+1)) + body,
		"the last chunk missing": g.request("POST", "/mcp", bearer(use), "Content-Type: application/json", "Transfer-Encoding: chunked") +
			fmt.Sprintf("%x\r\n%s\r\n", len(body), body),
	} {
		h := g.begin(t, head)
		check(t, h.Conn.(*net.TCPConn).CloseWrite())
		if status, answer := h.answer(t); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", name, status, answer)
		}
		g.upstream.none(t)
	}
}

// refreshing is one refresh in a sequence.
type refreshing struct {
	wait    time.Duration // before the refresh
	present int           // the refresh token presented; the first is 1
	gives   int           // the token it yields, an earlier one or the next; 0: it is a reuse
	address string        // the client's address; empty: the usual one
	from    string        // the warning's text; empty: there is none
}

// TestQ170RefreshesAtOnce: an MCP client refreshes for each of its parallel requests within the grace → the same
// token for all, one generation; after the grace → a reuse. Requests that present the new token at once do not use it
// up, so late requests with the previous one are not taken for reuse.
func TestQ170RefreshesAtOnce(t *testing.T) {
	const route = "\thandle /mcp* {\n\t\tprotect {\n\t\t\tmcp\n\t\t}\n\t\treverse_proxy UPSTREAM\n\t}\n" +
		"\thandle /wide* {\n\t\tprotect {\n\t\t\tmcp\n\t\t\taudience http://ADDR\n\t\t}\n\t\treverse_proxy UPSTREAM\n\t}\n"
	option := func(name, text string) []string {
		uri := "redirect_uris https://" + name + ".example/cb"
		return []string{uri, uri + "\n\t\t\t" + text}
	}
	now := setClock(t)
	u := openUsers(t, slices.Concat(behindProxy, []string{"\thandle {\n\t\trespond 404\n", route + "\thandle {\n\t\trespond 404\n"},
		option("other", "tokens {\n\t\t\t\trefresh_grace 0\n\t\t\t}"), option("first", "tokens {\n\t\t\t\trefresh_grace 30s same_address\n\t\t\t}"),
		option("pub", "revoke_previous_access_token"))...)
	const grace = 30 * time.Second
	usedUp := []refreshing{{present: 1, gives: 2}, {present: 2, gives: 3}, {present: 1}}
	for name, test := range map[string]struct {
		client, resource string
		steps            []refreshing
	}{
		"given again, to whoever comes with it and with the one before": {"conf", "/mcp", []refreshing{
			{present: 1, gives: 2}, {present: 2, gives: 2}, {present: 1, gives: 2}, {present: 2, gives: 2}, {wait: grace - time.Second, present: 1, gives: 2}, {present: 2, gives: 2},
		}},
		"used up after the grace, which is not prolonged": {"conf", "/mcp/", []refreshing{
			{present: 1, gives: 2}, {wait: 20 * time.Second, present: 2, gives: 2}, {wait: 11 * time.Second, present: 2, gives: 3}, {present: 2, gives: 3}, {present: 3, gives: 3}, {present: 1},
		}},
		"the one before, after the grace": {"conf", "/mcp", []refreshing{{present: 1, gives: 2}, {present: 2, gives: 2}, {wait: grace + time.Second, present: 1}}},
		"from another address":            {"conf", "/mcp", []refreshing{{present: 1, gives: 2}, {present: 2, gives: 2, address: "192.0.2.9", from: "another address"}}},
		"for another resource":            {"conf", "/api", usedUp},
		"for none":                        {"conf", "", usedUp},
		"for the audience of all, which an MCP server takes": {"conf", "/", usedUp},
		"no grace":                          {"other", "/mcp", usedUp},
		"same_address, from there":          {"first", "/mcp", []refreshing{{present: 1, gives: 2}, {present: 2, gives: 2}}},
		"same_address, from elsewhere":      {"first", "/mcp", []refreshing{{present: 1, gives: 2}, {present: 2, gives: 3, address: "192.0.2.9"}, {present: 1}}},
		"with revoke_previous_access_token": {"pub", "/mcp", usedUp},
	} {
		u.sub(name, func(u *userDoor) {
			r := requestOf(test.client)
			if test.resource != "" {
				r.more = url.Values{"resource": {u.url + test.resource}}
			}
			all := []tokens{{}, u.userTokens(r, ada)}
			for i, step := range test.steps {
				if step.address == "" {
					step.address = "192.0.2.1"
				}
				u.wait(now, step.wait)
				u.decisions(u.t)
				a := u.ask(u.t, "/oauth/token", r.refresh(all[step.present].RefreshToken).Encode(), "X-Forwarded-For", step.address)
				line := u.audited()
				if step.gives == 0 {
					u.holdUnaudited(u.t, a, badGrant(""))
					if line["reason"] != "refresh_token_reused" {
						u.t.Errorf("step %d: audited %v", i, line)
					}
					u.denied(r.refresh(all[len(all)-1].RefreshToken), badGrant("refresh_token_revoked"))
					return
				}
				if a.status != http.StatusOK {
					u.t.Fatalf("step %d: %d %s, audited %v", i, a.status, a.body, line)
				}
				got := u.tokensIn(a)
				again := step.gives < len(all)
				if !again {
					all = append(all, got)
				}
				if got.RefreshToken != all[step.gives].RefreshToken || (line["repeated"] == true) != again {
					u.t.Errorf("step %d: another token, or audited %v", i, line)
				}
				if from, _ := line["repeated_from"].(string); from != step.from {
					u.t.Errorf("step %d: audited %v", i, line)
				}
				if generation := u.familyOf(got.AccessToken).Refresh.Generation; generation != int64(len(all)-1) {
					u.t.Errorf("step %d: generation %d", i, generation)
				}
			}
		})
	}
}
