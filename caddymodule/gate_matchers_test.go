package caddymodule

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// matched is a site with matchers for the caller. Its answers name those that match.
var matched = `	@read oauth_scope orders.read
	@both oauth_scope trusted orders.read
	@lines {
		oauth_scope trusted
		oauth_scope orders.read
	}
	@admin oauth_claim role admin
	@managers {
		oauth_claim role group_manager admin
		oauth_claim org acme
	}
	@cel expression oauth_scope('orders.read') && oauth_claim('org', 'acme')
	@none not oauth_scope public
` +
	inOrder("/m/*", slices.Concat([]string{protect("optional", "anonymous /m/open/*")}, found("read", "both", "lines", "admin", "managers", "cel", "none"), proxied)...) +
	handled("handle /unprotected/*", append(found("read", "none"), proxied...)...) +
	handled("handle /before/*", append(found("read", "none"), "protect", proxied[0])...) +
	handled("handle /nested/*", "protect", "handle @admin {\nheader X-Found admin\nreverse_proxy UPSTREAM\n}", "handle @read {\nheader X-Found read\nreverse_proxy UPSTREAM\n}",
		"handle {\nrespond 403\n}") +
	inOrder("/twice/*", "protect", protect("token_from cookie second", "anonymous /twice/open/*"), "header @admin +X-Found admin", toldID, proxied[0]) +
	gated("/rules/*", "require @admin scope trusted") +
	handled("handle_errors", append(found("read", "none"), toldID, `respond "{err.status_code}"`)...)

const toldID = `header X-Id "{http.auth.user.id}"`

var proxied = []string{"reverse_proxy UPSTREAM"}

// found returns directives that name the matchers that match.
func found(names ...string) (directives []string) {
	for _, name := range names {
		directives = append(directives, "header @"+name+" +X-Found "+name)
	}
	return directives
}

// TestG41G42MatchersOfTheCaller: matchers of scopes and claims → match the caller's; `require` with one → holds for the requests that it matches.
func TestG41G42MatchersOfTheCaller(t *testing.T) {
	g := startGate(t, siteWith("", matched))
	for name, test := range map[string]struct{ path, token, want string }{
		"no scope":         {"/m/x", g.server("public"), ""},
		"one":              {"/m/x", g.user("u-1", "rival", "member", "orders.read"), "read none"},
		"two":              {"/m/x", g.user("u-1", "", "", "public", "orders.read", "trusted"), "read both lines"},
		"admin":            {"/m/x", g.user("u-1", "acme", "admin", "public"), "admin managers"},
		"manager":          {"/m/x", g.user("u-1", "acme", "group_manager", "public", "orders.read"), "read managers cel"},
		"elsewhere":        {"/m/x", g.user("u-1", "Acme", "group_manager", "public"), ""},
		"in capitals":      {"/m/x", g.user("u-1", "acme", "Admin", "PUBLIC", "ORDERS.READ"), "none"},
		"no token":         {"/m/x", "", "none"},
		"anonymous":        {"/m/open/x", g.user("u-1", "acme", "admin", "orders.read"), "none"},
		"without protect":  {"/unprotected/x", g.user("u-1", "acme", "admin", "orders.read"), "none"},
		"nobody protected": {"/unprotected/x", "", "none"},
	} {
		t.Run(name, func(t *testing.T) {
			status, header, body := g.get(test.path, test.token)
			if got := strings.Join(header.Values("X-Found"), " "); status != http.StatusOK || got != test.want {
				t.Errorf("%d %s: found %q, want %q", status, body, got, test.want)
			}
		})
	}
	for path, want := range map[string]string{
		"/nested/x": "read",
		"/before/x": "none", // the trap: `header` comes before `protect`
	} {
		if _, header, _ := g.get(path, g.user("u-1", "acme", "member", "orders.read")); header.Get("X-Found") != want {
			t.Errorf("%s: found %q, want %q", path, header.Get("X-Found"), want)
		}
	}
	answerOf(g.get("/nested/x", g.server("public"))).is(t, http.StatusForbidden, "neither")
	g.upstream.seen()
	g.refused(t, g.request("GET", "/rules/x", bearer(g.user("u-1", "acme", "admin", "public"))), 403)
	for _, token := range []string{g.user("u-1", "acme", "admin", "trusted"), g.user("u-2", "acme", "member", "public"), g.server("public")} {
		g.passed(t, g.request("GET", "/rules/x", bearer(token)))
	}
}

// TestG45TheLastGateCounts checks that matchers and placeholders know only the caller that the last gate has accepted. There is no caller
// if that gate refused the request or required no token.
func TestG45TheLastGateCounts(t *testing.T) {
	g := startGate(t, siteWith("", matched))
	admin, member := g.user("u-1", "acme", "admin", "orders.read"), g.user("u-2", "acme", "member", "orders.read")
	told := func(path string, lines ...string) (int, string, string) {
		status, header, _ := g.raw(g.request("GET", path, lines...))
		g.upstream.seen()
		return status, strings.Join(header.Values("X-Found"), " "), header.Get("X-Id")
	}
	for name, test := range map[string]struct {
		path     string
		lines    []string
		status   int
		found    string
		identity string
	}{
		"both let pass":           {"/twice/x", []string{bearer(admin)}, 200, "admin", "u-1"},
		"a member":                {"/twice/x", []string{bearer(member)}, 200, "", "u-2"},
		"the second is anonymous": {"/twice/open/x", []string{bearer(admin)}, 200, "", ""},
		"the second refuses":      {"/twice/x", []string{bearer(admin), "Cookie: second=" + member}, 400, "none", ""},
		"the first refuses":       {"/twice/x", nil, 401, "none", ""},
		"a rule refuses":          {"/rules/x", []string{bearer(admin)}, 403, "none", ""},
	} {
		t.Run(name, func(t *testing.T) {
			status, found, identity := told(test.path, test.lines...)
			if status != test.status || found != test.found || identity != test.identity {
				t.Errorf("%d, found %q of %q; want %d, %q of %q", status, found, identity, test.status, test.found, test.identity)
			}
		})
	}
}

// TestG55NobodyElseNamesTheCaller checks that no other authentication handler, variable of the configuration or header can set the caller.
func TestG55NobodyElseNamesTheCaller(t *testing.T) {
	g := startGate(t, siteWith("", `	@admin oauth_claim role admin
	@sub oauth_claim sub eve
	vars oauth.caller {header.X-Caller}
	vars http.auth.user.role admin
	map {header.X-Caller} {http.auth.user.org} {
		default acme
	}
`+inOrder("", "basic_auth argon2id {\neve "+peopleHash()+"\n}",
		protect("token_from cookie session_of_app", `require /rule/* expression "{http.auth.user.id} == 'eve' || {http.auth.user.role} == 'admin'"`),
		"header @admin +X-Found admin", "header @sub +X-Found eve", toldID, "reverse_proxy UPSTREAM")))
	token := g.user("u-1", "rival", "member", "public")
	basicLine := "Authorization: " + basic("eve:" + peoplePassword)[1]
	status, header, body := g.raw(g.request("GET", "/x", basicLine, "Cookie: session_of_app="+token, "X-Caller: admin"))
	if status != 200 || header.Get("X-Id") != "u-1" || header.Get("X-Found") != "" {
		t.Errorf("%d %s: %v", status, body, header)
	}
	g.upstream.seen()
	g.because(t, g.request("GET", "/rule/x", basicLine, "Cookie: session_of_app="+token, "X-Caller: admin"), 403, "expression_false")
}
