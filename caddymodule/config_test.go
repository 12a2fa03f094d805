package caddymodule

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-auth/gatehouse/caddymodule/configuration"
	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
)

// emptyHome sets Caddy's directories to an empty directory and fails the test if anything appears there.
func emptyHome(t *testing.T) {
	t.Helper()
	home := t.TempDir()
	for _, name := range []string{"HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"} {
		t.Setenv(name, filepath.Join(home, name))
	}
	t.Cleanup(func() {
		_ = filepath.WalkDir(home, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || path != home {
				t.Errorf("provisioning touched %s (%v)", path, err)
			}
			return nil
		})
	})
}

// validate does what `caddy validate` does.
func validate(t *testing.T, caddyfile string) error {
	t.Helper()
	config, err := adapt(caddyfile)
	if err != nil {
		t.Fatalf("adapting: %v", err)
	}
	return validateJSON(t, config)
}

func validateJSON(t *testing.T, config []byte) error {
	t.Helper()
	var parsed *caddy.Config
	check(t, json.Unmarshal(config, &parsed))
	before := node.InUse()
	err := caddy.Validate(parsed)
	if left := node.InUse() - before; left > 0 {
		t.Errorf("%d nodes are left in the pool", left)
	}
	return err
}

// wrapped returns an oauth block with an option, and a site with a handler.
func wrapped(option, handler string) string {
	return "{\n\tadmin off\n\toauth {\n\t\tissuer http://localhost:1\n" + option + "\n\t}\n}\nhttp://localhost:1 {\n" + handler + "\n}\n"
}

// refusal is an option and the text of its error.
type refusal struct{ option, want string }

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
	if want = fmt.Sprintf("%s, at Caddyfile:%d", want, line); err == nil || !strings.HasSuffix(err.Error(), want) || strings.Count(err.Error(), "Caddyfile:") != 1 {
		t.Errorf("got %v, want %s", err, want)
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

// introspecting returns a `trust` of six lines.
func introspecting(name string) string {
	return "trust " + name + " https://" + name + ".example {\naudience a\nintrospection https://" + name + ".example/i {\nclient gw 0123456789\n}\n}\n"
}

// adaHash is a bcrypt hash of the password "correct-horse" with the minimum cost.
const adaHash = "$2a$04$jxx5KdE/HQJA3PCznHrn5uJ5yfnQY/KKEbMxaxqg8rcb5gMim3g1y"

// aUser returns a user that is valid except for lines.
func aUser(lines string) string {
	return "user u-ada {\nemail ada@acme.example\npassword " + adaHash + "\norganisation acme\n" + lines + "\n}"
}

// TestG78ErrorsOfTheConfigurationSayWhere: an error that shows when Caddy adapts or loads a configuration → refused with file and line.
// Package configuration has the settings of the oauth block.
func TestG78ErrorsOfTheConfigurationSayWhere(t *testing.T) {
	emptyHome(t)
	logo := filepath.Join(t.TempDir(), "logo.png")
	check(t, os.WriteFile(logo, []byte("no image"), 0o600))
	trusting := gateOf(trustLines("corp", "https://l.example")) // six lines
	protect := func(lines string) string { return "http://localhost:1 {\nprotect {\n" + lines + "\n}\n}\n" }
	for _, test := range []struct {
		name, caddyfile, want string
		line                  int
	}{
		{"issuer missing in two blocks", "{\n\tadmin off\n\toauth {\n\t\tscope x\n\t}\n\toauth {\n\t\tscope y\n\t}\n}\n", "for a gate that issues nothing", 3},
		{"faulty oauth block before oauth_server", gateOf() + "http://localhost:1 {\n\toauth_server\n}\n", "for a gate that issues nothing", 2},
		{"type of a client", inOAuth("client a s {", "type secret", "}"), `client a: unknown client type "secret": use confidential, public or native`, 5},
		{"scope of a client", inOAuth("client a s {", "scopes orders.write", "}"), `oauth: client "a": unknown scope "orders.write": declare it first`, 5},
		{"two names for one issuer in two blocks", gateOf(trustLines("a", "https://l.example"), "}", "oauth {", trustLines("b", "https://l.example")), "oauth: trust b: trust a has the same issuer", 8},
		{"an issuer of many tenants", inOAuth("sign_in {\nprovider entra https://login.microsoftonline.com/common/v2.0 {\nclient gw {env.HOME}\n}\n}"),
			"provider entra: https://login.microsoftonline.com/common/v2.0 stands for many tenants: write the URL of yours, https://login.microsoftonline.com/<tenant id>/v2.0", 5},
		{"protect without an oauth block", "http://localhost:1 {\n\thandle /x/* {\n\t\tprotect\n\t}\n}\n", "protect needs an oauth block in the global options, with `issuer`, `trust` or `sign_in`", 3},
		{"oauth_server without an oauth block", "{\n\tadmin off\n}\nhttp://localhost:1 {\n\toauth_server {\n\t\tready\n\t}\n}\n", "oauth_server needs an oauth block in the global options, with `issuer`, `trust` or `sign_in`", 5},
		{"readiness without an issuer", trusting + "http://localhost:1 {\n\toauth_server {\n\t\tready\n\t}\n}\n", "token_alias and ready need an issuer: add `issuer https://…` to the oauth block", 9},
		{"alias that is taken", inOAuth() + "http://localhost:1 {\n\toauth_server {\n\t\ttoken_alias /.well-known/oauth-authorization-server\n\t}\n}\n", "token_alias /.well-known/oauth-authorization-server: the issuer answers there already", 8},
		{"scope of protect", inOAuth() + "http://localhost:1 {\nprotect orders\n}\n", `protect: unknown scope "orders": declare it first`, 8},
		{"scope of require", inOAuth() + protect("require scope orders"), `unknown scope "orders": declare it first`, 8},
		{"scope of any_scope", inOAuth() + protect("require any_scope public orders"), `unknown scope "orders": declare it first`, 8},
		{"scope that is none", trusting + protect("issuer corp\nrequire scope a\"b"), "is no scope", 9},
		{"audience of protect unset", inOAuth() + protect("audience {env.GATEHOUSE_TEST_UNSET}"), "protect: audience: evaluated placeholder {env.GATEHOUSE_TEST_UNSET} is empty", 8},
		{"forward twice", inOAuth() + protect("forward X-User sub\nforward x-user client_id"), "forward X-User is there twice", 8},
		{"forward nothing", inOAuth() + protect("forward X-User \"\""), "forward X-User: the claim is missing", 8},
		{"an issuer that nobody trusts", inOAuth(trustLines("corp", "https://l.example")) + protect("issuer nobody"), "issuer nobody is not known: there is no `trust nobody` in the oauth block", 10},
		{"self without an issuer", trusting + protect("issuer self"), "there is no issuer of our own: add `issuer https://…` to the oauth block, or write `issuer <name>` with the name of a trust", 9},
		{"no issuer named in a gate that issues nothing", trusting + protect(""), "there is no issuer of our own: add `issuer https://…` to the oauth block, or write `issuer <name>` with the name of a trust", 9},
		{"two that introspect", gateOf(introspecting("corp")+introspecting("other")) + protect("issuer corp other"), "both have an introspection: nobody could tell whose an opaque token is, and it would be shown to the wrong one", 19},
	} {
		t.Run(test.name, func(t *testing.T) { checkPlace(t, refused(t, test.caddyfile), test.want, test.line) })
	}
	if err := refused(t, inOAuth("pages {", "logo "+logo, "}")); err == nil || !strings.HasSuffix(err.Error(), "logo: the file is no image/png, at Caddyfile:5") {
		t.Errorf("a logo that is no image: %v", err)
	}
}

// TestG93AssertionHeaders checks that assertion headers are refused as those of claims are, and so are settings that make no sense. Swap refuses
// our own audiences: with such a token the upstream could act as the client everywhere, also where this route accepts no such token.
func TestG93AssertionHeaders(t *testing.T) {
	emptyHome(t)
	for option, want := range map[string]string{
		"forward assertion X-Auth-Subject":                                            "forward assertion X-Auth-Subject: the header has the claim sub already",
		"forward x_user sub\nforward assertion X-User":                                "forward assertion X-User: the header has the claim sub already",
		"forward assertion X-A {env.GATEHOUSE_NOT_SET}":                               "forward assertion: audience: ",
		"forward_to response\nforward assertion X-A https://b.example":                "which is not the one that forward_to response answers",
		"upstream_token swap {env.GATEHOUSE_NOT_SET}":                                 "upstream_token swap: audience: ",
		"upstream_token swap https://a.example":                                       "this is our issuer's own audience",
		"audience https://narrow.example\nupstream_token swap https://api.example":    "this is our issuer's own audience",
		"audience https://narrow.example\nupstream_token swap https://other.example":  "this is our issuer's own audience",
		"audience https://narrow.example\nupstream_token swap https://narrow.example": "this route takes tokens for that audience itself",
	} {
		err := refused(t, inOAuth("audience https://a.example https://api.example https://other.example")+"http://localhost:1 {\nprotect {\n"+option+"\n}\n}\n")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", option, err, want)
		}
	}
}

// TestProvisionRefusesJSON checks that invalid JSON gets the same errors as an invalid Caddyfile.
func TestProvisionRefusesJSON(t *testing.T) {
	emptyHome(t)
	protect := func(members string) string {
		return `{"admin":{"disabled":true},"apps":{"oauth":{"issuer":"https://a.example"},"http":{"servers":{"s":{"listen":[":1"],"routes":[{"handle":[{"handler":"oauth_protect",` + members + `}]}]}}}}}`
	}
	server := func(members string) string {
		return strings.Replace(protect(members), "oauth_protect", "oauth_server", 1)
	}
	for _, test := range []struct{ config, want string }{
		{`{"admin":{"disabled":true},"apps":{"oauth":{"issuer":"http://a.example"}}}`, "must be https"},
		{protect(`"require":[{"roles":["boss"]}]`), `unknown role "boss": use admin, group_manager, business_manager or member`},
		{server(`"token_alias":"token"`), `token_alias "token": use one exact path`},
		{server(`"token_alias":"/oauth/token2"`), "token_alias /oauth/token2: paths below /oauth/ are the issuer's own"},
		{server(`"token_alias":"/.well-known/oauth-authorization-server"`), "token_alias /.well-known/oauth-authorization-server: the issuer answers there already"},
		{server(`"token_alias":"/api/v1/organisations/me/users/1/access_tokens"`), "the issuer answers there already"},
		{protect(`"paths":"loose"`), `paths "loose": use strict or lenient`},
		{protect(`"upstream_token":"drop"`), `upstream_token "drop": use strip, relay or swap <audience>`},
		{protect(`"forward":[{"header":"X-A","claim":"sub"}],"forward_off":true`), "forward off stands beside other forward lines"},
		{protect(`"forward":[{"header":"Host","claim":"sub"}]`), "forward Host: a claim cannot be written into this header"},
		{protect(`"require":[{"users":["ada@"]}]`), `"ada@" is no e-mail address: write it as ada@example.com`},
		{protect(`"require":[{"email_domains":["*.example.com"]}]`), `"*.example.com" cannot stand behind the @ of an e-mail address: write a domain, as example.com`},
		{protect(`"require":[{"users":["u-ada"],"email_domains":["example.com"]}]`), "a rule needs one of scopes, any_scope, users, email_domains, roles, groups, claim, expression, acr and max_age"},
		{protect(`"require":[{"claim":"org"}]`), "require claim org needs a value"},
		{protect(`"require":[{"match":[{"nonsense":{}}],"scopes":["public"]}]`), "unknown module: http.matchers.nonsense"},
		{protect(`"assertion":{"header":"Authorization"}`), "forward assertion Authorization: an assertion cannot be written into this header"},
		{protect(`"upstream_token":"strip","swap_audience":"https://a.example"`), "swap_audience is for upstream_token swap"},
		{protect(`"upstream_token":"swap"`), "upstream_token swap: audience is missing"},
		{protect(`"anonymous":[{"path":"/x"}]`), "anonymous: "},
		{protect(`"anonymous":[{}]`), "matches every request"},
		{protect(`"anonymos":[]`), `unknown field "anonymos"`},
	} {
		if err := validateJSON(t, []byte(test.config)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", test.config, err, test.want)
		}
	}
}

// TestProvisionIsOffline validates a configuration that has effects when it starts: nothing appears in Caddy's directories or at the
// store's path, and the port stays free.
func TestProvisionIsOffline(t *testing.T) {
	emptyHome(t)
	state := filepath.Join(t.TempDir(), "state")
	t.Setenv("GATEHOUSE_TEST_KEK", strings.Repeat("ab", 32))
	addr := freeAddr(t)
	for _, store := range []string{"", "store sqlite " + state + "/oauth.db\n", "store memory\n"} {
		caddyfile := strings.ReplaceAll(wrapped(store+"keys {\nencrypt_with {env.GATEHOUSE_TEST_KEK}\n}\nclient a s\n"+"organisation acme\n"+aUser(""),
			"oauth_server\nprotect public {\nanonymous /x\n}\nreverse_proxy 127.0.0.1:2"), "localhost:1", addr)
		if err := validate(t, caddyfile); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(state); !os.IsNotExist(err) {
		t.Errorf("the store's directory is there: %v", err)
	}
	if err := listenable(addr); err != nil {
		t.Errorf("the port is taken: %v", err)
	}
}

// TestCleanupAcceptsHalfProvisioned checks Cleanup of modules whose Provision failed, which Caddy calls.
func TestCleanupAcceptsHalfProvisioned(t *testing.T) {
	if err := new(App).Cleanup(); err != nil {
		t.Error(err)
	}
	app := &App{Block: configuration.Block{Issuer: "nonsense"}}
	ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
	defer cancel()
	if err := app.Provision(ctx); err == nil {
		t.Error("provisioned nonsense")
	}
	if err := app.Cleanup(); err != nil {
		t.Error(err)
	}
	if err := new(App).Stop(); err != nil {
		t.Error(err)
	}
}

// listenable returns the error of listening at an address.
func listenable(addr string) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return listener.Close()
}

// TestP91AnOrganisationThatNobodyHas checks that loading fails if neither the configuration nor the store has the organisation.
func TestP91AnOrganisationThatNobodyHas(t *testing.T) {
	const site = "{\n\tadmin ADMIN\n\toauth {\n\t\tissuer http://ADDR\n\t\tORG\n\t}\n}\nhttp://ADDR {\n\toauth_server\n}\n"
	g := startGatehouse(t, strings.Replace(site, "ORG", "", 1))
	for setting, want := range map[string]string{
		"sign_in {\nprovider corp https://login.example {\nclient gw {env.HOME}\ncreate organisation ID\n}\n}":     "provider corp: there is no organisation \"ID\": declare it, or add it with `caddy oauth org add`, at Caddyfile:6",
		"mail smtp://127.0.0.1:9 {\nfrom id@acme.example\n}\nregistration_of_people anybody {\norganisation ID\n}": "registration_of_people organisation ID: there is no organisation \"ID\": declare it, or add it with `caddy oauth org add`, at Caddyfile:9",
	} {
		id := "org" + strconv.Itoa(len(setting))
		with := strings.Replace(site, "ORG", strings.Replace(setting, "ID", id, 1), 1)
		if err := g.tryReload(with); err == nil || !strings.Contains(err.Error(), strings.ReplaceAll(want, "ID", id)) {
			t.Errorf("got %v", err)
		}
		g.ok("org", "add", id, "--name", "Acme")
		g.reload(with)
	}
}

// configVars returns the replacements for a configuration that is never served.
func configVars(t *testing.T) *strings.Replacer {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("XDG_DATA_HOME", dir)
	return strings.NewReplacer("ADDR", freeAddr(t), "ADMIN", freeAddr(t), "UPSTREAM", "127.0.0.1:1", "SECRET", confSecret, "LOG", dir+"/log", "DIR", dir)
}
