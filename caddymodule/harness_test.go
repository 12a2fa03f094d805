package caddymodule

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	"github.com/caddyserver/certmagic"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate"
	"github.com/gatehouse-auth/gatehouse/internal/loopback"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// The tests of this package send requests to a whole Caddy on free loopback ports, with a reverse_proxy and an upstream behind it. A process
// has one Caddy, so the tests run one after the other.

// confSecret is the secret of the client conf in every test configuration.
const confSecret = "conf-9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"

// patience is how long a test waits for an event that must come. Only a failing test waits so long. A busy machine may stall for seconds.
const patience = time.Minute

// gatehouse is a running Caddy.
type gatehouse struct {
	t        *testing.T
	url      string // of the one site
	addr     string // its host:port
	tlsAddr  string // its host:port for TLS, or empty
	admin    string // host:port of the admin endpoint
	upstream *upstream
	logFile  string
	vars     *strings.Replacer
}

// startGatehouse loads a Caddyfile and stops Caddy when the test ends. It replaces these words: ADDR is the site's host:port and TCPPORT its
// port, ADMIN and UPSTREAM the host:port of the admin endpoint and the upstream, LOG a log file, DIR a directory of the test, SECRET confSecret.
func startGatehouse(t *testing.T, caddyfile string) *gatehouse {
	t.Helper()
	return startGatehouseAt(t, "", caddyfile)
}

// startGatehouseAt is like startGatehouse and serves the site with TLS at tlsAddr too, unless that is empty.
func startGatehouseAt(t *testing.T, tlsAddr, caddyfile string) *gatehouse {
	t.Helper()
	dir := directory(t)
	g := &gatehouse{
		t: t, addr: freeAddr(t), tlsAddr: tlsAddr, admin: freeAddr(t), upstream: startUpstream(t), logFile: filepath.Join(dir, "caddy.log"),
	}
	g.url = "http://" + g.addr
	_, port, _ := net.SplitHostPort(g.addr)
	g.vars = strings.NewReplacer("ADDR", g.addr, "TCPPORT", port, "ADMIN", g.admin, "UPSTREAM", g.upstream.addr, "LOG", g.logFile,
		"DIR", dir, "SECRET", confSecret)
	t.Setenv("XDG_DATA_HOME", filepath.Join(dir, "data"))
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, "config"))
	autosave := caddy.ConfigAutosavePath
	caddy.ConfigAutosavePath = filepath.Join(dir, "config", "autosave.json")
	// Caddy sets both when the process starts. The storage may hold the keys of an earlier test's provider at the same port.
	storage := caddy.DefaultStorage
	caddy.DefaultStorage = &certmagic.FileStorage{Path: filepath.Join(dir, "caddy")}
	t.Cleanup(func() { caddy.ConfigAutosavePath, caddy.DefaultStorage = autosave, storage })
	if err := g.tryReload(caddyfile); err != nil { // no need to wait for earlier listeners: the addresses are new
		t.Fatalf("loading the configuration: %v", err)
	}
	t.Cleanup(func() {
		if logged, err := os.ReadFile(g.logFile); err == nil && t.Failed() {
			t.Logf("Caddy logged in the end:\n%s", logged[max(0, len(logged)-8<<10):])
		}
		awaitNoStreams()
		if err := caddy.Stop(); err != nil {
			t.Errorf("stopping caddy: %v", err)
		}
	})
	return g
}

// directory creates a directory and removes it when the test ends. Removal is retried, because Caddy's background work may still write for a
// moment after it has stopped.
func directory(t *testing.T) string {
	t.Helper()
	path, err := os.MkdirTemp("", "gatehouse-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := os.RemoveAll(path)
		for deadline := time.Now().Add(patience); err != nil && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			err = os.RemoveAll(path)
		}
		if err != nil {
			t.Errorf("removing the test's directory: %v", err)
		}
	})
	return path
}

// awaitNoStreams waits until streams have ended whose clients have gone. When Caddy stops it writes to the remaining ones, and its own
// writers then race on a counter.
func awaitNoStreams() {
	for deadline := time.Now().Add(patience); gate.OpenStreams() > 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
}

// reload loads another Caddyfile into the running Caddy.
func (g *gatehouse) reload(caddyfile string) {
	g.t.Helper()
	if err := g.tryReload(caddyfile); err != nil {
		g.t.Fatalf("loading the configuration: %v", err)
	}
	g.awaitOneListener()
}

func (g *gatehouse) tryReload(caddyfile string) error {
	config, err := adapt(g.vars.Replace(caddyfile))
	if err == nil && g.tlsAddr != "" {
		config, err = besideTLS(g.addr, g.tlsAddr, config)
	}
	if err != nil {
		return err
	}
	if err := caddy.Load(config, true); err != nil {
		g.awaitOneListener() // of the configuration that goes on
		return err
	}
	return nil
}

// adapt turns a Caddyfile into JSON.
func adapt(caddyfile string) ([]byte, error) {
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), map[string]any{"filename": "Caddyfile"})
	return config, err
}

// freeAddr returns an address without a listener and reserves its port until the test ends, because Caddy would silently share it with the
// Caddy of another process.
func freeAddr(t *testing.T) string {
	t.Helper()
	port, err := loopback.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = port.Close() }) // after Caddy has stopped: cleanups run backwards
	return port.Addr()
}

// logs returns what Caddy has logged so far.
func (g *gatehouse) logs() string {
	g.t.Helper()
	text, err := os.ReadFile(g.logFile)
	if err != nil {
		g.t.Fatal(err)
	}
	return string(text)
}

// eventually waits for a condition.
func (g *gatehouse) eventually(what string, condition func() bool) {
	g.t.Helper()
	eventually(g.t, what, condition)
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// check ends the test when there is an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// awaitServing waits until the store is open. A start does not wait for a database that answers late.
func (g *gatehouse) awaitServing() {
	g.t.Helper()
	g.eventually("the store is there", func() bool { return g.app().node.IsOpen() && g.app().life.isServing(g.t.Context()) })
}

// awaitHousekeeping waits for the end of the first round of housekeeping, which a node begins by itself.
func (g *gatehouse) awaitHousekeeping() {
	g.t.Helper()
	g.eventually("the housekeeper has counted", func() bool { return g.app().node.Status().Rows != nil })
}

// silenceFeed closes the store, so that no further revocations are read.
func (g *gatehouse) silenceFeed() {
	g.t.Helper()
	if err := g.app().node.Store().Close(); err != nil {
		g.t.Fatal(err)
	}
}

// app returns the service of the running configuration, for state that no request shows; nil: there is none.
func (g *gatehouse) app() *service {
	if loaded := g.loaded(); loaded != nil {
		return loaded.service
	}
	return nil
}

// loaded returns the app of the running configuration; nil: there is none.
func (g *gatehouse) loaded() *App {
	app, _ := caddy.ActiveContext().AppIfConfigured("oauth")
	loaded, _ := app.(*App)
	return loaded
}

// storedKey returns the newest signing key as stored, with PKCS #8 in Private.
func (g *gatehouse) storedKey() store.StoredKey {
	g.t.Helper()
	keys, err := g.app().node.Store().SigningKeys(context.Background())
	keys = slices.DeleteFunc(keys, func(k store.StoredKey) bool { return k.Algorithm == "HKDF-SHA256" || k.Algorithm == "manifest" }) // the master key, and what lists the others
	if err != nil || len(keys) == 0 {
		g.t.Fatalf("reading keys: %d, %v", len(keys), err)
	}
	return keys[len(keys)-1]
}

// operator issues tokens to an operator.
func (g *gatehouse) operator() issuer.OperatorTokens {
	return issuer.OperatorTokens{UserTokens: g.app().issuer.UserTokens, Registry: g.app().registry}
}

// issue issues a token through the core, with users, scopes and lifetimes that no grant gives.
func (g *gatehouse) issue(grant issuer.Grant) string {
	g.t.Helper()
	if grant.Client == nil {
		grant.Client = &store.Client{ID: "conf"}
	}
	tokens, err := g.app().issuer.Minter.Issue(grant)
	if err != nil {
		g.t.Fatal(err)
	}
	return tokens.AccessToken.Reveal()
}

// token requests a server token for conf.
func (g *gatehouse) token() string {
	g.t.Helper()
	status, _, body := g.post("/oauth/token", url.Values{
		"grant_type": {"client_credentials"}, "client_id": {"conf"}, "client_secret": {confSecret},
	})
	if status != http.StatusOK {
		g.t.Fatalf("token: %d %s", status, body)
	}
	return member(g.t, body, "access_token")
}

// member returns a string member of a JSON object.
func member(t *testing.T, body, name string) string {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal([]byte(body), &object); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	text, _ := object[name].(string)
	return text
}

// post sends a form.
func (g *gatehouse) post(path string, form url.Values) (int, http.Header, string) {
	g.t.Helper()
	return g.do(http.MethodPost, path, form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
}

// get sends a GET with a bearer token, or without when it is empty.
func (g *gatehouse) get(path, token string) (int, http.Header, string) {
	g.t.Helper()
	if token == "" {
		return g.do(http.MethodGet, path, "")
	}
	return g.do(http.MethodGet, path, "", "Authorization", "Bearer "+token)
}

// do sends a request; headers are name, value, name, value, …
func (g *gatehouse) do(method, path, body string, headers ...string) (int, http.Header, string) {
	g.t.Helper()
	transport := oneShot(new(net.Dialer))
	transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	a := sentBy(g.t, &http.Client{Transport: transport, CheckRedirect: stays, Timeout: patience}, method, g.url+path, body, headers...)
	return a.status, a.header, a.body
}

// raw writes request to a new connection and reads one response. Unless the text has \r\n, each \n becomes \r\n. If the connection is closed
// without a response, the status is 0.
func (g *gatehouse) raw(request string) (int, http.Header, string) {
	g.t.Helper()
	if !strings.Contains(request, "\r\n") {
		request = strings.ReplaceAll(request, "\n", "\r\n")
	}
	connection, err := net.Dial("tcp", g.addr)
	if err != nil {
		g.t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	_ = connection.SetDeadline(time.Now().Add(patience))
	// A server may have refused the request before it has read all of it.
	_, _ = io.WriteString(connection, request)
	var asked *http.Request // nil: what has a body
	if strings.HasPrefix(request, "HEAD ") {
		asked = &http.Request{Method: http.MethodHead}
	}
	response, err := http.ReadResponse(bufio.NewReader(connection), asked)
	if err != nil {
		return 0, nil, ""
	}
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, response.Header, string(body)
}

// site is the configuration that most tests run with.
const site = `{
	admin ADMIN
	log {
		output file LOG
		level DEBUG
	}
	oauth {
		issuer http://ADDR
		store memory
		scope orders.read "Read orders" {
			server_tokens
		}
		client conf SECRET {
			scopes public trusted orders.read
			grants client_credentials authorization_code refresh_token
		}
		client other other-SECRET {
			scopes public
		}
		client pub {
			type public
			scopes public
		}
		client legacy legacy-SECRET {
			grants authorization_code
		}
	}
}

http://ADDR {
	log
	oauth_server
	handle /api/* {
		protect trusted
		reverse_proxy UPSTREAM
	}
	handle /any/* {
		protect
		reverse_proxy UPSTREAM
	}
	handle /mixed/* {
		protect {
			anonymous /mixed/pub/*
			require /mixed/orders/* scope orders.read
			require /mixed/either/* any_scope trusted orders.read
			require /mixed/acme/* claim org acme
		}
		reverse_proxy UPSTREAM
	}
	handle /optional/* {
		protect {
			optional
		}
		reverse_proxy UPSTREAM
	}
	handle {
		respond 404
	}
}
`

// TestTheWholeWalk requests a token, calls a guarded route without and with it, and checks the identity that the upstream gets.
func TestTheWholeWalk(t *testing.T) {
	g := startGatehouse(t, site)
	if status, _, body := g.get("/any/x", ""); status != http.StatusUnauthorized {
		t.Fatalf("without a token: %d %s", status, body)
	}
	g.upstream.none(t)
	status, _, body := g.get("/any/x", g.token())
	if status != http.StatusOK || body != "ok" {
		t.Fatalf("with a token: %d %s", status, body)
	}
	seen := g.upstream.one(t)
	for name, want := range map[string]string{"X-Auth-Subject": "conf", "X-Auth-Client": "conf", "X-Auth-Scope": "public"} {
		if got := seen.Header[name]; len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for _, absent := range []string{"X-Auth-Organisation", "X-Auth-Role"} {
		if got := seen.Header[absent]; got != nil {
			t.Errorf("%s: %q, want none", absent, got)
		}
	}
}
