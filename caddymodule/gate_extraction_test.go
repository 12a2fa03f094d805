package caddymodule

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// How a request carries a token, and the answers to a missing or invalid one.

// TestG01NoToken: no Authorization → 401 with a Bearer challenge and no error attribute.
func TestG01NoToken(t *testing.T) {
	g := startBoth(t, site)
	header, body := g.refused(t, g.request("GET", "/any/x"), 401)
	challenge := parameters(t, header)
	if challenge["realm"] != g.url || !strings.HasPrefix(challenge["resource_metadata"], g.url+"/.well-known/oauth-protected-resource") {
		t.Errorf("challenge %v", challenge)
	}
	for _, absent := range []string{"error", "error_description", "scope"} {
		if value, ok := challenge[absent]; ok {
			t.Errorf("the challenge has %s=%q", absent, value)
		}
	}
	if member(t, body, "error") == "" || header.Get("Cache-Control") != "no-store" {
		t.Errorf("answer %v %s", header, body)
	}
	header, _ = g.refused(t, g.request("GET", "/api/x"), 401)
	if challenge := parameters(t, header); challenge["scope"] != "trusted" || challenge["error"] != "" {
		t.Errorf("challenge of a route that needs a scope: %v", challenge)
	}
	g.passed(t, g.request("GET", "/any/x", bearer(g.watched(g.token()))))
}

// TestG02To11G07WhereATokenMayBe: `bearer` in any case → accepted; a token out of shape, twice, or anywhere but in Authorization → 400 or 401.
// Package requests tests every shape.
func TestG02To11G07WhereATokenMayBe(t *testing.T) {
	g := startBoth(t, siteWith("\t\tprotocols h1 h2c", "\tprotect\n\treverse_proxy UPSTREAM"))
	token := g.server("public")
	good := bearer(token)
	for _, line := range []string{good, "AUTHORIZATION: bEaReR " + token} {
		g.passed(t, g.request("GET", "/x", line, "Cookie: accessToken=other"))
	}
	for name, lines := range map[string][]string{
		"G03 two spaces": {"Authorization: Bearer  " + token}, "G03 no-break space": {"Authorization: Bearer \u00a0" + token}, "G04 the scheme alone": {"Authorization: Bearer"},
		"G05 a list": {good + ", Bearer " + token}, "G05 quotes": {`Authorization: Bearer "` + token + `"`}, "G06 two headers": {good, good}, "G06 Basic beside it": {"Authorization: Basic x", good},
	} {
		t.Run(name, func(t *testing.T) {
			header, _ := g.refused(t, g.request("GET", "/x", lines...), 400, 401)
			if name[:3] != "G03" && parameters(t, header)["error"] != "invalid_request" {
				t.Errorf("challenge %v", header)
			}
		})
	}
	// White space around a field's value is not part of it (RFC 9110 §5.5), and net/http removes it over HTTP/1.1. Over HTTP/2 it belongs to
	// the value, which shows that the gate trims nothing.
	g.passed(t, g.request("GET", "/x", good+" "))
	for _, value := range []string{"Bearer " + token + " ", " Bearer " + token} {
		g.audited()
		status, _, body := g.h2(t, g.fields("GET", "/x", "authorization", value))
		if status == 0 { // refused by the server as malformed, before any handler
			g.upstream.none(t)
			continue
		}
		g.checkRefused(t, status, body, 400, 401)
	}
	g.refused(t, g.request("GET", "/x", bearer(token+"\x80")), 401) // G08
	if logs := g.logs(); strings.Contains(logs, "\x80") {
		t.Error("the byte is in the log")
	}
	head, rest, _ := strings.Cut(token, ".")
	for _, folded := range []string{"Bearer " + head + ".\r\n\t" + rest, "Bearer " + token + "\r\n x", "Bearer bad\r\n Authorization: Bearer " + token} { // G07
		g.refused(t, g.request("GET", "/x", "Authorization: "+folded), 400, 401)
	}
	g.passed(t, g.request("GET", "/x", "Authorization: Bearer\r\n "+token)) // the only fold that looks like a space
	form := "access_token=" + token
	g.refused(t, g.requestWith(form, "POST", "/x", "Content-Type: application/x-www-form-urlencoded", "Content-Length: "+itoa(len(form))), 401)
	for _, line := range []string{"Proxy-Authorization: Bearer " + token, "Cookie: accessToken=" + token, "Cookie: __Host-session=" + token} {
		g.refused(t, g.request("GET", "/x", line), 401)
	}
	g.tokens = nil // Caddy's access log shows any header that it does not know as a credential
	for _, name := range []string{"X-Access-Token: ", "X-Authorization: Bearer ", "Authorization-: Bearer ", "X-Forwarded-Authorization: Bearer "} {
		g.refused(t, g.request("GET", "/x", name+token), 401)
	}
}

// TestG09TokenInTheQuery: a token in the query → 401; with one in a header too → 400; never forwarded.
func TestG09TokenInTheQuery(t *testing.T) {
	g := startGate(t, site)
	token := g.server("public")
	for _, query := range []string{
		"access_token=" + token, "a=b;access%5ftoken=" + token,
	} {
		header, _ := g.refused(t, g.request("GET", "/any/x?"+query), 401)
		if challenge := parameters(t, header); challenge["error"] != "" {
			t.Errorf("challenge %v", challenge)
		}
		g.refused(t, g.request("GET", "/any/x?"+query, bearer(token)), 400)
		// Where no token is required, one in the query is removed.
		seen := g.passed(t, g.request("GET", "/mixed/pub/x?keep=1&"+query))
		if strings.Contains(seen.Target, token) || !strings.HasPrefix(seen.Target, "/mixed/pub/x?keep=1") {
			t.Errorf("forwarded target %s", seen.Target)
		}
		seen = g.passed(t, g.request("GET", "/optional/x?"+query+"&keep=1"))
		if strings.Contains(seen.Target, token) || !strings.Contains(seen.Target, "keep=1") {
			t.Errorf("forwarded target %s", seen.Target)
		}
	}
	// A name that only resembles it is left to the upstream.
	if seen := g.passed(t, g.request("GET", "/any/x?my_access_token=1", bearer(token))); seen.Target != "/any/x?my_access_token=1" {
		t.Errorf("forwarded target %s", seen.Target)
	}
}

// TestG12OtherSchemes: Basic, Token, Digest, Negotiate, DPoP → 401, not forwarded.
func TestG12OtherSchemes(t *testing.T) {
	g := startGate(t, site)
	token := g.server("public")
	for _, scheme := range []string{"Basic", "DPoP", "Bearer-"} {
		header, _ := g.refused(t, g.request("GET", "/any/x", "Authorization: "+scheme+" "+token), 401, 400)
		if strings.Contains(header.Get("Www-Authenticate"), "Basic") {
			t.Errorf("%s: challenge %q", scheme, header.Get("Www-Authenticate"))
		}
	}
	g.refused(t, g.request("GET", "/any/x", "Authorization: "+token), 401)
	g.refused(t, g.request("GET", "/any/x", "Authorization: Basic "+strings.Repeat("A", 10)), 401)
	// Where no token is required, an unverified bearer token does not reach the upstream. Other schemes are forwarded.
	for _, value := range []string{"Bearer bad", "bearer bad", "Bearer", "Bearer " + token} {
		g.passed(t, g.request("GET", "/mixed/pub/x", "Authorization: "+value)).has(t, "Authorization")
	}
	g.passed(t, g.request("GET", "/mixed/pub/x", bearer("a"), "Authorization: Basic x")).has(t, "Authorization")
	g.passed(t, g.request("GET", "/mixed/pub/x", "Authorization: Basic Y29uZjp4")).has(t, "Authorization", "Basic Y29uZjp4")
	g.passed(t, g.request("GET", "/optional/x", "Authorization: Basic Y29uZjp4")).has(t, "Authorization", "Basic Y29uZjp4")
	g.refused(t, g.request("GET", "/optional/x", "Authorization: Bearer bad"), 401)
	g.passed(t, g.request("GET", "/optional/x", bearer(token))).has(t, "Authorization")
}

// TestG84Answers: a token invalid, expired, revoked or without a scope → 401 or 403 with its error, sentence and scope, as OAuth JSON or
// JSON:API.
func TestG84Answers(t *testing.T) {
	now := setClock(t)
	g := startGate(t, site)
	good := g.server("public")
	short := g.watched(g.issue(issuer.Grant{Type: oauth.ClientCredentials, Scopes: oauth.Scopes{"public"}, Lifetime: time.Second}))
	revoked := g.server("public")
	g.revoke(t, g.claims(t, revoked), store.RevokeToken)
	now.advance(10 * time.Second)

	for _, c := range []struct {
		name, target, token         string
		status                      int
		code, description, scope    string
		apiCode                     string
		quotesInHeader, noChallenge bool
	}{
		{name: "expired", target: "/any/x", token: short, status: 401, code: "invalid_token", description: "The access token expired"},
		{name: "revoked", target: "/any/x", token: revoked, status: 401, code: "invalid_token", description: "The access token was revoked"},
		{name: "scope missing", target: "/api/x", token: good, status: 403, code: "insufficient_scope", description: `Access to this resource requires scope "trusted".`, scope: "trusted"},
		{name: "claim missing", target: "/mixed/acme/1", token: good, status: 403, code: "access_denied", description: "The access token does not allow access to this resource.", noChallenge: true},
		{name: "malformed header", target: "/any/x", token: "a b", status: 400, code: "invalid_request", description: "The request is missing a required parameter, includes an unsupported parameter value, or is otherwise malformed."},
	} {
		t.Run(c.name, func(t *testing.T) {
			header, body := g.refused(t, g.request("GET", c.target, bearer(c.token)), c.status)
			if got := header.Get("Content-Type"); got != "application/json; charset=utf-8" {
				t.Errorf("content type %q", got)
			}
			if member(t, body, "error") != c.code || member(t, body, "error_description") != c.description {
				t.Errorf("body %s", body)
			}
			if header.Get("Cache-Control") != "no-store" || header.Get("Pragma") != "no-cache" {
				t.Errorf("caching: %v", header)
			}
			if c.noChallenge {
				if got := header.Get("Www-Authenticate"); got != "" {
					t.Errorf("challenge %q", got)
				}
			} else {
				challenge := parameters(t, header)
				if challenge["error"] != c.code || challenge["error_description"] != c.description || challenge["scope"] != c.scope && c.scope != "" {
					t.Errorf("challenge %v", challenge)
				}
			}
			header, body = g.refused(t, g.request("GET", c.target, bearer(c.token), "Accept: application/vnd.api+json"), c.status)
			if got := header.Get("Content-Type"); got != "application/vnd.api+json" {
				t.Errorf("content type %q", got)
			}
			for _, want := range []string{`"code":"` + c.code + `"`, `"status":"` + itoa(c.status) + `"`, `"errors":[`} {
				if !strings.Contains(body, want) {
					t.Errorf("no %s in %s", want, body)
				}
			}
			if !c.noChallenge && len(header.Values("Www-Authenticate")) != 1 {
				t.Error("no challenge beside the JSON:API document")
			}
		})
	}
	header, _ := g.refused(t, g.request("GET", "/any/x", "Accept: application/json, application/vnd.api+json;q=0.5"), 401)
	if header.Get("Content-Type") != "application/json; charset=utf-8" || header.Get("Vary") != "Accept" {
		t.Errorf("a client that prefers JSON: %v", header)
	}
	if status, header, _ := g.asked(t, g.request("HEAD", "/any/x", "Connection: close")); status != 401 || header.Get("Www-Authenticate") == "" {
		t.Errorf("HEAD: %d %v", status, header)
	}
}

// TestG84HandleErrors checks that a site's handle_errors replaces the body and keeps the challenge. A site without handle_errors on the
// same server keeps our body.
func TestG84HandleErrors(t *testing.T) {
	g := startGate(t, site)
	_, port, _ := strings.Cut(g.addr, ":")
	g.reload(siteWith("", "\tprotect trusted\n\treverse_proxy UPSTREAM\n"+handled("handle_errors 401", `respond "sorry {err.status_code}"`)+
		handled("handle_errors 403", "header X-Seen-By errors", "rewrite * /errors", "reverse_proxy UPSTREAM")) + "\nhttp://other.test:" + port + " {\n\tprotect trusted {\n\t\tresource https://other.test\n\t}\n\treverse_proxy UPSTREAM\n}\n")
	public := g.server("public")

	status, header, body := g.asked(t, g.request("GET", "/x"))
	if status != 401 || body != "sorry 401" || parameters(t, header)["scope"] != "trusted" {
		t.Errorf("%d %v %s", status, header, body)
	}
	g.upstream.none(t)
	status, header, _ = g.asked(t, g.request("GET", "/x", bearer(public)))
	if header.Get("X-Seen-By") != "errors" || parameters(t, header)["error"] != "insufficient_scope" {
		t.Errorf("%d %v", status, header)
	}
	if seen := g.upstream.one(t); seen.Target != "/errors" {
		t.Errorf("error route went to %s", seen.Target)
	}
	status, _, body = g.asked(t, g.request("GET", "/a;b", bearer(public)))
	if status != 400 || member(t, body, "error") != "invalid_request" {
		t.Errorf("a status without an error route: %d %s", status, body)
	}
	other := strings.Replace(g.request("GET", "/x"), g.addr, "other.test:"+port, 1)
	status, header, body = g.asked(t, other)
	if status != 401 || member(t, body, "error") == "" || parameters(t, header)["scope"] != "trusted" {
		t.Errorf("the other site: %d %v %s", status, header, body)
	}
}

// TestG86EarlyData: a POST in early data → 425; GET and HEAD → served.
func TestG86EarlyData(t *testing.T) {
	g := startBoth(t, site)
	token := g.server("public")
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		g.refused(t, g.request(method, "/any/x", bearer(token), "Early-Data: 1", "Content-Length: 0"), 425)
		g.passed(t, g.request(method, "/any/x", bearer(token), "Content-Length: 0"))
	}
	g.refused(t, g.request("POST", "/mixed/pub/x", "Early-Data: 1", "Content-Length: 0"), 425)
	// RFC 8470 §5.1: several or invalid values count as 1.
	for _, lines := range [][]string{{"Early-Data: 0", "Early-Data: 1"}, {"Early-Data: 1, 1"}, {"Early-Data: yes"}} {
		g.refused(t, g.request("POST", "/any/x", append(lines, bearer(token), "Content-Length: 0")...), 425)
	}
	g.refused(t, g.request("POST", "/any/x", bearer(token), "early-data:1", "Content-Length: 0"), 425)
	g.passed(t, g.request("GET", "/any/x", bearer(token), "Early-Data: 1"))
	answerOf(g.asked(t, g.request("HEAD", "/any/x", bearer(token), "Early-Data: 1", "Connection: close"))).is(t, http.StatusOK, "HEAD")
	g.upstream.one(t)
}

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

// TestG84AnErrorRouteBehindTheGateEnds: a `protect` within handle_errors → its refusal ends there, without a loop. Such a refusal used to
// enter the error routes again without end. One request without a token crashed the process.
func TestG84AnErrorRouteBehindTheGateEnds(t *testing.T) {
	for _, inside := range []string{"protect", "protect {\n optional\n}"} {
		g := startGate(t, siteWith("", gated("/x/*")+
			`	handle_errors {
		`+inside+`
		reverse_proxy UPSTREAM
	}
`))
		for _, target := range []string{"/x/1", "/x//1"} {
			if status, _, body := g.asked(t, g.request("GET", target, bearer("bad"))); status == 0 {
				t.Errorf("%s, %s: no answer (%s)", inside, target, body)
			}
		}
		g.upstream.seen()
	}
}

// TestT16TokensOfTheMomentAfterDisabling checks tokens of a node that still caches a client for a second after it was disabled. Such tokens
// must not stay valid for hours.
func TestT16TokensOfTheMomentAfterDisabling(t *testing.T) {
	c := setClock(t)
	g := startGate(t, siteWith("", gated("")))
	registry := g.app().registry
	client, _, err := registry.Clients.AddClient(t.Context(), store.Client{ID: "late"})
	check(t, err)
	issue := func() string { return g.issue(issuer.Grant{Client: client, Scopes: oauth.Scopes{"public"}}) }
	check(t, registry.Clients.DisableClient(t.Context(), client.ID))
	c.advance(2 * time.Second)
	g.refused(t, g.request("GET", "/x", bearer(issue())), http.StatusUnauthorized) // issued two seconds later
	check(t, registry.Clients.EnableClient(t.Context(), client.ID))
	c.advance(10 * time.Second)
	check(t, g.app().node.Refresh(t.Context()))
	g.passed(t, g.request("GET", "/x", bearer(issue())))
}

// TestG57CredentialsKeptBackFromErrorRoutes checks error routes after the upstream of an anonymous request has failed. They used to get the
// credentials that had been withheld from the upstream, and the error log got the query.
func TestG57CredentialsKeptBackFromErrorRoutes(t *testing.T) {
	g := startGate(t, siteWith("", gatedDown("/pub/*", "anonymous /pub/*")+errorsProxied))
	const forged, secret = "forged.by.nobody", "QUERYSECRET"
	for _, target := range []string{"/pub/x", "/pub/x?access_token=" + secret} {
		status, _, _ := g.asked(t, g.request("GET", target, bearer(forged), "Cookie: accessToken="+secret+"; theme=dark"))
		if status != http.StatusOK {
			t.Fatalf("%s: %d from the error route", target, status)
		}
		if raw := g.upstream.one(t).Raw; strings.Contains(raw, forged) || strings.Contains(raw, secret) || !strings.Contains(raw, "theme=dark") {
			t.Errorf("%s: the error route sent\n%s", target, raw)
		}
	}
	if logs := g.logs(); strings.Contains(logs, secret) {
		t.Errorf("the query is in the log:\n%s", logs)
	}
}
