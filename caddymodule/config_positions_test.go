package caddymodule

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// misplaced is a Caddyfile with one fault, the expected error and the line that it names.
type misplaced struct {
	name, caddyfile, want string
	line                  int
}

// refused returns the error of a Caddyfile from adapting or loading it.
func refused(t *testing.T, caddyfile string) error {
	t.Helper()
	config, err := adapt(caddyfile)
	if err != nil {
		return err
	}
	return validateJSON(t, config)
}

// checkPlace checks that an error has the text with the line at its end, and names no other position.
func checkPlace(t *testing.T, err error, want string, line int) {
	t.Helper()
	if want = fmt.Sprintf("%s, at Caddyfile:%d", want, line); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Fatalf("got %v, want %s", err, want)
	}
	if strings.Count(err.Error(), "Caddyfile:") != 1 {
		t.Errorf("more than one place: %v", err)
	}
}

// inOAuth returns an oauth block whose options begin on line 4.
func inOAuth(options ...string) string {
	return "{\n\toauth {\n\t\tissuer https://a.example\n" + strings.Join(options, "\n") + "\n\t}\n}\n"
}

// gateOf returns an oauth block without an issuer, whose options begin on line 3.
func gateOf(options ...string) string {
	return "{\n\toauth {\n" + strings.Join(options, "\n") + "\n\t}\n}\n"
}

// trustLines returns a `trust` of three lines.
func trustLines(name, issuer string) string {
	return "trust " + name + " " + issuer + " {\naudience x\n}"
}

// TestG78ErrorsOfTheConfigurationSayWhere: an unknown scope, role or grant, an unset secret, and errors that show only after everything is
// read → refused with file and line.
func TestG78ErrorsOfTheConfigurationSayWhere(t *testing.T) {
	emptyHome(t)
	short := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(short, []byte("tooshort"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GATEHOUSE_TEST_HTTP", "http://api.example.com")
	const unset = "{env.GATEHOUSE_TEST_UNSET}"
	const gives = "evaluated placeholder " + unset + " is empty"
	const unknown = `unknown scope "orders.write": declare it first`
	for _, test := range []misplaced{
		{"issuer missing", gateOf("client a s"), "oauth: issuer is missing: add `issuer https://…` to the oauth block, a provider to sign_in, or `trust …` for a gate that issues nothing", 2},
		{"issuer missing in two blocks", "{\n\tadmin off\n\toauth {\n\t\tscope x\n\t}\n\toauth {\n\t\tscope y\n\t}\n}\n", "for a gate that issues nothing", 3},
		{"issuer unset", "{\n\toauth {\n\t\tscope x\n\t\tissuer " + unset + "\n\t}\n}\n", "oauth: issuer: " + gives, 4},
		{"issuer not https", "{\n\toauth {\n\t\tissuer {env.GATEHOUSE_TEST_HTTP}\n\t}\n}\n", "plain http is for loopback hosts only", 3},
		{"audience unset", inOAuth("audience https://a.example", "audience https://b.example "+unset), "oauth: audience: " + gives, 5},
		{"store path unset", inOAuth("scope x", "store sqlite "+unset), "oauth: store path: " + gives, 5},
		{"scope of a client", inOAuth("client a s {", "grants client_credentials", "scopes orders.write", "}"), `oauth: client "a": ` + unknown, 6},
		{"scope of a client on its second line of scopes", inOAuth("client a s {", "scopes public", "scopes trusted orders.write", "}"), `oauth: client "a": ` + unknown, 6},
		{"scope of the second of two clients", inOAuth("scope b.read", "client a s {", "scopes b.read", "}", "client b s {", "scopes a.read", "}"), `oauth: client "b": unknown scope "a.read": declare it first`, 9},
		{"scopes of a client with a comma", inOAuth("client a s {", "scopes public,trusted", "}"), `oauth: client "a": unknown scope "public,trusted": declare it first`, 5},
		{"secret of a client unset", inOAuth("scope x", "client a "+unset+" {", "first_party", "}"), `oauth: client "a": secret: ` + gives, 5},
		{"type of a client", inOAuth("client a s {", "type secret", "}"), `client a: unknown client type "secret": use confidential, public or native`, 5},
		{"grant of a client", inOAuth("client a s {", "first_party", "grants implicit", "}"), `client a: unknown grant "implicit": use client_credentials, authorization_code, refresh_token, password, urn:ietf:params:oauth:grant-type:jwt-bearer, urn:ietf:params:oauth:grant-type:token-exchange`, 6},
		{"redirect URI of a client", inOAuth("client a s {", "redirect_uris https://a.example/", "redirect_uris /b", "}"), `client a: redirect URI "/b": use an absolute URI`, 6},
		{"client as a whole", inOAuth("scope x", "client a {", "first_party", "}"), "client a: a confidential client needs a secret, or keys of its own: jwks or jwks_uri", 5},
		{"scope of sessions", inOAuth("session_scopes trusted", "session_scopes public orders.write"), "oauth: session_scopes: " + unknown, 5},
		{"scopes of sessions with a comma", inOAuth("session_scopes public,trusted"), `oauth: session_scopes: unknown scope "public,trusted": declare it first`, 4},
		{"scope of sessions that none needs", inOAuth("session_scopes refresh_token"), "oauth: session_scopes refresh_token: a session needs no refresh token", 4},
		{"organisation of a user", inOAuth("organisation beta", aUser("")), `oauth: user "u-ada": organisation "acme" is not declared: add ` + "`organisation acme`", 8},
		{"role of a user", inOAuth("organisation acme", aUser("role boss")), `oauth: user "u-ada": unknown role "boss": use admin, group_manager, business_manager or member`, 9},
		{"role of a user in another case", inOAuth("organisation acme", aUser("role Admin")), `oauth: user "u-ada": unknown role "Admin": use admin, group_manager, business_manager or member`, 9},
		{"role of a user that is declared no more", inOAuth("role boss manages clerk", "role clerk", "organisation acme", aUser("role member")), `oauth: user "u-ada": unknown role "member": use boss or clerk`, 11},
		{"managed role", inOAuth("role clerk", "role boss manages clerk member"), `oauth: role boss manages: unknown role "member": use clerk or boss`, 5},
		{"password of a user", inOAuth("organisation acme", strings.Replace(aUser(""), adaHash, unset, 1)), `oauth: user "u-ada": password: ` + gives, 7},
		{"key-encryption key too short", inOAuth("keys {", "rotate off", "encrypt_with {file."+short+"}", "}"), "oauth: encrypt_with: a key-encryption key has 32 bytes: make one with `openssl rand -base64 32`", 6},
		{"key-encryption key unset", inOAuth("keys {", "encrypt_with "+unset, "}"), "oauth: encrypt_with: " + gives, 5},
		{"logo missing", inOAuth("pages {", "logo /nowhere/logo.png", "}"), "oauth: logo: stat /nowhere/logo.png: no such file or directory", 5},
		{"two names for one issuer", inOAuth(trustLines("a", "https://l.example"), trustLines("b", "https://l.example")), "oauth: trust b: trust a has the same issuer", 7},
		{"two names for one issuer in two blocks", "{\n\toauth {\n" + trustLines("a", "https://l.example") + "\n\t}\n\toauth {\n" + trustLines("b", "https://l.example") + "\n\t}\n}\n", "oauth: trust b: trust a has the same issuer", 8},
		{"our own issuer", inOAuth("scope x", trustLines("a", "https://a.example")), "oauth: trust a: https://a.example is our own issuer: `protect` calls it self", 5},
		{"audience of a trust unset", gateOf(trustLines("a", "https://l.example"), "trust b https://m.example {", "audience "+unset, "}"), "oauth: trust b: audience: " + gives, 6},
		{"client of a gate without an issuer", gateOf(trustLines("a", "https://l.example"), "client x s"), "oauth: client needs an issuer: add `issuer https://…` to the oauth block", 2},
		{"protect without an oauth block", "http://localhost:1 {\n\thandle /x/* {\n\t\tprotect\n\t}\n}\n", "protect needs an oauth block in the global options, with `issuer`, `trust` or `sign_in`", 3},
		{"oauth_server without an oauth block", "{\n\tadmin off\n}\nhttp://localhost:1 {\n\toauth_server {\n\t\tready\n\t}\n}\n", "oauth_server needs an oauth block in the global options, with `issuer`, `trust` or `sign_in`", 5},
		{"faulty oauth block before oauth_server", gateOf() + "http://localhost:1 {\n\toauth_server\n}\n", "for a gate that issues nothing", 2},
		{"readiness without an issuer", gateOf(trustLines("a", "https://l.example")) + "http://localhost:1 {\n\toauth_server {\n\t\tready\n\t}\n}\n", "token_alias and ready need an issuer: add `issuer https://…` to the oauth block", 9},
		{"alias that is taken", inOAuth() + "http://localhost:1 {\n\toauth_server {\n\t\ttoken_alias /.well-known/oauth-authorization-server\n\t}\n}\n", "token_alias /.well-known/oauth-authorization-server: the issuer answers there already", 8},
	} {
		t.Run(test.name, func(t *testing.T) { checkPlace(t, refused(t, test.caddyfile), test.want, test.line) })
	}
}

// TestG78ConfigurationsWithoutPlaces checks that JSON that was not adapted from a Caddyfile gets the same errors, without positions.
func TestG78ConfigurationsWithoutPlaces(t *testing.T) {
	emptyHome(t)
	for _, test := range []struct{ name, caddyfile, want string }{
		{"issuer missing", gateOf("client a s"), "for a gate that issues nothing"},
		{"scope of a client", inOAuth("client a s {", "scopes orders.write", "}"), `oauth: client "a": unknown scope "orders.write": declare it first`},
		{"scope of sessions", inOAuth("session_scopes orders.write"), `oauth: session_scopes: unknown scope "orders.write": declare it first`},
		{"organisation of a user", inOAuth(aUser("")), "is not declared: add `organisation acme`"},
		{"key-encryption key", inOAuth("keys {", "encrypt_with {env.GATEHOUSE_TEST_UNSET}", "}"), "evaluated placeholder {env.GATEHOUSE_TEST_UNSET} is empty"},
		{"two names for one issuer", inOAuth(trustLines("a", "https://l.example"), trustLines("b", "https://l.example")), "oauth: trust b: trust a has the same issuer"},
		{"oauth_server without an oauth block", "http://localhost:1 {\n\toauth_server\n}\n", "oauth_server needs an oauth block in the global options, with `issuer`, `trust` or `sign_in`"},
		{"protect without an oauth block", "http://localhost:1 {\n\tprotect\n}\n", "protect needs an oauth block in the global options, with `issuer`, `trust` or `sign_in`"},
	} {
		t.Run(test.name, func(t *testing.T) {
			config, err := adapt(test.caddyfile)
			if err != nil {
				t.Fatal(err)
			}
			if err := validateJSON(t, withoutPlaces(t, config)); err == nil || !strings.HasSuffix(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

// withoutPlaces removes every Caddyfile position from a configuration.
func withoutPlaces(t *testing.T, config []byte) []byte {
	t.Helper()
	var tree any
	if err := json.Unmarshal(config, &tree); err != nil {
		t.Fatal(err)
	}
	taken := 0
	var visit func(any)
	visit = func(node any) {
		switch node := node.(type) {
		case map[string]any:
			for _, name := range []string{"source", "sources"} {
				if _, there := node[name]; there {
					delete(node, name)
					taken++
				}
			}
			for _, member := range node {
				visit(member)
			}
		case []any:
			for _, element := range node {
				visit(element)
			}
		}
	}
	visit(tree)
	if taken == 0 {
		t.Fatal("there was no place")
	}
	bare, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return bare
}
