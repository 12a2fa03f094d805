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

// withPassword is the user u-ada and its organisation.
func withPassword(hash string) string {
	return "organisation acme\n" + strings.Replace(aUser(""), adaHash, hash, 1)
}

// TestProvisionRefuses runs `caddy validate` over what adapts but cannot be served. Errors name what is wrong.
func TestProvisionRefuses(t *testing.T) {
	emptyHome(t)
	dir := t.TempDir()
	for name, content := range map[string]string{
		"empty": "", "short": "tooshort", "pem": "-----BEGIN PRIVATE KEY-----\nMC4CAQ==", "plain": "correct-horse\n",
		"text.png": "no image", "page.svg": "<html/>", "large.svg": "<svg>" + strings.Repeat(" ", maxLogo) + "</svg>",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GATEHOUSE_TEST_EMPTY", "")
	t.Setenv("GATEHOUSE_TEST_PEM", "-----BEGIN PRIVATE KEY-----")
	t.Setenv("GATEHOUSE_TEST_HTTP", "http://api.example.com")
	directory := filepath.Join(dir, "directory.png")
	if err := os.Mkdir(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GATEHOUSE_TEST_DIR", directory)
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
		{"password unset", wrapped(withPassword("{env.GATEHOUSE_TEST_UNSET}"), ""), `user "u-ada": password: `},
		{"password file missing", wrapped(withPassword("{file."+dir+"/missing}"), ""), `user "u-ada": password: `},
		{"password file empty", wrapped(withPassword("{file."+dir+"/empty}"), ""), `user "u-ada": password: `},
		{"password file is a plain password", wrapped(withPassword("{file."+dir+"/plain}"), ""), `user "u-ada": password: use a password hash as`},
		{"organisation not declared", wrapped(aUser(""), ""), `user "u-ada": organisation "acme" is not declared: add ` + "`organisation acme`"},
		{"logo missing", wrapped("brand {\nlogo "+dir+"/missing.png\n}", ""), "logo: stat "},
		{"logo is a directory", wrapped("brand {\nlogo {env.GATEHOUSE_TEST_DIR}\n}", ""), "this is no regular file"},
		{"logo is no image", wrapped("brand {\nlogo "+dir+"/text.png\n}", ""), "logo: the file is no image/png"},
		{"logo is another document", wrapped("brand {\nlogo "+dir+"/page.svg\n}", ""), "logo: the file is no image/svg+xml"},
		{"logo too large", wrapped("brand {\nlogo "+dir+"/large.svg\n}", ""), "it has more than 65536 bytes"},
		{"logo of another kind", wrapped("brand {\nlogo {env.GATEHOUSE_TEST_HTTP}\n}", ""), "use a file that ends in .svg, .png, .jpg or .webp"},
		{"logo unset", wrapped("brand {\nlogo {env.GATEHOUSE_TEST_UNSET}\n}", ""), "logo: "},
		{"alias taken", wrapped("", "oauth_server {\ntoken_alias /.well-known/oauth-authorization-server\n}"), "the issuer answers there already"},
		{"protect without issuer", "{\n\tadmin off\n}\nhttp://localhost:1 {\n\tprotect\n}\n", "protect needs an oauth block in the global options, with `issuer` or `trust`"},
		{"oauth_server without issuer", "{\n\tadmin off\n}\nhttp://localhost:1 {\n\toauth_server\n}\n", "oauth_server needs an oauth block in the global options, with `issuer` or `trust`"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := validate(t, test.caddyfile)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
			if err != nil && (strings.Contains(err.Error(), "PRIVATE KEY") || strings.Contains(err.Error(), "correct-horse")) {
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
	server := func(members string) string {
		return strings.Replace(protect(members), "oauth_protect", "oauth_server", 1)
	}
	user := func(members string) string {
		return app(good + `,"clients":[{"id":"app","secret":"x"}],"organisations":[{"id":"acme"}],"users":[{"id":"u-ada","email":"ada@acme.example",` + members + `}]`)
	}
	for _, test := range []struct{ config, want string }{
		{app(`"issuer":"http://a.example"`), "must be https"},
		{app(`"issuer":"{http.request.host}"`), "issuer: {http.request.host} comes from the request"},
		{app(good + `,"audience":[""]`), "audience is missing"},
		{app(good + `,"audience":["{http.request.host}"]`), "comes from the request"},
		{app(good + `,"store":{"type":"postgres"}`), `store postgres needs a connection string`},
		{app(good + `,"store":{"type":"postgres","dsn":"postgres://db/x","pool":4}`), "a pool of 4 is too small: use 5 or more"},
		{app(good + `,"store":{"type":"postgres","dsn":"postgres://db/x","path":"x"}`), "store postgres has no path"},
		{app(good + `,"store":{"type":"sqlite","dsn":"postgres://db/x"}`), "store sqlite has no dsn"},
		{app(good + `,"store":{"type":"mysql"}`), `unknown store "mysql": use sqlite, postgres or memory`},
		{app(good + `,"store":{"type":"memory","path":"x"}`), "store memory has no path"},
		{app(good + `,"keys":{"algorithm":"HS256"}`), `algorithm "HS256" is not supported`},
		{app(good + `,"keys":{"algorithm":"PS256"}`), `algorithm "PS256" is not supported`},
		{app(good + `,"keys":{"algorithm":"none"}`), `algorithm "none" is not supported`},
		{app(good + `,"keys":{"algorithm":"es256"}`), `algorithm "es256" is not supported`},
		{app(good + `,"keys":{"rotate":"59m"}`), "keys: rotate 59m0s: use 1h or more, or off"},
		{app(good + `,"keys":{"rotate":-1}`), "keys: rotate -1ns: use 1h or more, or off"},
		{app(good + `,"keys":{"decrypt_with":["{env.A}"]}`), "keys: decrypt_with needs encrypt_with"},
		{app(good + `,"keys":{"encrypt_with":"{env.HOME}","decrypt_with":["abc"]}`), "encrypt_with must not stand in the configuration"},
		{app(good + `,"tokens":{"password":"36d"}`), "token lifetime password 864h0m0s: use 1s to 35d"},
		{app(good + `,"tokens":{"password":-1}`), "token lifetime password -1ns: use 1s to 35d"},
		{app(good + `,"tokens":{"refresh_grace":-1}`), "token lifetime refresh_grace: use 0 to 5m"},
		{app(good + `,"tokens":{"refresh_grace":"6m"}`), "token lifetime refresh_grace 6m0s: use 0 to 5m"},
		{app(good + `,"clients":[{"id":"a","secret":"x","tokens":{"refresh_grace":-1}}]`), `client "a": token lifetime refresh_grace: use 0 to 5m`},
		{app(good + `,"clients":[{"id":"a","secret":"x","tokens":{"code":"11m"}}]`), `client "a": token lifetime code 11m0s: use 1s to 10m`},
		{app(good + `,"password_grant":{"refresh":true}`), `unknown field "refresh"`},
		{app(good + `,"organisations":[{"id":""}]`), `organisation "": organisation id: use 1 to 255 bytes`},
		{app(good + `,"organisations":[{"id":"acme"},{"id":"acme"}]`), `organisation "acme" is declared twice`},
		{user(`"organisation":"other","password_hash":"` + adaHash + `"`), `user "u-ada": organisation "other" is not declared: add ` + "`organisation other`"},
		{user(`"organisation":"acme"`), `user "u-ada": a declared user needs a password`},
		{user(`"organisation":"acme","password_hash":"correct-horse"`), `user "u-ada": password: use a password hash as`},
		{user(`"organisation":"acme","password_hash":"{env.GATEHOUSE_TEST_UNSET}"`), `user "u-ada": password: `},
		{user(`"organisation":"acme","password_hash":"{http.request.header.x}"`), "comes from the request"},
		{user(`"organisation":"acme","password":"correct-horse"`), `unknown field "password"`},
		{app(good + `,"roles":[{"name":"a"},{"name":"a"}]`), `role a is declared twice`},
		{app(good + `,"roles":[{"name":"a","manages":["b"]}]`), `role a manages: unknown role "b": use a`},
		{app(good + `,"roles":[{"name":"a\u200b"}]`), `use 1 to 64 bytes of printable text`},
		{protect(`"require":[{"roles":["boss"]}]`), `unknown role "boss": use admin, group_manager, business_manager or member`},
		{user(`"organisation":"acme","role":"boss","password_hash":"` + adaHash + `"`), `user "u-ada": unknown role "boss"`},
		{user(`"organisation":"acme","password_hash":"` + adaHash + `"},{"id":"u-ada","email":"b@acme.example","organisation":"acme","password_hash":"` + adaHash + `"`), `user "u-ada": it is declared twice`},
		{user(`"organisation":"acme","password_hash":"` + adaHash + `"},{"id":"u-bob","email":"ada@acme.example","organisation":"acme","password_hash":"` + adaHash + `"`), `user "u-bob": user "u-ada" has the same e-mail address`},
		{user(`"organisation":"acme","password_hash":"` + adaHash + `"},{"id":"app","email":"b@acme.example","organisation":"acme","password_hash":"` + adaHash + `"`), `user "app": a client has this id`},
		{app(good + `,"limits":{"login_account":{"failures":-1}}`), "limits login_account: use a number"},
		{app(good + `,"limits":{"login_ip":{"failures":1,"window":"10ms"}}`), "limits login_ip: use a number"},
		{app(good + `,"brand":{"logo":"/nowhere/logo.gif"}`), "logo /nowhere/logo.gif: use a file that ends in"},
		{app(good + `,"brand":{"logo":"/nowhere/logo.png"}`), "logo: stat /nowhere/logo.png: no such file"},
		{app(good + `,"brand":{"logo":"{http.request.uri.path}"}`), "comes from the request"},
		{server(`"token_alias":"token"`), `token_alias "token": use one exact path`},
		{server(`"token_alias":"/oauth/token2"`), "token_alias /oauth/token2: paths below /oauth/ are the issuer's own"},
		{server(`"token_alias":"/.well-known/oauth-authorization-server"`), "token_alias /.well-known/oauth-authorization-server: the issuer answers there already"},
		{server(`"token_alias":"/api/v1/organisations/me/users/1/access_tokens"`), "the issuer answers there already"},
		{app(good + `,"scopes":[{"name":"a b"}]`), `scope "a b": use one name`},
		{app(good + `,"scopes":[{"name":"a"},{"name":"a"}]`), `scope "a" is declared twice`},
		{app(good + `,"scopes":[{"name":"trusted","server_tokens":true}]`), `scope "trusted" acts for a user: a server token cannot hold it`},
		{app(good + `,"clients":[{"id":"a"}]`), "a confidential client needs a secret"},
		{app(good + `,"clients":[{"id":"a","secret":"x","secret_sha256":"00"}]`), "set secret or secret_sha256, not both"},
		{app(good + `,"clients":[{"id":"a","secret_sha256":"00"}]`), "secret_sha256: use 64 hex digits"},
		{app(good + `,"clients":[{"id":"a","secret":"x"},{"id":"a","secret":"y"}]`), `client "a" is declared twice`},
		{app(good + `,"clients":[{"id":"a","secret":"x","grants":["implicit"]}]`), `unknown grant "implicit"`},
		{app(good + `,"revocation":{"max_staleness":"1s"}`), "max_staleness: use at least 2s"},
		{app(good + `,"limits":{"client":{"failures":-1}}`), "limits client: "},
		{app(good + `,"limits":{"client":{"failures":1}}`), "limits client: "},
		{app(good + `,"limits":{"gate":{"failures":0,"window":"3s"}}`), "limits gate: "},
		{app(good + `,"clint":[]`), `unknown field "clint"`},
		{protect(`"paths":"loose"`), `paths "loose": use strict or lenient`},
		{protect(`"upstream_token":"drop"`), `upstream_token "drop": use strip, relay or swap <audience>`},
		{protect(`"forward":[{"header":"X-A","claim":"sub"}],"forward_off":true`), "forward off stands beside other forward lines"},
		{protect(`"forward":[{"header":"Host","claim":"sub"}]`), "forward Host: a claim cannot be written into this header"},
		{protect(`"require":[{}]`), "a rule needs one of scopes, any_scope, roles, groups, claim, expression, acr and max_age"},
		{protect(`"require":[{"scopes":["public"],"claim":"org","values":["x"]}]`), "a rule needs one of scopes, any_scope, roles, groups, claim, expression, acr and max_age"},
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
			} else if strings.Contains(err.Error(), "correct-horse") {
				t.Errorf("the error tells the password: %v", err)
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
