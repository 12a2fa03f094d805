package caddymodule

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
)

// TestF20ConfigurationThatIsLeftEndsNothing: what a configuration does in the background ends with it. It neither ends what
// the one after it declares nor puts its own list in that one's place.
func TestF20ConfigurationThatIsLeftEndsNothing(t *testing.T) {
	g := startPeople(t, "store memory", "store sqlite DIR/left.db")
	old := g.app()
	text := peopleSite("store memory", "store sqlite DIR/left.db")
	g.reload(cutBlock(t, text, "user u-ben {"))
	left := g.app()
	g.reload(text)
	stays := g.userTokens(requestOf("conf"), ada)
	for name, app := range map[string]*App{"first": old, "second": left} {
		if err := app.settle(retryTimeout); err == nil {
			t.Errorf("the %s configuration has settled after its end", name)
		}
		app.beginLater()
		app.settleLater()
	}
	if !g.alive(stays.AccessToken) {
		t.Error("a configuration that was left has ended what the one after it declares")
	}
	if strings.Contains(g.logs(), "the store does not answer") {
		t.Error("a configuration that was left has begun again")
	}
}

// TestI4CollisionFoundLate: a configuration that was loaded while the database was away gives a stored client's id to a user.
// As soon as that shows, nothing is served: tokens of the one would pass for tokens of the other.
func TestI4CollisionFoundLate(t *testing.T) {
	o := openRemote(t, pgtest.Shared(t))
	o.must(http.StatusCreated, http.MethodPost, "/oauth/clients", `{"id":"late","name":"late"}`)
	token := o.userTokens(requestOf("conf"), ada).AccessToken
	good := peopleSite("store memory", o.store)
	o.proxy.Cut()
	o.reload(strings.Replace(good, "user u-max {", "user late {", 1))
	o.proxy.Restore()
	o.eventually("the contradiction shows", func() bool { return strings.Contains(o.logs(), "a client in the store has this id") })
	o.eventually("nothing is served", func() bool { return !o.app().isServing(t.Context()) })
	for name, a := range map[string]answer{
		"token": o.ask(t, "/oauth/token", ccGrant+"&"+asConf),
		"keys":  o.send(t, http.MethodGet, "/oauth/jwks", ""),
		"gate":  o.send(t, http.MethodGet, "/api/x", "", "Authorization", "Bearer "+token),
	} {
		if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	o.reload(good)
	o.awaitServing()
	if !o.alive(token) {
		t.Error("after the configuration was mended a good token is dead")
	}
}

// TestK7PasswordInTheConfiguration: an operator who writes the database's password into the configuration is told that
// others can read it there, and whoever keeps it elsewhere hears nothing.
func TestK7PasswordInTheConfiguration(t *testing.T) {
	for _, c := range []struct {
		name, dsn string
		told      bool
	}{
		{"URL", "postgres://user:hunter2@host/db", true},
		{"several hosts", "postgres://user:hunter2@a:1,b:2/db", true},
		{"setting of a URL", "postgres://user@host/db?sslmode=require&password=hunter2", true},
		{"words", "host=h password=hunter2 user=x", true},
		{"quoted word", "host=h user=x password = 'hunter 2'", true},
		{"password of a key", "host=h user=x sslpassword=hunter2", true},
		{"half of it elsewhere", "postgres://user:{env.HALF}hunter2@host/db", true},
		{"all elsewhere", "{env.GATEHOUSE_DSN}", false},
		{"password elsewhere", "postgres://user:{env.DB_PASSWORD}@host/db", false},
		{"password in a file", "host=h user=x password={file./run/secrets/db} dbname=d", false},
		{"quoted, elsewhere", "host=h password='{env.DB_PASSWORD}'", false},
		{"none", "postgres://user@host:5432/db?passfile=/etc/pgpass", false},
		{"empty", "postgres://user:@host/db", false},
		{"word without one", "host=h user=password", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := (&StoreConfig{Type: storePostgres, DSN: c.dsn}).tellsPassword(); got != c.told {
				t.Errorf("got %v, want %v", got, c.told)
			}
		})
	}
}

// TestK7WarnedOfThePassword: the warning is in the log, without the password, and the configuration is taken.
func TestK7WarnedOfThePassword(t *testing.T) {
	dsn := pgtest.Shared(t).Database(t)
	password := passwordIn(t, dsn)
	const warning = "password of the database stands in the configuration"
	g := startGatehouse(t, strings.Replace(site, "store memory", "store postgres "+dsn, 1))
	if logs := g.logs(); !strings.Contains(logs, warning) || strings.Contains(logs, password) {
		t.Errorf("warned: %v; the password is told: %v", strings.Contains(logs, warning), strings.Contains(logs, password))
	}
	t.Setenv("GATEHOUSE_TEST_DSN", dsn)
	quiet := startGatehouse(t, strings.Replace(site, "store memory", "store postgres {env.GATEHOUSE_TEST_DSN}", 1))
	if strings.Contains(quiet.logs(), warning) {
		t.Error("warned of a password that stands elsewhere")
	}
}

// TestK7MisreadConfiguration: no way in which a connection string can be misread brings a part of the password into the
// error.
func TestK7MisreadConfiguration(t *testing.T) {
	for _, c := range []struct{ name, store string }{
		{"bad port", `"host=h password = S3cret port=x"`},
		{"words that are not quoted", "host=h user=x password=S3cret"},
		{"space", `"host=h password=S3cr et"`},
		{"@", "postgres://user:S3@cret@host/db"},
		{"braces", "postgres://user:S3{cret}@host/db"},
		{"braces with http", "postgres://user:S3{http.cret}@host/db"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "Caddyfile")
			if err := os.WriteFile(file, []byte("{\noauth {\nissuer https://a.example\nstore postgres "+c.store+"\n}\n}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := runCommand("", "--config", file, "--adapter", "caddyfile", "migrate")
			if err == nil || strings.Contains(err.Error(), "S3") || strings.Contains(err.Error(), "cret") {
				t.Errorf("got %v", err)
			}
		})
	}
}
