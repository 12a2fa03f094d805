package caddymodule

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/identity"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Which identity headers reach the upstream, and how clients try to forge them. The tests use raw sockets and a real reverse_proxy, because
// the result depends on both.

var identityNames = []string{identity.Subject, identity.Client, identity.Scope, identity.Organisation, identity.Role, identity.Groups}

// ours checks that the upstream got the identity headers of the gate and no others.
func (r *recorded) ours(t *testing.T, subject string) *recorded {
	t.Helper()
	r.has(t, identity.Subject, subject).has(t, identity.Client, "conf").has(t, identity.Scope, "public").has(t, identity.Organisation)
	return r.has(t, identity.Role).withoutTrailers(t)
}

func (r *recorded) anonymous(t *testing.T) *recorded {
	t.Helper()
	for _, name := range identityNames {
		r.has(t, name)
	}
	return r.withoutTrailers(t)
}

// withoutTrailers checks that no trailer and no `Proxy` reached the upstream.
func (r *recorded) withoutTrailers(t *testing.T) *recorded {
	t.Helper()
	r.has(t, "Proxy")
	for name := range r.Trailer {
		t.Errorf("trailer %s reached the upstream", name)
	}
	return r
}

// spoofs are header lines with which a client claims an identity.
var spoofs = []string{
	"X-Auth-Subject: admin", "x-auth-subject: admin", "X-AUTH-SUBJECT: admin", "X-Auth-subject:admin", "X-Auth-Subject: admin, root",
	"X-Auth-Client: admin", "X-Auth-Scope: trusted", "X-Auth-Organisation: acme", "X-Auth-Role: admin", "X-Auth-Groups: admins", "X_Auth_Groups: admins", "x.auth-GROUPS: admins",
	"X_Auth_Subject: admin", "X.Auth.Subject: admin", "X-Auth_Subject: admin", "x.auth.subject: admin", "x_auth-subject: admin",
	"X_Auth.Subject: admin", "X_AUTH_ROLE: admin", "X.Auth-Organisation: acme", "x-auth_scope: trusted", "X~Auth~Subject: admin",
	"X-Auth!Subject: admin", "X+Auth+Role: admin", "X'Auth|Role: admin",
	"Proxy: http://evil.test:8080", "pROXY: a", "proxy: ", // CGI programs read it as the proxy to use
}

// TestG47G49G52G95ClientNamesItself: X-Auth-Subject of a client in any case, twice or as a list, `Proxy`, and `Connection: close, X-Auth-Subject` → one
// value, ours, also behind a proxy that deletes what Connection names, or none if the token has no such claim; dropped. Package identity tests every
// line.
func TestG47G49G52G95ClientNamesItself(t *testing.T) {
	g := startBoth(t, siteWith("", gated("/relay/*", "upstream_token relay")+gated("")))
	token := g.server("public")
	g.passed(t, g.request("GET", "/any/x", append([]string{bearer(token)}, spoofs...)...)).ours(t, "conf")
	g.passed(t, g.request("GET", "/any/x", append(append(spoofs[:len(spoofs):len(spoofs)], bearer(token)), spoofs...)...)).ours(t, "conf")
	g.refused(t, g.request("GET", "/any/x", spoofs...), 401)
	few := append([]string{bearer(g.user("u-1", "acme", "member"))}, spoofs...)
	g.passed(t, g.request("GET", "/any/x", few...)).has(t, identity.Scope).has(t, identity.Organisation, "acme").has(t, identity.Role, "member")
	few[0] = bearer(g.watched(g.forger().claiming(map[string]any{"org": "", "role": "", "scope": ""})))
	g.passed(t, g.request("GET", "/any/x", few...)).has(t, identity.Subject, "conf").has(t, identity.Organisation).has(t, identity.Role).has(t, identity.Scope)
	for _, trick := range connectionTricks {
		request := g.request("GET", "/relay/x", append([]string{bearer(token)}, trick...)...)
		for _, request := range []string{request, strings.Replace(request, "HTTP/1.1", "HTTP/1.0", 1)} {
			g.passed(t, request).ours(t, "conf").has(t, "Authorization", "Bearer "+token).has(t, "X-Forwarded-For", "127.0.0.1")
		}
	}
	for _, name := range []string{"X-Auth-Subjects", "XAuth-Subject", "X--Auth-Subject"} { // names that belong to others
		g.passed(t, g.request("GET", "/any/x", bearer(token), name+": kept")).has(t, name, "kept")
	}
}

// TestG48G92SpellingsThatCaddyLetsThrough: X_Auth_Subject, X.Auth.Subject → dropped, also where underscores are expected, like a header that one route
// adds by `forward +`, on every route; there → the defaults and the claim. Caddy drops header names with underscores and dots unless the operator
// expects them. Then the gate must drop these.
func TestG48G92SpellingsThatCaddyLetsThrough(t *testing.T) {
	g := startBoth(t, siteWith(`		expected_underscore_headers X_Auth_Subject X-Auth_Subject X_auth_role X_Auth.Subject X_Other X_*
		expected_dot_headers X.Auth.Subject X.auth-Role X.Other X.*`, gated("/own/*", "forward + X-Who sub", "forward + x-auth-email email")+gated("/pub/*", "anonymous /pub/*")+gated("")))
	token := g.server("public")
	g.passed(t, g.request("GET", "/x", bearer(token), "X_Other: kept", "X.Other: kept")).has(t, "X-Other", "kept", "kept") // these spellings do pass
	all := append([]string{"X_Who: admin", "X.Who: admin", "x_who: admin", "X-Who: admin", "X-Auth-Email: admin", "X_Auth_Email: admin", "X.Auth.Email: admin"}, spoofs...)
	g.passed(t, g.request("GET", "/pub/x", all...)).anonymous(t).has(t, "X-Who").has(t, "X-Auth-Email")
	all = append(all, bearer(token))
	g.passed(t, g.request("GET", "/x", all...)).ours(t, "conf").has(t, "X-Who").has(t, "X-Auth-Email") // a header that one route forwards is removed on all routes
	g.passed(t, g.request("GET", "/own/x", all...)).ours(t, "conf").has(t, "X-Who", "conf").has(t, "X-Auth-Email")
	all[len(all)-1] = bearer(g.watched(g.forger().claiming(map[string]any{"email": "ada@acme.example"})))
	g.passed(t, g.request("GET", "/own/x", all...)).ours(t, "conf").has(t, "X-Auth-Email", "ada@acme.example")
}

// connectionTricks are Connection lines that make reverse_proxy delete the named headers after our handler.
var connectionTricks = [][]string{
	{"Connection: close, X-Auth-Subject"},
	{"Connection: X-Auth-Subject"},
	{"connection: x-auth-subject,X-AUTH-CLIENT , x-auth-scope"},
	{"Connection: close", "Connection: X-Auth-Subject"},
	{"Connection: X-Auth-Subject", "Connection: X-Auth-Client", "Connection: keep-alive"},
	{"Connection: keep-alive, X-Auth-Scope, close"},
	{"Connection: Authorization, X-Auth-Subject"},
}

func TestG50UpgradeWithIdentity(t *testing.T) {
	g := startGate(t, relaying())
	token := g.server("public")
	g.upstream.answer = websocketUpstream
	for name, lines := range map[string][]string{
		"websocket":           {"Connection: Upgrade", "Upgrade: websocket"},
		"lower case":          {"connection: upgrade", "upgrade: websocket"},
		"naming identity":     {"Connection: Upgrade, X-Auth-Subject", "Upgrade: websocket"},
		"naming it first":     {"Connection: X-Auth-Subject, keep-alive, Upgrade", "Upgrade: websocket"},
		"on two lines":        {"Connection: X-Auth-Subject", "Connection: Upgrade", "Upgrade: websocket"},
		"naming credentials":  {"Connection: Authorization, Upgrade, X-Auth-Client", "Upgrade: websocket"},
		"with spoofed header": {"Connection: Upgrade", "Upgrade: websocket", "X-Auth-Subject: admin", "x_auth_role: admin"},
		"with h2c's settings": {"Connection: Upgrade, HTTP2-Settings", "Upgrade: websocket", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"},
	} {
		t.Run(name, func(t *testing.T) {
			w := g.dial(t, g.request("GET", "/any/socket", append(lines, bearer(token), "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")...))
			w.echoes(t)
			seen := g.upstream.one(t)
			seen.ours(t, "conf").has(t, "Authorization", "Bearer "+token).has(t, "Connection", "Upgrade").has(t, "HTTP2-Settings")
		})
	}
}

// TestG51Trailers: X-Auth-Subject as a trailer, announced or not → no trailers upstream.
func TestG51Trailers(t *testing.T) {
	g := startBoth(t, siteWith("", gated("/errors/* trusted")+gatedDown("/down/*")+gated("", "anonymous /pub/*")+
		handled("handle_errors", "reverse_proxy UPSTREAM {\nheader_up X-User {http.auth.user.id}\n}")))
	token := g.server("public")
	chunked := func(target, trailers string, lines ...string) string {
		return g.requestWith("5\r\nhello\r\n0\r\n"+trailers+"\r\n", "POST", target, append(lines, "Transfer-Encoding: chunked")...)
	}
	for name, c := range map[string]struct {
		trailers string
		lines    []string
	}{
		"announced":               {"X-Auth-Subject: admin\r\n", []string{"Trailer: X-Auth-Subject"}},
		"Foo announced":           {"X-Auth-Subject: admin\r\nFoo: x\r\n", []string{"Trailer: Foo"}},
		"not announced":           {"X-Auth-Subject: admin\r\n", nil},
		"underscores":             {"X_Auth_Subject: admin\r\n", []string{"Trailer: X_Auth_Subject"}},
		"dots":                    {"X.Auth.Subject: admin\r\n", []string{"Trailer: X.Auth.Subject"}},
		"announced by Connection": {"X-Auth-Subject: admin\r\n", []string{"Trailer: X-Auth-Subject", "Connection: Trailer, TE", "TE: trailers"}},
		"credentials":             {"Authorization: Bearer x\r\nCookie: a=b\r\n", []string{"Trailer: Authorization, Cookie"}},
	} {
		t.Run(name, func(t *testing.T) {
			seen := g.passed(t, chunked("/x", c.trailers, append(c.lines, bearer(token))...))
			seen.ours(t, "conf").has(t, "Trailer")
			if seen.Body != "hello" {
				t.Errorf("body %q", seen.Body)
			}
			g.passed(t, chunked("/pub/x", c.trailers, c.lines...)).anonymous(t)
			if name != "announced" && name != "credentials" {
				return
			}
			// Proxying error routes get no trailers either.
			for _, target := range []string{"/errors/x", "/down/x", "/a;b"} {
				_, _, _ = g.asked(t, chunked(target, c.trailers, append(c.lines, bearer(token), "X-Auth-Role: admin")...))
				seen := g.upstream.one(t)
				seen.anonymous(t).has(t, "Trailer")
				if target != "/down/x" {
					seen.has(t, "X-User", "")
				}
			}
		})
	}
}

// TestG53G95StrippedOnEveryPath: identity headers on anonymous, optional, OPTIONS and error routes → stripped.
func TestG53G95StrippedOnEveryPath(t *testing.T) {
	g := startBoth(t, siteWith("", gated("/mixed/*", "anonymous /mixed/pub/*")+gated("/optional/*", "optional")+gated("/off/*", "forward off")+
		gated("/lenient/*", "paths lenient", "anonymous /lenient/pub/*")+gatedDown("/down/*")+gated(" trusted")+
		errorsProxied))
	token := g.server("public")
	for _, trick := range connectionTricks {
		lines := append(spoofs[:len(spoofs):len(spoofs)], trick...)
		for _, target := range []string{"/mixed/pub/x", "/optional/x", "/lenient/pub/x"} {
			g.passed(t, g.request("GET", target, lines...)).anonymous(t)
		}
		g.passed(t, g.request("GET", "/off/x", append(lines, bearer(token))...)).anonymous(t)
	}
	all := append(spoofs[:len(spoofs):len(spoofs)], "Connection: close", "Cookie: accessToken=x; a=1")
	for target, lines := range map[string][]string{
		"/x":         {bearer(token)}, // 403
		"/mixed/x":   nil,             // 401
		"/a;b":       {bearer(token)}, // 400
		"/down/x":    {bearer(token)}, // 502, from behind us
		"/mixed/y":   {"Early-Data: 1"},
		"/off/%2e/x": {},
	} {
		_, _, _ = g.asked(t, g.request("GET", target, append(lines, all...)...))
		seen := g.upstream.one(t)
		seen.anonymous(t)
		if target != "/down/x" { // if the upstream fails, Caddy gives its error routes the original credentials
			seen.has(t, "Authorization").has(t, "Cookie", "a=1")
		}
	}
	spoof := spoofs[0]
	g.passed(t, g.request("OPTIONS", "/mixed/x", spoof, bearer(token), "Origin: https://evil.test")).ours(t, "conf")
	g.passed(t, g.request("OPTIONS", "/mixed/pub/x", spoof)).anonymous(t)
	g.passed(t, g.request("GET", "/optional/x", spoof, bearer(token))).ours(t, "conf")
}

// TestG54ClaimsThatWouldSplitAHeader: a claim with CR LF, commas, 8 KiB → encoded or 401, never splits a header. Package identity tests the encoding.
func TestG54ClaimsThatWouldSplitAHeader(t *testing.T) {
	g := startGate(t, siteWith("", gated("/own/*", "forward X-Org org", "forward X-Aud aud", "forward X-List list", "forward X-Object object", "forward X-Number number")+
		gated("")))
	f := g.forger()
	for value, want := range map[string]string{"acme\r\nX-Auth-Role: admin": "acme%0D%0AX-Auth-Role:%20admin", strings.Repeat("a", 4096): strings.Repeat("a", 4096)} {
		token := g.watched(f.user("u-1", value, "member"))
		g.passed(t, g.request("GET", "/x", bearer(token))).has(t, identity.Organisation, want).has(t, identity.Role, "member")
		g.passed(t, g.request("GET", "/own/x", bearer(token))).has(t, "X-Org", want)
	}
	// Values longer than upstreams accept.
	for _, value := range []string{strings.Repeat("a", 4097), strings.Repeat("ü", 1000), strings.Repeat("a", 5000)} {
		g.refused(t, g.request("GET", "/x", bearer(g.user("u-1", value, "", "public"))), 401)
	}
	if _, err := g.app().issuer.Minter.Issue(issuer.Grant{
		Client: &store.Client{ID: "conf"}, User: &store.User{ID: "u-1", Organisation: strings.Repeat("a", 8192)},
	}); err == nil {
		t.Error("a token with a claim of 8 KiB was issued")
	}
	seen := g.passed(t, g.request("GET", "/own/x", bearer(g.watched(f.claiming(map[string]any{
		"aud": []string{f.issuer, "a, b\r\nc"}, "list": []any{"x y", 1, true}, "object": map[string]any{"a": 1}, "number": 12.5,
	})))))
	seen.has(t, "X-Aud", f.issuer+" a%2C%20b%0D%0Ac").has(t, "X-List", "x%20y 1 true").has(t, "X-Object").has(t, "X-Number", "12.5")
}

// TestG55PlaceholdersAreText: a claim or name such as `{env.DB_DSN}` → literal text. Caddy's placeholders of the user name the caller, and are
// empty without one.
func TestG55PlaceholdersAreText(t *testing.T) {
	t.Setenv("GATE_TEST_SECRET", "s3cret-of-the-environment")
	g := startGate(t, siteWith("", protect("anonymous /pub/*")+`
	respond /say "{http.auth.user.id} of {http.auth.user.org}"
	reverse_proxy UPSTREAM`+block("\t", []string{
		"header_up X-User {http.auth.user.id}", "header_up X-Org {http.auth.user.org}", "header_up X-Client {http.auth.user.client_id}",
		`header_up X-Scope "{http.auth.user.scope}"`, "header_up X-None {http.auth.user.nothing}",
	})))
	spoofed := []string{"X-User: admin", "X-Org: admin", "X-Client: admin"}
	seen := g.passed(t, g.request("GET", "/x", append(spoofed, bearer(g.user("u-1", "acme", "member", "public", "trusted")))...))
	seen.has(t, "X-User", "u-1").has(t, "X-Org", "acme").has(t, "X-Client", "conf").has(t, "X-Scope", "public trusted")
	g.passed(t, g.request("GET", "/pub/x", spoofed...)).has(t, "X-User", "").has(t, "X-Org", "").has(t, "X-Client", "").has(t, "X-Scope", "")
	f := g.forger()
	for _, value := range []string{
		"{env.GATE_TEST_SECRET}", "{http.request.header.X-Secret}", "{file./etc/passwd}", "{http.auth.user.id}", "{{env.GATE_TEST_SECRET}}",
		"{http.auth.user.org}", `\{env.HOME}`, "{$HOME}", "${GATE_TEST_SECRET}",
	} {
		token := g.watched(f.user(value, value, value))
		seen := g.passed(t, g.request("GET", "/x", bearer(token), "X-Secret: s3cret-of-the-header"))
		for _, name := range []string{identity.Subject, identity.Organisation, identity.Role} {
			seen.has(t, name, value)
		}
		seen.has(t, "X-User", value).has(t, "X-Org", value).has(t, "X-None", "")
		if _, _, body := g.asked(t, g.request("GET", "/say", bearer(token), "X-Secret: s")); body != value+" of "+value {
			t.Errorf("said %q, want %q twice", body, value)
		}
	}
	if strings.Contains(g.logs(), "s3cret-of-the-environment") {
		t.Error("a placeholder was replaced on its way to the log")
	}
}

// forwardingLines are header lines that a proxy in front of us would add. A client sends them to pass for one.
var forwardingLines = []string{
	"X-Forwarded-Uri: /pub/x", "X-Forwarded-Prefix: /pub", "X-Forwarded-Method: GET", "X-Forwarded-Port: 443",
	"Forwarded: for=10.0.0.1;host=evil.test", "X-Original-URL: /pub/x", "X-Rewrite-URL: /pub/x", "X-Real-IP: 10.0.0.1",
	"X-HTTP-Method-Override: DELETE", "X-HTTP-Method: DELETE", "X-Method-Override: DELETE", "X-Forwarded-Path: /pub/x",
}

// TestG56ForwardingFromAnybody: X-Forwarded-* and similar → not an input to any decision, stripped from untrusted peers.
func TestG56ForwardingFromAnybody(t *testing.T) {
	g := startBoth(t, siteWith("\t\texpected_underscore_headers X_Original_URL X_Forwarded_Uri", gated("", "anonymous /pub/*", "require /x/* scope trusted")))
	token := g.server("public")
	all := append([]string{"X-Forwarded-For: 10.0.0.1", "X-Forwarded-Proto: https", "X-Forwarded-Host: evil.test", "X_Original_URL: /pub/x", "X_Forwarded_Uri: /pub/x"}, forwardingLines...)
	g.refused(t, g.request("GET", "/other", all...), 401)
	g.refused(t, g.request("GET", "/x/y", append(all, bearer(token))...), 403)
	for _, request := range []string{g.request("GET", "/other", append(all, bearer(token))...), g.request("GET", "/pub/x", all...)} {
		seen := g.passed(t, request)
		for _, line := range forwardingLines {
			name, _, _ := strings.Cut(line, ":")
			seen.has(t, name)
		}
		seen.has(t, "X-Forwarded-For", "127.0.0.1").has(t, "X-Forwarded-Proto", "http").has(t, "X-Forwarded-Host", g.addr)
	}
}

// TestG56ForwardingFromATrustedProxy: X-HTTP-Method-Override, X-Original-URL and similar from a trusted proxy → stripped unless
// `trust_headers`.
func TestG56ForwardingFromATrustedProxy(t *testing.T) {
	routes := gated("/trusting/*", "trust_headers X-HTTP-Method-Override", "trust_headers x-original-url") +
		gatedDown("/down/*") + gated("", "anonymous /pub/*", "require /x/* scope trusted") +
		handled("handle_errors 502", "reverse_proxy UPSTREAM")
	const trusted = "\t\ttrusted_proxies static 127.0.0.0/8 ::1"
	g := startBoth(t, siteWith(trusted, routes))
	token := g.server("public")
	all := append([]string{"X-Forwarded-For: 10.0.0.1", "X-Forwarded-Proto: https", "X-Forwarded-Host: shop.test"}, forwardingLines...)
	// Even from a trusted proxy, none of them affects the gate's decision.
	g.refused(t, g.request("GET", "/other", all...), 401)
	g.refused(t, g.request("GET", "/x/y", append(all, bearer(token))...), 403)
	g.refused(t, g.request("GET", "/x/y", append(all, bearer(token), "X-Auth-Scope: trusted")...), 403)
	seen := g.passed(t, g.request("GET", "/other", append(all, bearer(token), "X-Auth-Subject: admin", "Connection: x-auth-subject")...))
	seen.ours(t, "conf")
	for _, line := range forwardingLines {
		name, value, _ := strings.Cut(line, ": ")
		if identity.NewNames(identity.Overriding...).Has(name) {
			seen.has(t, name)
		} else {
			seen.has(t, name, value)
		}
	}
	seen.has(t, "X-Forwarded-For", "10.0.0.1, 127.0.0.1").has(t, "X-Forwarded-Proto", "https").has(t, "X-Forwarded-Host", "shop.test")

	// A trusted proxy forwards its clients' headers. Those that override method or path are removed, also on error routes, unless the route
	// trusts them.
	overriding := append([]string(nil), identity.Overriding...)
	lines := []string{bearer(token)}
	for _, name := range overriding {
		lines = append(lines, name+": DELETE")
	}
	public, trusting := g.passed(t, g.request("GET", "/pub/x", lines[1:]...)), g.passed(t, g.request("GET", "/trusting/x", lines...))
	_, _, _ = g.asked(t, g.request("GET", "/down/x", lines...))
	down := g.upstream.one(t)
	for _, name := range overriding {
		public.has(t, name)
		down.has(t, name)
		if strings.EqualFold(name, "X-HTTP-Method-Override") || strings.EqualFold(name, "X-Original-URL") {
			trusting.has(t, name, "DELETE")
		} else {
			trusting.has(t, name)
		}
	}
}

// TestG57CredentialsTowardsTheUpstream: tokens and cookies of ours → reach no upstream except by `upstream_token relay`.
func TestG57CredentialsTowardsTheUpstream(t *testing.T) {
	g := startGate(t, siteWith("", gated("/strip/*", "upstream_token strip", "anonymous /strip/pub/*")+
		gated("/relay/*", "upstream_token relay", "anonymous /relay/pub/*")+
		inOrder("/gates/*", protect(), protect("upstream_token relay", "anonymous /gates/pub/*"), "reverse_proxy UPSTREAM")+
		gated("", "anonymous /pub/*")))
	token := g.server("public")
	const basic = "Authorization: Basic Y29uZjp4"
	for _, target := range []string{"/x", "/pub/x", "/strip/x", "/relay/pub/x"} {
		seen := g.passed(t, g.request("GET", target, bearer(token)))
		if seen.has(t, "Authorization"); strings.Contains(seen.Raw, token) {
			t.Errorf("%s: the upstream was sent the token:\n%s", target, seen.Raw)
		}
	}
	g.passed(t, g.request("GET", "/relay/x", bearer(token))).has(t, "Authorization", "Bearer "+token)
	// With two gates on a route, each sees the token. The last one decides whether to forward it.
	for target, want := range map[string][]string{"/gates/x": {"Bearer " + token}, "/gates/pub/x": nil} {
		if status, _, body := g.raw(g.request("GET", target, bearer(token))); status != http.StatusOK {
			t.Fatalf("%s: %d %s", target, status, body)
		}
		g.upstream.one(t).has(t, "Authorization", want...)
	}
	// Credentials of another scheme are forwarded unless the route strips them.
	g.passed(t, g.request("GET", "/pub/x", basic)).has(t, "Authorization", "Basic Y29uZjp4")
	g.passed(t, g.request("GET", "/relay/pub/x", basic)).has(t, "Authorization", "Basic Y29uZjp4")
	g.passed(t, g.request("GET", "/strip/pub/x", basic)).has(t, "Authorization")
	g.passed(t, g.request("GET", "/strip/x", bearer(token))).has(t, "Authorization").has(t, identity.Subject, "conf")
	g.passed(t, g.request("GET", "/strip/pub/x", bearer(token))).has(t, "Authorization")
	g.passed(t, g.request("GET", "/strip/x", bearer(token), "Connection: Authorization")).has(t, "Authorization")

	g.passed(t, g.request("GET", "/x", bearer(token), "Cookie: gatehouse_browser=s; theme=dark")).has(t, "Cookie", "theme=dark")
	g.passed(t, g.request("GET", "/pub/x", "Cookie: accessToken=x; gatehouse_device=s")).has(t, "Cookie")
	g.passed(t, g.request("GET", "/x", bearer(token), "Cookie: a=1", "Cookie: accessToken=x", "Cookie: b=2; accessToken=y")).has(t, "Cookie", "a=1", "b=2")
}
