package caddymodule

import (
	"encoding/json"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// emptyHome points Caddy's directories into an empty one, and fails the test if anything appears there.
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
	if err := json.Unmarshal(config, &parsed); err != nil {
		t.Fatal(err)
	}
	before := pooledEngines()
	err := caddy.Validate(parsed)
	if left := pooledEngines() - before; left > 0 {
		t.Errorf("%d engines are left in the pool", left)
	}
	return err
}

func pooledEngines() (n int) {
	engines.Range(func(any, any) bool { n++; return true })
	return n
}

// wrapped is an oauth block with an option, and a site with a handler.
func wrapped(option, handler string) string {
	return "{\n\tadmin off\n\toauth {\n\t\tissuer http://localhost:1\n" + option + "\n\t}\n}\nhttp://localhost:1 {\n" + handler + "\n}\n"
}

// TestProvisionRefuses runs `caddy validate` over what adapts but cannot be served. Errors name what is wrong.
func TestProvisionRefuses(t *testing.T) {
	emptyHome(t)
	dir := t.TempDir()
	for name, content := range map[string]string{"empty": "", "short": "tooshort", "pem": "-----BEGIN PRIVATE KEY-----\nMC4CAQ=="} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GATEHOUSE_TEST_EMPTY", "")
	t.Setenv("GATEHOUSE_TEST_PEM", "-----BEGIN PRIVATE KEY-----")
	t.Setenv("GATEHOUSE_TEST_HTTP", "http://api.example.com")
	for _, test := range []struct{ name, caddyfile, want string }{
		{"issuer missing", "{\n\tadmin off\n\toauth {\n\t}\n}\n", "oauth: issuer is missing"},
		{"issuer unset", "{\n\toauth {\n\t\tissuer {env.GATEHOUSE_TEST_UNSET}\n\t}\n}\n", "oauth: issuer: "},
		{"issuer not https", "{\n\toauth {\n\t\tissuer {env.GATEHOUSE_TEST_HTTP}\n\t}\n}\n", "must be https"},
		{"audience unset", wrapped("audience {env.GATEHOUSE_TEST_UNSET}", ""), "audience: "},
		{"secret unset", wrapped("client a {env.GATEHOUSE_TEST_UNSET}", ""), `client "a": secret: `},
		{"secret empty", wrapped("client a {env.GATEHOUSE_TEST_EMPTY}", ""), `client "a": secret: `},
		{"secret file missing", wrapped("client a {file."+dir+"/missing}", ""), `client "a": secret: `},
		{"secret file is a directory", wrapped("client a {file."+dir+"}", ""), `client "a": secret: `},
		{"secret file empty", wrapped("client a {file."+dir+"/empty}", ""), `client "a": secret: `},
		{"secret file is PEM", wrapped("client a {file."+dir+"/pem}", ""), "this is a PEM file, not a client secret"},
		{"secret is PEM", wrapped("client a {env.GATEHOUSE_TEST_PEM}", ""), "this is a PEM file, not a client secret"},
		{"secret placeholder unknown", wrapped("client a {nobody.knows}", ""), `client "a": secret: `},
		{"key-encryption key unset", wrapped("keys {\nencrypt_with {env.GATEHOUSE_TEST_UNSET}\n}", ""), "encrypt_with: "},
		{"key-encryption key missing", wrapped("keys {\nencrypt_with {file."+dir+"/missing}\n}", ""), "encrypt_with: "},
		{"key-encryption key short", wrapped("keys {\nencrypt_with {file."+dir+"/short}\n}", ""), "a key-encryption key has 32 bytes"},
		{"key-encryption key empty", wrapped("keys {\nencrypt_with {file."+dir+"/empty}\n}", ""), "encrypt_with: "},
		{"store path unset", wrapped("store sqlite {env.GATEHOUSE_TEST_UNSET}", ""), "store path: "},
		{"scope of a client", wrapped("client a s {\nscopes orders\n}", ""), `client "a": unknown scope "orders": declare it first`},
		{"scope of protect", wrapped("", "protect orders"), `protect: unknown scope "orders": declare it first`},
		{"scope of require", wrapped("", "protect {\nrequire scope orders\n}"), `unknown scope "orders": declare it first`},
		{"scope of any_scope", wrapped("", "protect {\nrequire any_scope public orders\n}"), `unknown scope "orders": declare it first`},
		{"audience of protect unset", wrapped("", "protect {\naudience {env.GATEHOUSE_TEST_UNSET}\n}"), "protect: audience: "},
		{"forward twice", wrapped("", "protect {\nforward X-User sub\nforward x-user client_id\n}"), "forward X-User is there twice"},
		{"forward nothing", wrapped("", "protect {\nforward X-User \"\"\n}"), "forward X-User: the claim is missing"},
		{"protect without issuer", "{\n\tadmin off\n}\nhttp://localhost:1 {\n\tprotect\n}\n", "protect needs an issuer: add an oauth block to the global options"},
		{"oauth_server without issuer", "{\n\tadmin off\n}\nhttp://localhost:1 {\n\toauth_server\n}\n", "oauth_server needs an issuer: add an oauth block to the global options"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := validate(t, test.caddyfile)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "PRIVATE KEY") {
				t.Errorf("the error tells the secret: %v", err)
			}
		})
	}
}

// TestProvisionRefusesJSON: who writes JSON is told the same as who writes a Caddyfile.
func TestProvisionRefusesJSON(t *testing.T) {
	emptyHome(t)
	const good = `"issuer":"https://a.example"`
	app := func(members string) string { return `{"admin":{"disabled":true},"apps":{"oauth":{` + members + `}}}` }
	protect := func(members string) string {
		return `{"admin":{"disabled":true},"apps":{"oauth":{` + good + `},"http":{"servers":{"s":{"listen":[":1"],"routes":[{"handle":[{"handler":"oauth_protect",` + members + `}]}]}}}}}`
	}
	for _, test := range []struct{ config, want string }{
		{app(`"issuer":"http://a.example"`), "must be https"},
		{app(`"issuer":"{http.request.host}"`), "issuer: {http.request.host} comes from the request"},
		{app(good + `,"audience":[""]`), "audience is missing"},
		{app(good + `,"audience":["{http.request.host}"]`), "comes from the request"},
		{app(good + `,"store":{"type":"postgres"}`), `unknown store "postgres": use sqlite or memory`},
		{app(good + `,"store":{"type":"memory","path":"x"}`), "store memory has no path"},
		{app(good + `,"keys":{"algorithm":"HS256"}`), `algorithm "HS256" is not supported`},
		{app(good + `,"keys":{"algorithm":"PS256"}`), `algorithm "PS256" is not supported`},
		{app(good + `,"keys":{"algorithm":"none"}`), `algorithm "none" is not supported`},
		{app(good + `,"keys":{"algorithm":"es256"}`), `algorithm "es256" is not supported`},
		{app(good + `,"tokens":{"password":"36d"}`), "token lifetime 864h0m0s: use 1s to"},
		{app(good + `,"tokens":{"password":-1}`), "token lifetime -1ns: use 1s to"},
		{app(good + `,"scopes":[{"name":"a b"}]`), `scope "a b": use one name`},
		{app(good + `,"scopes":[{"name":"a"},{"name":"a"}]`), `scope "a" is declared twice`},
		{app(good + `,"scopes":[{"name":"trusted","server_tokens":true}]`), `scope "trusted" acts for a user: a server token cannot hold it`},
		{app(good + `,"clients":[{"id":"a"}]`), "a confidential client needs a secret"},
		{app(good + `,"clients":[{"id":"a","secret":"x","secret_sha256":"00"}]`), "set secret or secret_sha256, not both"},
		{app(good + `,"clients":[{"id":"a","secret_sha256":"00"}]`), "secret_sha256: use 64 hex digits"},
		{app(good + `,"clients":[{"id":"a","secret":"x"},{"id":"a","secret":"y"}]`), `client "a" is declared twice`},
		{app(good + `,"clients":[{"id":"a","secret":"x","grants":["implicit"]}]`), `unknown grant "implicit"`},
		{app(good + `,"clients":[{"id":"a","type":"public","secret":"x"}]`), "a public client has no secret"},
		{app(good + `,"revocation":{"max_staleness":"1s"}`), "max_staleness: use at least 2s"},
		{app(good + `,"limits":{"client":{"failures":-1}}`), "limits client: "},
		{app(good + `,"limits":{"client":{"failures":1}}`), "limits client: "},
		{app(good + `,"clint":[]`), `unknown field "clint"`},
		{protect(`"paths":"loose"`), `paths "loose": use strict or lenient`},
		{protect(`"upstream_token":"drop"`), `upstream_token "drop": use relay or strip`},
		{protect(`"forward":[{"header":"X-A","claim":"sub"}],"forward_off":true`), "forward off stands beside other forward lines"},
		{protect(`"forward":[{"header":"Host","claim":"sub"}]`), "forward Host: a claim cannot be written into this header"},
		{protect(`"require":[{}]`), "a rule needs one of scopes, any_scope and claim"},
		{protect(`"require":[{"scopes":["public"],"claim":"org","values":["x"]}]`), "a rule needs one of scopes, any_scope and claim"},
		{protect(`"require":[{"claim":"org"}]`), "require claim org needs a value"},
		{protect(`"require":[{"match":[{"nonsense":{}}],"scopes":["public"]}]`), "unknown module: http.matchers.nonsense"},
		{protect(`"anonymous":[{"path":"/x"}]`), "anonymous: "},
		{protect(`"anonymous":[{}]`), "matches every request"},
		{protect(`"anonymous":[{"path":["/a","/*"]}]`), "matches every request"},
		{protect(`"anonymos":[]`), `unknown field "anonymos"`},
	} {
		t.Run(test.config, func(t *testing.T) {
			if err := validateJSON(t, []byte(test.config)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

// TestProvisionIsOffline validates a configuration that Start would act on: nothing appears in Caddy's directories or at
// the store's path, and the port stays free.
func TestProvisionIsOffline(t *testing.T) {
	emptyHome(t)
	state := filepath.Join(t.TempDir(), "state")
	t.Setenv("GATEHOUSE_TEST_KEK", strings.Repeat("ab", 32))
	addr := freeAddr(t)
	for _, store := range []string{"", "store sqlite " + state + "/oauth.db\n", "store memory\n"} {
		caddyfile := strings.ReplaceAll(wrapped(store+"keys {\nencrypt_with {env.GATEHOUSE_TEST_KEK}\n}\nclient a s",
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

// TestCleanupAcceptsHalfProvisioned: Caddy cleans up what it could not provision.
func TestCleanupAcceptsHalfProvisioned(t *testing.T) {
	if err := new(App).Cleanup(); err != nil {
		t.Error(err)
	}
	app := &App{Issuer: "nonsense"}
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

// listenable tells why an address cannot be listened on.
func listenable(addr string) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return listener.Close()
}
