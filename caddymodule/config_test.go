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
	if err := json.Unmarshal(config, &parsed); err != nil {
		t.Fatal(err)
	}
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

// namedRefusal is a refusal with a name, for an option that does not show what is wrong.
type namedRefusal struct{ name, option, want string }

// refusedBlock holds the invalid forms of a block of the configuration.
type refusedBlock struct {
	// adapted are refused by the adapter within `oauth {`, from line 3 on. The issuer follows them.
	adapted []refusal
	// loaded are refused by `caddy validate`. The issuer precedes them. DIR is the directory of refusedFiles.
	loaded []namedRefusal
	// json are members of an app with an issuer that `caddy validate` refuses.
	json []refusal
}

// refusedBlocks are the blocks of the oauth block. Each is in the test file of its block.
var refusedBlocks = map[string]refusedBlock{
	"issuer": refusedIssuer, "store": refusedStore, "keys": refusedKeys, "tokens": refusedTokens, "sessions": refusedSessions, "scope": refusedScope, "client": refusedClient, "openid": refusedOpenID, "profile": refusedProfile,
	"people": refusedPeople, "sign_in": refusedSignIn, "trust": refusedTrust, "limits": refusedLimits, "pages": refusedPages,
}

// refusedFiles returns a directory of files that no setting can be read from, and sets variables of the same kind.
func refusedFiles(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"empty": "", "short": "tooshort", "pem": "-----BEGIN PRIVATE KEY-----\nMC4CAQ==", "plain": "correct-horse\n",
		"text.png": "no image", "page.svg": "<html/>", "large.svg": "<svg>" + strings.Repeat(" ", 64<<10) + "</svg>",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	directory := filepath.Join(dir, "directory.png")
	if err := os.Mkdir(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GATEHOUSE_TEST_EMPTY", "")
	t.Setenv("GATEHOUSE_TEST_PEM", "-----BEGIN PRIVATE KEY-----")
	t.Setenv("GATEHOUSE_TEST_HTTP", "http://api.example.com")
	t.Setenv("GATEHOUSE_TEST_FOLDER", directory)
	return dir
}

// checkRefused checks that an error of `caddy validate` contains the text and no secret.
func checkRefused(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	if err != nil && (strings.Contains(err.Error(), "PRIVATE KEY") || strings.Contains(err.Error(), "correct-horse")) {
		t.Errorf("the error tells the secret: %v", err)
	}
}

// TestProvisionRefuses runs `caddy validate` on configurations that adapt but cannot be served. The errors name what is wrong.
func TestProvisionRefuses(t *testing.T) {
	emptyHome(t)
	dir := refusedFiles(t)
	for block, refused := range refusedBlocks {
		for _, r := range refused.loaded {
			t.Run(block+"/"+r.name, func(t *testing.T) {
				checkRefused(t, validate(t, wrapped(strings.ReplaceAll(r.option, "DIR", dir), "")), r.want)
			})
		}
	}
	for _, test := range []struct{ name, caddyfile, want string }{
		{"issuer missing", "{\n\tadmin off\n\toauth {\n\t}\n}\n", "oauth: issuer is missing"},
		{"issuer unset", "{\n\toauth {\n\t\tissuer {env.GATEHOUSE_TEST_UNSET}\n\t}\n}\n", "oauth: issuer: "},
		{"issuer not https", "{\n\toauth {\n\t\tissuer {env.GATEHOUSE_TEST_HTTP}\n\t}\n}\n", "must be https"},
		{"scope of protect", wrapped("", "protect orders"), `protect: unknown scope "orders": declare it first`},
		{"scope of require", wrapped("", "protect {\nrequire scope orders\n}"), `unknown scope "orders": declare it first`},
		{"scope of any_scope", wrapped("", "protect {\nrequire any_scope public orders\n}"), `unknown scope "orders": declare it first`},
		{"audience of protect unset", wrapped("", "protect {\naudience {env.GATEHOUSE_TEST_UNSET}\n}"), "protect: audience: "},
		{"forward twice", wrapped("", "protect {\nforward X-User sub\nforward x-user client_id\n}"), "forward X-User is there twice"},
		{"forward nothing", wrapped("", "protect {\nforward X-User \"\"\n}"), "forward X-User: the claim is missing"},
		{"alias taken", wrapped("", "oauth_server {\ntoken_alias /.well-known/oauth-authorization-server\n}"), "the issuer answers there already"},
		{"protect without issuer", "{\n\tadmin off\n}\nhttp://localhost:1 {\n\tprotect\n}\n", "protect needs an oauth block in the global options, with `issuer`, `trust` or `sign_in`"},
		{"oauth_server without issuer", "{\n\tadmin off\n}\nhttp://localhost:1 {\n\toauth_server\n}\n", "oauth_server needs an oauth block in the global options, with `issuer`, `trust` or `sign_in`"},
	} {
		t.Run(test.name, func(t *testing.T) { checkRefused(t, validate(t, test.caddyfile), test.want) })
	}
}

// TestProvisionRefusesJSON checks that invalid JSON gets the same errors as an invalid Caddyfile.
func TestProvisionRefusesJSON(t *testing.T) {
	emptyHome(t)
	const good = `"issuer":"https://a.example"`
	app := func(members string) string { return `{"admin":{"disabled":true},"apps":{"oauth":{` + members + `}}}` }
	protect := func(members string) string {
		return `{"admin":{"disabled":true},"apps":{"oauth":{` + good + `},"http":{"servers":{"s":{"listen":[":1"],"routes":[{"handle":[{"handler":"oauth_protect",` + members + `}]}]}}}}}`
	}
	server := func(members string) string {
		return strings.Replace(protect(members), "oauth_protect", "oauth_server", 1)
	}
	for block, refused := range refusedBlocks {
		for _, r := range refused.json {
			t.Run(block+"/"+r.option, func(t *testing.T) {
				checkRefused(t, validateJSON(t, []byte(app(good+","+r.option))), r.want)
			})
		}
	}
	for _, test := range []struct{ config, want string }{
		{app(`"issuer":"http://a.example"`), "must be https"},
		{app(`"issuer":"{http.request.host}"`), "issuer: {http.request.host} comes from the request"},
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
		{protect(`"require":[{}]`), "a rule needs one of scopes, any_scope, users, email_domains, roles, groups, claim, expression, acr and max_age"},
		{protect(`"require":[{"scopes":["public"],"claim":"org","values":["x"]}]`), "a rule needs one of scopes, any_scope, users, email_domains, roles, groups, claim, expression, acr and max_age"},
		{protect(`"require":[{"claim":"org"}]`), "require claim org needs a value"},
		{protect(`"require":[{"match":[{"nonsense":{}}],"scopes":["public"]}]`), "unknown module: http.matchers.nonsense"},
		{protect(`"anonymous":[{"path":"/x"}]`), "anonymous: "},
		{protect(`"anonymous":[{}]`), "matches every request"},
		{protect(`"anonymous":[{"path":["/a","/*"]}]`), "matches every request"},
		{protect(`"anonymos":[]`), `unknown field "anonymos"`},
	} {
		t.Run(test.config, func(t *testing.T) { checkRefused(t, validateJSON(t, []byte(test.config)), test.want) })
	}
}

// readMembers reads an app with an issuer and the given members.
func readMembers(t *testing.T, members string) configuration.Settings {
	t.Helper()
	app := new(App)
	if err := json.Unmarshal([]byte(`{"issuer":"https://a.example"`+members+`}`), app); err != nil {
		t.Fatal(err)
	}
	s, err := app.Read()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestProvisionIsOffline validates a configuration that has effects when it starts: nothing appears in Caddy's directories or at the
// store's path, and the port stays free.
func TestProvisionIsOffline(t *testing.T) {
	emptyHome(t)
	state := filepath.Join(t.TempDir(), "state")
	t.Setenv("GATEHOUSE_TEST_KEK", strings.Repeat("ab", 32))
	addr := freeAddr(t)
	for _, store := range []string{"", "store sqlite " + state + "/oauth.db\n", "store memory\n"} {
		caddyfile := strings.ReplaceAll(wrapped(store+"keys {\nencrypt_with {env.GATEHOUSE_TEST_KEK}\n}\nclient a s\n"+withPassword(adaHash),
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
