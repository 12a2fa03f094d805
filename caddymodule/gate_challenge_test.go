package caddymodule

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// What a refusal tells the client to request next, and what it writes to the audit log.

var challengeRoutes = `	@post method POST
	@search path_regexp ^/mcp/search
` +
	gated("/mcp/* mcp.read", "require @post scope mcp.write", "require /mcp/admin/* any_scope mcp.admin mcp.owner", "require @search scope refresh_token", "require /mcp/acme/* claim org acme") +
	gated("/plain/* mcp.read", "require role admin", "require /plain/staff/* group staff", `require /plain/calls/* expression "{http.auth.user.org} == 'acme'"`)

func challengeSite() string {
	scopes := "scope mcp.read \"Read\" {\n\t\t\tserver_tokens\n\t\t}\n\t\tscope mcp.write \"Write\" {\n\t\t\tserver_tokens\n\t\t}\n\t\tscope mcp.admin \"Administer\"\n\t\tscope mcp.owner \"Own\"\n"
	return strings.Replace(siteWith("", challengeRoutes), "\t\tstore memory\n", "\t\tstore memory\n\t\t"+scopes, 1)
}

// TestG84ChallengesNameAllScopes: several scopes asked by route and rules → one challenge names all, never refresh_token or offline_access.
// Naming the scope of the route and that of a rule in turn would make clients loop.
func TestG84ChallengesNameAllScopes(t *testing.T) {
	g := startGate(t, challengeSite())
	for name, test := range map[string]struct {
		method, target string
		token          []string // nil: no token
		status         int
		want, missing  string
	}{
		"no token":                         {"GET", "/mcp/x", nil, 401, "mcp.read", ""},
		"no token, a rule":                 {"POST", "/mcp/x", nil, 401, "mcp.read mcp.write", ""},
		"no token, one of several":         {"GET", "/mcp/admin/x", nil, 401, "mcp.read mcp.admin mcp.owner", ""},
		"no token, all rules":              {"POST", "/mcp/admin/x", nil, 401, "mcp.read mcp.write mcp.admin mcp.owner", ""},
		"no token, an encoded slash":       {"GET", "/mcp/admin%2fx", nil, 401, "mcp.read mcp.admin mcp.owner", ""},
		"a rule's scope is missing":        {"POST", "/mcp/x", []string{"mcp.read"}, 403, "mcp.read mcp.write", "mcp.write"},
		"the route's is":                   {"POST", "/mcp/x", []string{"mcp.write"}, 403, "mcp.read mcp.write", "mcp.read"},
		"both are":                         {"POST", "/mcp/x", []string{"public"}, 403, "mcp.read mcp.write", "mcp.read"},
		"one of several":                   {"GET", "/mcp/admin/x", []string{"mcp.read"}, 403, "mcp.read mcp.admin mcp.owner", "mcp.admin mcp.owner"},
		"the one that is there":            {"POST", "/mcp/admin/x", []string{"mcp.read", "mcp.owner"}, 403, "mcp.read mcp.write mcp.owner", "mcp.write"},
		"never one that asks for refresh":  {"GET", "/mcp/search", []string{"mcp.read"}, 403, "mcp.read", "refresh_token"},
		"nor without a token":              {"POST", "/mcp/search", nil, 401, "mcp.read mcp.write", ""},
		"a route without rules for scopes": {"GET", "/plain/x", nil, 401, "mcp.read", ""},
	} {
		t.Run(name, func(t *testing.T) {
			lines := []string{"Content-Length: 0"}
			if test.token != nil {
				lines = append(lines, bearer(g.user("u-1", "acme", "admin", test.token...)))
			}
			header, body := g.refused(t, g.request(test.method, test.target, lines...), test.status)
			if got := parameters(t, header)["scope"]; got != test.want {
				t.Errorf("scope %q, want %q", got, test.want)
			}
			if want := `Access to this resource requires scope "` + test.missing + `".`; test.missing != "" && member(t, body, "error_description") != want {
				t.Errorf("%s, want %s", body, want)
			}
		})
	}
	// One round, without a token and with an insufficient one.
	for _, first := range [][]string{nil, {bearer(g.server("public"))}, {bearer(g.server("mcp.read"))}, {bearer(g.server("mcp.write"))}} {
		header, _ := g.refused(t, g.request("POST", "/mcp/x", append(first, "Content-Length: 0")...), 401, 403)
		asked := strings.Fields(parameters(t, header)["scope"])
		g.passed(t, g.request("POST", "/mcp/x", bearer(g.server(asked...)), "Content-Length: 0"))
	}
	for _, path := range []string{"/mcp", "/plain", ""} {
		_, _, body := g.get(wellKnown+path, "")
		if strings.Contains(body, "refresh_token") || strings.Contains(body, "offline_access") {
			t.Errorf("metadata of %s: %s", path, body)
		}
	}
}

// TestG150TheAuditLineOfARefusal: `require claim` refuses → the audit line has the claim's name and neither value.
func TestG150TheAuditLineOfARefusal(t *testing.T) {
	g := startGate(t, challengeSite())
	for name, test := range map[string]struct {
		method, target, token string
		missing               any
	}{
		"a scope of the route": {"GET", "/mcp/x", g.user("u-1", "acme", "admin", "public"), "scope mcp.read"},
		"a scope of a rule":    {"POST", "/mcp/x", g.user("u-1", "acme", "admin", "mcp.read"), "scope mcp.write"},
		"one of several":       {"GET", "/mcp/admin/x", g.user("u-1", "acme", "admin", "mcp.read"), "any_scope mcp.admin mcp.owner"},
		"a claim":              {"GET", "/mcp/acme/x", g.user("u-1", "globex", "admin", "mcp.read"), "claim org"},
		"a role":               {"GET", "/plain/x", g.user("u-1", "acme", "member", "mcp.read"), "role admin"},
		"a group":              {"GET", "/plain/staff/x", g.user("u-1", "acme", "admin", "mcp.read"), "group staff"},
		"an expression":        {"GET", "/plain/calls/x", g.user("u-1", "globex", "admin", "mcp.read"), "expression"},
	} {
		t.Run(name, func(t *testing.T) {
			g.audited()
			status, _, body := g.raw(g.request(test.method, test.target, bearer(test.token), "Content-Length: 0"))
			lines := g.audited()
			if status != http.StatusForbidden || len(lines) != 1 {
				t.Fatalf("%d %s: %v", status, body, lines)
			}
			for member, want := range map[string]any{"missing": test.missing, "subject": "u-1", "client_id": "conf", "issuer": g.url, "trust": nil} {
				if lines[0][member] != want {
					t.Errorf("%s: %v, want %v", member, lines[0][member], want)
				}
			}
		})
	}
	f := g.forger()
	unverified := []string{"bad", g.watched(f.claiming(map[string]any{"sub": "mallory", "exp": 1}))}
	forged := strings.Split(g.user("u-1", "acme", "admin", "mcp.read"), ".")
	unverified = append(unverified, forged[0]+"."+forged[1]+"."+strings.Repeat("A", len(forged[2])))
	for _, token := range unverified {
		g.audited()
		g.refused(t, g.request("GET", "/mcp/x", bearer(token)), 401)
		if i := slices.IndexFunc(g.audited(), func(line map[string]any) bool {
			return line["subject"] != nil || line["issuer"] != nil || line["client_id"] != nil
		}); i >= 0 {
			t.Errorf("claims of an unverified token are in the audit line: %s", token)
		}
	}
}

// TestG92ForwardAddsToTheDefaults: `forward +` → the defaults and the claim; a client's own header is removed everywhere.
func TestG92ForwardAddsToTheDefaults(t *testing.T) {
	g := startBoth(t, siteWith("\t\texpected_underscore_headers X_Auth_Email\n\t\texpected_dot_headers X.Auth.Email", gated("/more/*", "forward + X-Auth-Email email", "forward + x-auth-session sid", "anonymous /more/pub/*")+
		gated("")))
	f := g.forger()
	token := g.watched(f.claiming(map[string]any{"email": "ada@acme.example", "scope": "public"}))
	seen := g.passed(t, g.request("GET", "/more/x", bearer(token), "X-Auth-Email: admin@acme.example", "X-Auth-Subject: admin"))
	seen.ours(t, "conf").has(t, "X-Auth-Email", "ada@acme.example")
	spoofed := []string{"X-Auth-Email: admin", "x-auth-email: admin", "X_Auth_Email: admin", "X.Auth.Email: admin"}
	g.passed(t, g.request("GET", "/more/pub/x", spoofed...)).has(t, "X-Auth-Email")
	for _, target := range []string{"/more/x", "/x"} {
		g.passed(t, g.request("GET", target, append(spoofed, bearer(g.server("public")))...)).has(t, "X-Auth-Email")
	}
}
