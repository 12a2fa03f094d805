package caddymodule

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/internal/faultproxy"
	"github.com/gatehouse-auth/gatehouse/internal/machine"
	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
)

// awaitAdmin creates the admin's token once the database is available.
func (o *remoteDoor) awaitAdmin() {
	o.t.Helper()
	o.awaitServing()
	o.admin = o.operatorToken("conf", "u-ada", "trusted public")
}

// wellFormed returns a token that is valid only in form.
func wellFormed(t *testing.T) string {
	t.Helper()
	key, err := keys.NewSigningKey(oauth.ES256, time.Now())
	check(t, err)
	return b64([]byte(`{"alg":"ES256","typ":"at+jwt","kid":"`+key.ID+`"}`)) + "." + b64([]byte(`{}`)) + "." + b64(make([]byte, 64))
}

// TestF27DatabaseDownAtTheStart: the store empty or down at the start → not ready, gates 503, other sites unaffected; serves when it
// comes.
func TestF27DatabaseDownAtTheStart(t *testing.T) {
	for _, c := range []struct {
		name string
		down func(*faultproxy.Proxy)
	}{
		{"it refuses", (*faultproxy.Proxy).Cut},
		{"it is silent", (*faultproxy.Proxy).Blackhole},
		{"it is lost while it is asked for the schema", func(p *faultproxy.Proxy) { p.CutAfterRequest([]byte("goose_db_version")) }},
		{"it is lost while it is asked for revocations", func(p *faultproxy.Proxy) { p.CutAfterRequest([]byte("name = 'revocations'")) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := pgtest.Shared(t)
			o := newRemote(t, server)
			c.down(o.proxy)
			began := time.Now()
			o.userDoor = openUsers(t, "store memory", o.store, "\toauth_server\n", "\toauth_server {\n\t\tready\n\t}\n")
			if took := time.Since(began); machine.Fair(took) > hangs {
				t.Errorf("the start took %s", took)
			}
			if !strings.HasPrefix(c.name, "it is lost") {
				if reasons := o.reasons(); o.ready() || !strings.Contains(reasons, "store: ") || !strings.Contains(reasons, "keys: ") || o.measured()["gatehouse_store_up"] != 0 {
					t.Errorf("ready, or the operator is told: %s", reasons)
				}
				o.turnsAway(wellFormed(t))
				if logs := o.logs(); strings.Contains(logs, `"msg":"serving"`) || !strings.Contains(logs, `"msg":"not serving yet: the database is away"`) {
					t.Error("the log says that it serves, or nothing")
				}
				o.proxy.Restore()
			}
			o.awaitAdmin()
			o.eventually("the log says that it serves", func() bool { return strings.Contains(o.logs(), `"msg":"serving"`) })
			t.Logf("serving %s after the start", time.Since(began))
			o.eventually("the node is ready", func() bool { return o.ready() && o.reasons() == "" })
			o.met(o.needs())
			if !o.alive(o.userTokens(requestOf("conf"), ada).AccessToken) {
				t.Error("the gate refuses a good token")
			}
			if strings.Contains(o.logs(), "panic") {
				t.Error("something panicked")
			}
		})
	}
}

// turnsAway checks that requests that need the issuer get an immediate error with Retry-After, and that others are
// unaffected.
func (o *remoteDoor) turnsAway(token string) {
	o.t.Helper()
	if status, _, _ := o.get("/other", ""); status != http.StatusNotFound {
		o.t.Errorf("what needs no issuer: %d", status)
	}
	if status, _, _ := o.get("/api/x", ""); status != http.StatusUnauthorized {
		o.t.Errorf("the gate without a token: %d", status)
	}
	if status, _, _ := o.get("/pub/x", ""); status != http.StatusOK {
		o.t.Errorf("an anonymous route: %d", status)
	}
	o.upstream.seen()
	r := requestOf("conf")
	defer startTakesLong()() // a request that waits for it does not get an immediate error
	for _, n := range []struct {
		name string
		send func() answer
	}{
		{"token", func() answer { return o.ask(o.t, "/oauth/token", ccGrant+"&"+asConf) }},
		{"authorize", func() answer { return answer(o.browser().open(r.path())) }},
		{"keys", func() answer { return o.send(o.t, http.MethodGet, "/oauth/jwks", "") }},
		{"gate", func() answer { return o.send(o.t, http.MethodGet, "/api/x", "", "Authorization", "Bearer "+token) }},
		{"admin operation", func() answer { return o.mint(token, mintRequest{id: "u-grace"}) }},
		{"admin API", func() answer { return o.operator(http.MethodGet, "/oauth/clients", "") }},
		{"admin API, keys", func() answer { return o.operator(http.MethodGet, "/oauth/keys", "") }},
		{"admin API, minting", func() answer { return o.operator(http.MethodPost, "/oauth/tokens", `{"client":"conf"}`) }},
	} {
		a := n.send()
		if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
			o.t.Errorf("%s: %d, Retry-After %q: %s", n.name, a.status, a.header.Get("Retry-After"), a.body)
		}
	}
	o.upstream.none(o.t)
}

// TestF27ConfigurationThatCannotWork: a store error that waiting cannot fix → the start fails with an error that says
// what to do and never contains the password, and the running configuration goes on.
func TestF27ConfigurationThatCannotWork(t *testing.T) {
	server := pgtest.Shared(t)
	proxy := faultproxy.Start(t, server.Addr())
	proxy.Cut()
	dsn := server.Database(t)
	password := passwordIn(t, dsn)
	g := startPeople(t)
	token := g.issue(issuer.Grant{Type: oauth.ClientCredentials, Scopes: []string{"trusted"}})
	for _, c := range []struct{ name, store, want string }{
		{"wrong password", strings.Replace(dsn, password, "wrong-"+password, 1), "password authentication failed"},
		{"no such database", server.DSN("nowhere"), `database "nowhere" does not exist`},
		{"a schema that others migrate", dsn + " {\nmigrate off\n}", "run `caddy oauth migrate`"},
		{"away, and what runs is not", pgtest.Via(dsn, proxy.Addr()), node.ErrAway.Error()},
	} {
		t.Run(c.name, func(t *testing.T) {
			caddyfile := peopleSite("store memory", "store postgres "+c.store)
			err := g.tryReload(caddyfile)
			isLate := func() bool { // a late answer counts as an outage, and an outage never reveals what is wrong
				return err != nil && strings.Contains(err.Error(), node.ErrAway.Error()) && !strings.Contains(err.Error(), c.want)
			}
			for deadline := time.Now().Add(patience); isLate() && time.Now().Before(deadline); {
				err = g.tryReload(caddyfile)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), password) || strings.Contains(g.logs(), password) {
				t.Errorf("the password is told: %v", err)
			}
			if !g.alive(token) || g.token() == "" {
				t.Error("the configuration that runs is disturbed")
			}
		})
	}
}

// TestMigrateCommandMakesNoDatabase: the command does not create a file that is missing at the configured path, nor
// report it as up to date.
func TestMigrateCommandMakesNoDatabase(t *testing.T) {
	dir := t.TempDir()
	path, file := filepath.Join(dir, "state", "gatehouse.db"), filepath.Join(dir, "Caddyfile")
	check(t, os.WriteFile(file, []byte("{\noauth {\nissuer https://a.example\nstore sqlite "+path+"\n}\n}\n"), 0o600))
	migrate := func() (string, error) {
		return runCommand("", "--config", file, "--adapter", "caddyfile", "migrate")
	}
	if out, err := runCommand("", "--config", file+".json", "migrate"); err == nil {
		t.Errorf("without a configuration: printed %q", out)
	}
	if out, err := migrate(); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("without a database: printed %q, %v", out, err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Fatal("the command has made a database")
	}
	store, err := sqlstore.OpenSQLite(t.Context(), path, sqlstore.Options{})
	if err == nil {
		err = store.Close()
	}
	check(t, err)
	if out, err := migrate(); err != nil || !strings.Contains(out, "up to date: "+path) {
		t.Errorf("printed %q, %v", out, err)
	}
}

// TestMigrateCommand: where nodes leave the schema unchanged, the command brings it up to date, and the nodes start.
func TestMigrateCommand(t *testing.T) {
	dsn := pgtest.Shared(t).Database(t)
	proxy := faultproxy.Start(t, pgtest.Shared(t).Addr())
	proxy.Cut()
	g := startPeople(t)
	site := peopleSite("store memory", "store postgres "+dsn+" {\nmigrate off\n}")
	if err := g.tryReload(site); err == nil {
		t.Fatal("started on an empty schema")
	}
	migrate := func(caddyfile string) (string, error) {
		file := filepath.Join(t.TempDir(), "Caddyfile")
		check(t, os.WriteFile(file, []byte(g.vars.Replace(caddyfile)), 0o600))
		return runCommand("", "--config", file, "--adapter", "caddyfile", "migrate")
	}
	if _, err := migrate(strings.Replace(site, dsn, pgtest.Via(dsn, proxy.Addr()), 1)); err == nil || !strings.Contains(err.Error(), "failed to connect") {
		t.Errorf("with the database away: %v", err)
	}
	for range 2 { // the second has nothing to do
		out, err := migrate(site)
		if err != nil || !strings.Contains(out, "up to date: database ") || strings.Contains(out, passwordIn(t, dsn)) {
			t.Fatalf("printed %q, %v", out, err)
		}
	}
	g.eventually("the configuration is loaded", func() bool { return g.tryReload(site) == nil })
	if got := g.userTokens(requestOf("conf"), ada); !g.alive(got.AccessToken) {
		t.Error("the gate refuses a good token")
	}
}
