package caddymodule

import (
	"strings"
	"testing"
)

// TestV7ValidateWarnsOfApplicationsAtTheIssuersOrigin, where people sign in.
func TestV7ValidateWarnsOfApplicationsAtTheIssuersOrigin(t *testing.T) {
	options := func(lines ...string) string {
		return "{\noauth {\nissuer https://id.example\nkeys {\nencrypt_with {env.GATE_KEK}\n}\n" + strings.Join(lines, "\n") + "\n}\n}\n"
	}
	user := "user u-ada {\nemail ada@example.com\npassword " + peopleHash() + "\n}"
	const (
		proxy = "protect\nreverse_proxy app:1"
		words = "3 reverse_proxy to app:1 answers at the origin of the issuer, where people sign in"
	)
	app := func(block string) string { return "https://app.example:8001 {\n" + block + "\n}\n" }
	id := func(block string) string { return "https://id.example:8001 {\noauth_server\n" + block + "\n}\n" }
	for _, test := range []struct {
		name, caddyfile string
		want            []string
	}{
		{"people are declared", options(user) + id(proxy), []string{words}},
		{"people come by openid", options("openid") + id(proxy), []string{words}},
		{"clients register", options("registration") + id(proxy), []string{words}},
		{"a route of the host is for browsers", options() + id("handle /a/* {\nprotect {\nchallenge browser\n}\nreverse_proxy app:1\n}\nhandle {\nrespond 404\n}"), []string{words}},
		{"another host is for browsers", options() + id(proxy) + app("protect {\nchallenge browser\n}\nreverse_proxy other:1"), []string{words}},
		{"an MCP server", options() + id("handle /mcp* {\nprotect mcp:use {\nmcp\n}\nreverse_proxy app:1\n}\nhandle {\nrespond 404\n}"), []string{words}},
		{"two of them", options(user) + id("protect\nreverse_proxy /a/* app:1\nreverse_proxy other:1"), []string{words, "3 reverse_proxy to other:1 answers at the origin"}},
		{"for any host", options(user) + "https://:8001 {\noauth_server\n" + proxy + "\ntls internal\n}\n", []string{words}},
		{"for a wildcard", options(user) + "https://*.example:8001 {\noauth_server\n" + proxy + "\n}\n", []string{words}},
		{"in another site of the host", options(user) + id("") + "https://id.example:8001/app/* {\n" + proxy + "\n}\n", []string{words}},
		{"nobody signs in", options("client shop {env.GATE_GOOD}") + id(proxy), nil},
		{"a host of its own", options(user) + id("") + app(proxy), nil},
		{"a host of its own beside a wildcard", options(user) + id("") + "https://*.example:8001 {\n" + proxy + "\n}\n", nil},
		{"another port", options(user) + id("") + "https://id.example:8002 {\n" + proxy + "\n}\n", nil},
		{"files alone", options(user) + id("file_server"), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			holdWarnings(t, warnedOf(t, test.caddyfile, "GATE_KEK="+strings.Repeat("ab", 32), "GATE_GOOD="+strings.Repeat("0f", 16)), test.want, "Caddyfile", 0)
		})
	}
}

// TestG126ValidateWarnsOfTheIssuer: an issuer that requests do not reach, keys in the clear, a guessable secret → a warning with file and
// line, without the secret.
func TestG126ValidateWarnsOfTheIssuer(t *testing.T) {
	// The oauth block begins in line 2, its issuer is line 3.
	options := func(lines ...string) string {
		return "{\noauth {\n" + strings.Join(lines, "\n") + "\n}\n}\n"
	}
	const ours = "issuer https://a.example"
	sealed := "keys {\nencrypt_with {env.GATE_KEK}\n}"
	inside := func(block string) string { return "https://a.example:8001 {\n" + block + "\nrespond 404\n}\n" }
	for _, test := range []struct {
		name, caddyfile string
		want            []string
	}{
		{"nothing wrong", options(ours, sealed) + inside("oauth_server"), nil},
		{"in memory", options(ours, "store memory") + inside("oauth_server"), nil},
		{"on loopback", options("issuer http://localhost:8001") + "http://localhost:8001 {\noauth_server\n}\n", nil},
		{"for any host", options(ours, sealed) + "http://:8001 {\noauth_server\n}\n", nil},
		{"for a wildcard", options("issuer https://a.b.example", sealed) + "https://*.b.example:8001 {\noauth_server\n}\n", nil},
		{"in a handle for the rest", options(ours, sealed) + inside("handle /x/* {\nrespond 204\n}\nhandle {\noauth_server\n}"), nil},
		{"behind the host", options(ours, sealed) + inside("@a host a.example\nhandle @a {\noauth_server\n}"), nil},
		{"two sites, one of them the issuer's", options(ours, sealed) + inside("oauth_server") + "https://b.example:8001 {\noauth_server\n}\n", nil},
		{"a gate alone", options("trust corp https://l.example {\naudience a\n}") + inside(""), nil},
		{"no oauth_server", options(ours, sealed) + inside(""), []string{"3 no site has oauth_server"}},
		{"no oauth_server beside a protect", options(ours, sealed) + inside("protect"), []string{"3 no site has oauth_server"}},
		{"no site", options(ours, sealed), []string{"3 no site has oauth_server"}},
		{"below a path", options(ours, sealed) + inside("handle /x/* {\noauth_server\n}"), []string{"11 not reached by every request for /oauth/token, since it stands behind path /x/*"}},
		{"below /oauth/ alone", options(ours, sealed) + inside("handle /oauth/* {\noauth_server\n}"), []string{"11 not reached by every request for /.well-known/oauth-authorization-server, since it stands behind path /oauth/*"}},
		{"below handle_path", options(ours, sealed) + inside("handle_path /x/* {\noauth_server\n}"), []string{"11 not reached by every request for /oauth/token"}},
		{"both paths", options(ours, sealed) + inside("@us path /oauth/* /.well-known/*\nhandle @us {\noauth_server\n}"), nil},
		{"behind a method", options(ours, sealed) + inside("@post method POST\nhandle @post {\noauth_server\n}"), []string{"12 since it stands behind method POST"}},
		{"behind a header", options(ours, sealed) + inside("@h header X-A b\nhandle @h {\noauth_server\n}"), []string{"12 not reached by every request for /oauth/token"}},
		{"never reached", options(ours, sealed) + inside("route {\nrespond 200\noauth_server\n}"), []string{"12 never reached"}},
		{"another host", options(ours, sealed) + "https://b.example:8001 {\noauth_server\n}\n", []string{"3 no site with oauth_server has the host of the issuer, a.example"}},
		{"the issuer has a path", options("issuer https://a.example/auth", sealed) + inside("handle /auth/* {\noauth_server\n}"), []string{"11 /.well-known/oauth-authorization-server/auth"}},
		{"keys in the clear", options(ours) + inside("oauth_server"), []string{"3 signing keys are stored in the clear"}},
		{"a secret that can be guessed", options(ours, sealed, "client one secret123", "client two {env.GATE_GUESS}", "client three {env.GATE_GOOD}", "client four correct-horse-battery-staple") + inside("oauth_server"),
			[]string{"7 the secret of client one can be guessed", "8 the secret of client two can be guessed"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			warned := warnedOf
			if strings.Contains(test.caddyfile, "secret123") { // which the adapter warns of
				warned = validateProcess
			}
			got := warned(t, test.caddyfile, "GATE_KEK="+strings.Repeat("ab", 32), "GATE_GUESS=hunter2-hunter2", "GATE_GOOD="+strings.Repeat("0f", 16))
			for _, text := range got {
				if strings.Contains(text, "secret123") || strings.Contains(text, "hunter2") {
					t.Errorf("the secret is told: %s", text)
				}
			}
			holdWarnings(t, got, test.want, "Caddyfile", 0)
		})
	}
}
