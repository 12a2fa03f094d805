package caddymodule

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// stop stops Caddy; reload starts it again.
func (g *gatehouse) stop() {
	g.t.Helper()
	if err := caddy.Stop(); err != nil {
		g.t.Fatalf("stopping caddy: %v", err)
	}
	g.eventually("the store is closed", func() bool {
		_, err := os.Stat(g.database() + "-wal")
		return os.IsNotExist(err)
	})
}

// database returns the path of durableSite's database.
func (g *gatehouse) database() string { return g.vars.Replace("DIR/state/oauth.db") }

// kids lists the published keys.
func (g *gatehouse) kids() string {
	g.t.Helper()
	_, _, body := g.get("/oauth/jwks", "")
	var set struct {
		Keys []struct{ Kid string } `json:"keys"`
	}
	if err := json.Unmarshal([]byte(body), &set); err != nil || len(set.Keys) == 0 {
		g.t.Fatalf("%v in %s", err, body)
	}
	return fmt.Sprint(set.Keys)
}

// withKEK returns durableSite with a key-encryption key from DIR/name.
func withKEK(name string) string {
	return strings.Replace(durableSite, "issuer http", "keys {\n\t\t\tencrypt_with {file.DIR/"+name+"}\n\t\t}\n\t\tissuer http", 1)
}

func (g *gatehouse) writeKEK(name, key string) {
	g.t.Helper()
	check(g.t, os.WriteFile(g.vars.Replace("DIR/"+name), []byte(key+"\n"), 0o600))
}

// TestRestartKeepsEverything restarts Caddy and compares keys, clients, secrets, marks and revocations.
func TestRestartKeepsEverything(t *testing.T) {
	g := startGatehouse(t, durableSite)
	add := func(id string) string {
		return member(t, g.must(201, "POST", "/oauth/clients", `{"id":"`+id+`","name":"`+id+`"}`), "client_secret")
	}
	secret, disabled, removed := add("acme"), add("disabled"), add("removed")
	second := member(t, g.must(200, "POST", "/oauth/clients/acme/rotate-secret", `{"overlap":"1h"}`), "client_secret")
	token, revoked := g.token(), g.token()
	g.must(204, "POST", "/oauth/revocations", `{"jti":"`+decodedID(t, g, revoked)+`"}`)
	g.must(204, "POST", "/oauth/clients/disabled/disable", `{}`)
	g.must(204, "DELETE", "/oauth/clients/removed", ``)
	kids, clients := g.kids(), g.must(200, "GET", "/oauth/clients", ``)

	g.stop()
	g.reload(durableSite)
	if got := g.kids(); got != kids {
		t.Errorf("the keys are %s, were %s", got, kids)
	}
	if got := g.must(200, "GET", "/oauth/clients", ``); got != clients {
		t.Errorf("the clients are\n%s, were\n%s", got, clients)
	}
	if got := g.gate(token); got != 200 {
		t.Errorf("an old token: %d", got)
	}
	if got := g.gate(revoked); got != 401 {
		t.Errorf("a token that was revoked: %d", got)
	}
	for _, c := range []struct {
		id, secret string
		want       int
	}{{"acme", secret, 200}, {"acme", second, 200}, {"disabled", disabled, 401}, {"removed", removed, 401}} {
		if got, _ := g.tokenFor(c.id, c.secret); got != c.want {
			t.Errorf("client %s: %d, want %d", c.id, got, c.want)
		}
	}
	g.must(409, "POST", "/oauth/clients", `{"id":"removed","name":"again"}`)
}

// TestF18Reloads: 30 reloads → nothing is lost, and no goroutine, file or node is left behind. Every fifth reload
// changes the settings that identify a node, so a new node takes over the file of the old one.
func TestF18Reloads(t *testing.T) {
	g := startGatehouse(t, durableSite)
	secret := member(t, g.must(201, "POST", "/oauth/clients", `{"id":"acme","name":"Acme"}`), "client_secret")
	token, revoked := g.token(), g.token()
	g.must(204, "POST", "/oauth/revocations", `{"jti":"`+decodedID(t, g, revoked)+`"}`)
	kids := g.kids()
	check := func() {
		t.Helper()
		if got := g.kids(); got != kids {
			t.Fatalf("the keys are %s, were %s", got, kids)
		}
		if a, b := g.gate(token), g.gate(revoked); a != 200 || b != 401 {
			t.Fatalf("the gate answers %d to a good and %d to a revoked token", a, b)
		}
		if got, fresh := g.tokenFor("acme", secret); got != 200 || g.gate(fresh) != 200 {
			t.Fatalf("the client gets %d", got)
		}
	}
	other := strings.Replace(durableSite, "issuer http", "revocation {\n\t\t\tmax_staleness 3m\n\t\t}\n\t\tissuer http", 1)
	for range 3 { // Caddy creates some things only once
		g.reload(other)
		g.reload(durableSite)
	}
	check()
	former := g.app().node
	goroutines, files := g.settled()
	for i := range 30 {
		if i%5 == 4 {
			g.reload(other)
			check()
		}
		g.reload(durableSite)
		if i == 3 && g.app().node != former {
			t.Error("the same settings got another node")
		}
	}
	check()
	g.eventually("goroutines and files are as before", func() bool {
		// A leak per reload shows 30 times and a leak per node six times. A few goroutines come and go by themselves.
		return runtime.NumGoroutine() <= goroutines+4 && openFiles(t) <= files+4
	})
	if pooled := node.InUse(); pooled != 1 {
		t.Errorf("%d nodes are in the pool", pooled)
	}
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	if !admin.IsNewest(nil) {
		t.Error("operators still reach a configuration that was stopped")
	}
}

// settled returns the numbers of goroutines and open files once they no longer change.
func (g *gatehouse) settled() (goroutines, files int) {
	still := 0
	g.eventually("goroutines and files stand still", func() bool {
		n, f := runtime.NumGoroutine(), openFiles(g.t)
		if n != goroutines || f != files {
			goroutines, files, still = n, f, 0
		}
		still++
		return still > 50
	})
	return goroutines, files
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatalf("counting open files: %v", err)
	}
	return len(entries)
}

// TestF19InvalidReloads: invalid reloads of five kinds → the old configuration serves, and no node is left behind.
func TestF19InvalidReloads(t *testing.T) {
	g := startGatehouse(t, durableSite)
	token := g.token()
	broken := []string{
		strings.Replace(durableSite, "issuer http://ADDR", "issuer http://ADDR/", 1),                           // does not adapt
		strings.Replace(durableSite, "protect trusted", "protect nothing", 1),                                  // does not provision
		strings.Replace(durableSite, "state/oauth.db", "caddy.log/oauth.db", 1),                                // does not start
		strings.Replace(durableSite, "client conf SECRET", "client conf {env.GATEHOUSE_TEST_UNSET}", 1),        // lacks a secret
		strings.Replace(durableSite, "issuer http", "keys {\nencrypt_with {file.DIR/none}\n}\nissuer http", 1), // lacks a key
	}
	for i := range 2 * len(broken) {
		if err := g.tryReload(broken[i%len(broken)]); err == nil {
			t.Fatalf("broken configuration %d was loaded", i%len(broken))
		}
		g.awaitOneListener()
		if a, b := g.gate(token), g.gate(g.token()); a != 200 || b != 200 {
			t.Fatalf("after broken configuration %d the gate answers %d and %d", i%len(broken), a, b)
		}
		g.must(200, "GET", "/oauth/clients/conf", ``)
	}
	if pooled := node.InUse(); pooled != 1 {
		t.Errorf("%d nodes are in the pool", pooled)
	}
}

// TestF20Switching: a reload with another store, algorithm or issuer → tokens pass whose issuer and key are still known, others are
// refused.
func TestF20Switching(t *testing.T) {
	clock := setClock(t)
	g := startGatehouse(t, durableSite)
	first := g.token()
	g.reload(site) // another store has other keys
	if got := g.gate(first); got != 401 {
		t.Errorf("a token of another store: %d", got)
	}
	inMemory := g.token()
	g.reload(durableSite)
	if a, b := g.gate(first), g.gate(inMemory); a != 200 || b != 401 {
		t.Errorf("back again: %d and %d", a, b)
	}
	g.reload(strings.Replace(durableSite, "issuer http", "keys {\n\t\t\talgorithm RS256\n\t\t}\n\t\tissuer http", 1))
	clock.advance(keys.Lead) // until then the new key is only published
	check(t, g.app().node.Refresh(t.Context()))
	second := g.token()
	if a, b := g.gate(first), g.gate(second); a != 200 || b != 200 {
		t.Errorf("another algorithm: %d and %d", a, b)
	}
	if !strings.HasPrefix(second, b64([]byte(`{"alg":"RS256"`))[:18]) {
		t.Errorf("the new token is %s", second)
	}
	g.reload(durableSite)
	if a, b := g.gate(first), g.gate(second); a != 200 || b != 200 {
		t.Errorf("the first algorithm again: %d and %d", a, b)
	}
	g.reload(strings.Replace(durableSite, "issuer http://ADDR", "issuer http://localhost:1", 1))
	third := g.token()
	if a, b, c := g.gate(first), g.gate(second), g.gate(third); a != 401 || b != 401 || c != 200 {
		t.Errorf("another issuer: %d, %d and %d", a, b, c)
	}
}

// TestF27BeforeStart: a request to a provisioned configuration that has not started → 503 if it needs the issuer; the balancer is told at once
// that it is not ready.
func TestF27BeforeStart(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	ask := provisioned(t, "127.0.0.1:1", strings.NewReplacer("ADDR", "127.0.0.1:1", "ADMIN", "off", "SECRET", confSecret,
		"UPSTREAM", "127.0.0.1:2", "output file LOG", "output discard", "DIR", t.TempDir()).Replace(readySite))
	var asked sync.WaitGroup // concurrently: each waits for a start that never happens
	for name, test := range map[string]struct {
		method, path, body string
		headers            map[string]string
	}{
		"token":    {"POST", "/oauth/token", "grant_type=client_credentials&client_id=conf&client_secret=" + confSecret, form},
		"jwks":     {"GET", "/oauth/jwks", "", nil},
		"metadata": {"GET", "/.well-known/oauth-authorization-server", "", nil},
		"revoke":   {"POST", "/oauth/revoke", "token=x", form},
		"gate":     {"GET", "/any/x", "", map[string]string{"Authorization": "Bearer " + wellFormed(t)}},
	} {
		asked.Go(func() {
			if got := ask(test.method, test.path, test.body, test.headers); got.Code != 503 || got.Header().Get("Retry-After") == "" {
				t.Errorf("%s: %d %v %s, want 503 with Retry-After", name, got.Code, got.Header(), got.Body)
			}
		})
	}
	asked.Wait()
	defer startTakesLong()()
	if got := ask("GET", "/oauth/ready", "", nil); got.Code != 503 || got.Body.String() != `{"ready":false}` || got.Header().Get("Retry-After") == "" {
		t.Errorf("readiness: %d %v %s", got.Code, got.Header(), got.Body)
	}
	if got := ask("GET", "/any/x", "", nil); got.Code != 401 {
		t.Errorf("the gate without a token: %d", got.Code)
	}
	if got := ask("GET", "/other", "", nil); got.Code != 404 {
		t.Errorf("what needs no issuer: %d", got.Code)
	}
}

// TestF27ReloadBeforeStart: a request reaches a new configuration whose issuer has not started → served with the node of the old one.
func TestF27ReloadBeforeStart(t *testing.T) {
	g := startGatehouse(t, durableSite)
	token := g.token()
	ask := provisioned(t, g.addr, g.vars.Replace(durableSite))
	if got := ask("POST", "/oauth/token", "grant_type=client_credentials&client_id=conf&client_secret="+confSecret, form); got.Code != 200 {
		t.Errorf("token: %d %s", got.Code, got.Body)
	}
	if got := ask("GET", "/optional/x", "", map[string]string{"Authorization": "Bearer " + token}); got.Code != 200 {
		t.Errorf("gate: %d %s", got.Code, got.Body)
	}
}

var form = map[string]string{"Content-Type": "application/x-www-form-urlencoded"}

// provisioned returns a function that sends requests to the one site of a configuration that is provisioned and never
// started.
func provisioned(t *testing.T, addr, caddyfile string) func(method, path, body string, headers map[string]string) *httptest.ResponseRecorder {
	t.Helper()
	config, err := adapt(caddyfile)
	check(t, err)
	var parsed *caddy.Config
	check(t, json.Unmarshal(config, &parsed))
	ctx, err := caddy.ProvisionContext(parsed)
	check(t, err)
	app, err := ctx.App("oauth")
	check(t, err)
	t.Cleanup(func() { _ = app.(*App).Cleanup() })
	httpApp, err := ctx.App("http")
	check(t, err)
	var server *caddyhttp.Server
	for _, server = range httpApp.(*caddyhttp.App).Servers {
	}
	return func(method, path, body string, headers map[string]string) *httptest.ResponseRecorder {
		request := httptest.NewRequest(method, "http://"+addr+path, strings.NewReader(body))
		for name, value := range headers {
			request.Header.Set(name, value)
		}
		response := httptest.NewRecorder()
		server.ServeHTTP(response, request)
		return response
	}
}

func sum(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	check(t, err)
	return fmt.Sprintf("%x", sha256.Sum256(content))
}

// TestK5Modes: a store in a configured or the default place → its directory has mode 0700 and its files 0600.
func TestK5Modes(t *testing.T) {
	g := startGatehouse(t, durableSite)
	g.must(201, "POST", "/oauth/clients", `{"name":"Acme"}`)
	g.checkModes(filepath.Dir(g.database()), 3)
	// The default place as well.
	g.reload(strings.Replace(site, "store memory", "store sqlite", 1))
	g.must(201, "POST", "/oauth/clients", `{"name":"Acme"}`)
	g.checkModes(filepath.Join(caddy.AppDataDir(), "oauth"), 3)
}

// checkModes checks that a directory with at least atLeast files has mode 0700 and its files have 0600.
func (g *gatehouse) checkModes(directory string, atLeast int) {
	g.t.Helper()
	files := 0
	err := filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // renamed by its writer meanwhile
		}
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if entry.IsDir() {
			want = 0o700
		} else {
			files++
		}
		if got := info.Mode().Perm(); got != want {
			g.t.Errorf("%s has mode %o, want %o", path, got, want)
		}
		return nil
	})
	if err != nil || files < atLeast {
		g.t.Errorf("%d files in %s, %v", files, directory, err)
	}
}

// TestK6KeyEncryptionKey: a start with a wrong key-encryption key or without one → refused, and the file is not changed; the new one before
// the old → stored keys are encrypted anew, and the old one can go.
func TestK6KeyEncryptionKey(t *testing.T) {
	g := startGatehouse(t, "{\n\tadmin ADMIN\n}\n")
	g.writeKEK("old", strings.Repeat("a1", 32))
	g.writeKEK("new", strings.Repeat("b2", 32))
	g.reload(withKEK("old"))
	token, kids, first := g.token(), g.kids(), g.storedKey()
	if first.SealedWith == "" {
		t.Error("the key is not sealed")
	}
	for _, caddyfile := range []string{strings.Replace(withKEK("new"), "{file.DIR/new}", "{file.DIR/new} {file.DIR/old}", 1), withKEK("new")} {
		g.reload(caddyfile)
		after := g.storedKey()
		if after.ID != first.ID || after.SealedWith == first.SealedWith || g.keyViews()[after.ID].SealedWith != after.SealedWith {
			t.Fatalf("sealed with %s, was %s, shown is %+v", after.SealedWith, first.SealedWith, g.keyViews())
		}
	}
	sealed := "sealed under key-encryption key " + g.storedKey().SealedWith
	g.stop()
	before := sum(t, g.database())
	for caddyfile, want := range map[string]string{withKEK("old"): ", and the configured one is ", durableSite: ", and none is configured: set encrypt_with"} {
		if err := g.tryReload(caddyfile); err == nil || !strings.Contains(err.Error(), sealed+want) {
			t.Errorf("got %v, want %s", err, want)
		}
		if sum(t, g.database()) != before {
			t.Error("the file was changed")
		}
	}
	g.reload(withKEK("new"))
	if got := g.kids(); got != kids || g.gate(token) != 200 {
		t.Errorf("with the right key: %s, were %s", got, kids)
	}
}

// privateScalar returns the private scalar of an ES256 key.
func privateScalar(t *testing.T, pkcs8 []byte) []byte {
	t.Helper()
	key, err := x509.ParsePKCS8PrivateKey(pkcs8)
	check(t, err)
	scalar, err := key.(*ecdsa.PrivateKey).Bytes()
	check(t, err)
	return scalar
}

// TestK7NoSecretOutside: JWKS, logs, configuration, autosave, metrics, profiles → no private key or secret.
func TestK7NoSecretOutside(t *testing.T) {
	t.Setenv("GATEHOUSE_TEST_CREDENTIAL", "from-the-environment-0123456789")
	g := startGatehouse(t, "{\n\tadmin ADMIN\n}\n")
	kek := strings.Repeat("a1", 32)
	g.writeKEK("kek", kek)
	g.reload(strings.Replace(withKEK("kek"), "client pub", "client env {env.GATEHOUSE_TEST_CREDENTIAL}\n\t\tclient pub", 1))
	added := member(t, g.must(201, "POST", "/oauth/clients", `{"id":"acme","name":"Acme"}`), "client_secret")
	second := member(t, g.must(200, "POST", "/oauth/clients/acme/rotate-secret", `{"overlap":"1h"}`), "client_secret")
	minted := member(t, g.must(201, "POST", "/oauth/tokens", `{"client":"acme"}`), "access_token")
	if added == "" || second == "" || minted == "" {
		t.Fatal("a secret is missing")
	}
	for id, secret := range map[string]string{"conf": confSecret, "other": "other-" + confSecret, "env": "from-the-environment-0123456789", "acme": added} {
		if status, token := g.tokenFor(id, secret); status != 200 || g.gate(token) != 200 {
			t.Fatalf("client %s: %d", id, status)
		}
	}
	g.tokenFor("conf", "legacy-"+confSecret) // failures are logged too
	rotated := g.ok("keys", "rotate", "--now", "--json")
	g.token()
	keys := g.app().node.Keys.List()
	g.ok("keys", "revoke", g.storedKey().ID)
	g.token()
	keys = append(keys, g.app().node.Keys.List()...)

	_, _, jwks := g.get("/oauth/jwks", "")
	_, _, config := g.operate("GET", "/config/", ``)
	autosaved, err := os.ReadFile(caddy.ConfigAutosavePath)
	check(t, err)
	places := map[string]string{"answers": g.must(200, "GET", "/oauth/clients", ``) + g.must(200, "GET", "/oauth/clients/acme", ``), "jwks": jwks, "/config/": config, "autosave.json": string(autosaved), "logs": g.logs(),
		"metrics": g.scrape(), "keys": g.ok("keys", "list") + g.must(200, "GET", "/oauth/keys", ``) + rotated}
	for place, want := range map[string]string{"answers": "acme", "jwks": `"kid"`, "/config/": `"secret_sha256"`, "autosave.json": `"secret_sha256"`, "logs": "oauth.audit",
		"metrics": "gatehouse_", "keys": "superseded"} {
		if !strings.Contains(places[place], want) {
			t.Errorf("%s lacks %s, so this test looks in the wrong place:\n%s", place, want, places[place])
		}
	}
	for _, member := range []string{`"d"`, `"p"`, `"q"`, `"dp"`, `"dq"`, `"qi"`, `"k"`, `"oct"`} {
		if strings.Contains(jwks, member) {
			t.Errorf("the JWKS holds %s", member)
		}
	}
	secrets := []string{added, second, minted, kek, "PRIVATE KEY"}
	for _, secret := range []string{confSecret, "from-the-environment-0123456789", added, second} {
		digest := oauth.NewSecret(secret).Digest()
		for _, form := range []string{fmt.Sprintf("%x", digest), fmt.Sprintf("%X", digest), b64(digest[:])} {
			if at := places["answers"] + places["logs"]; strings.Contains(at, form) || strings.Contains(at, secret) {
				t.Errorf("%s is shown", form)
			}
		}
		secrets = append(secrets, secret)
	}
	for _, key := range keys {
		clear, err := key.Stored(nil)
		check(t, err)
		scalar := privateScalar(t, clear.Private)
		secrets = append(secrets, hex.EncodeToString(scalar), new(big.Int).SetBytes(scalar).String(),
			base64.StdEncoding.EncodeToString(scalar)[:40], base64.RawURLEncoding.EncodeToString(scalar), string(scalar),
			base64.StdEncoding.EncodeToString(clear.Private)[:60])
	}
	for place, content := range places {
		for i, secret := range secrets {
			if strings.Contains(content, secret) {
				t.Errorf("%s holds secret %d", place, i)
			}
		}
	}
}
