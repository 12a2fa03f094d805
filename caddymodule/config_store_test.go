package caddymodule

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
)

// refusedStore holds the invalid forms of `store`.
var refusedStore = refusedBlock{
	adapted: []refusal{
		{`store`, `wrong argument count or unexpected line ending after 'store', at Caddyfile:3`},
		{`store postgres`, `store postgres needs a connection string, as in postgres://user@host/database, at Caddyfile:3`},
		{`store postgres ""`, `the connection string is empty; is a variable unset?, at Caddyfile:3`},
		{`store postgres postgres://db/x {
			pool 4
		}`, `pool "4": use a number of connections, 5 or more, at Caddyfile:4`},
		{`store postgres postgres://db/x {
			migrate on
		}`, `migrate "on": use off, or leave it out, at Caddyfile:4`},
		{`store sqlite {
			pool 20
		}`, `store sqlite has no option "pool", at Caddyfile:4`},
		{`store sqlite a b`, `wrong argument count or unexpected line ending after 'b', at Caddyfile:3`},
		{`store memory a`, `wrong argument count or unexpected line ending after 'a', at Caddyfile:3`},
		{`store sqlite ""`, `the store's path is empty; is a variable unset?, at Caddyfile:3`},
		{`store sqlite {http.request.uri.path}`, `{http.request.uri.path} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:3`},
		{`store file`, `unknown store "file": use sqlite, postgres or memory, at Caddyfile:3`},
		{"store memory\nstore memory", `store is set twice, at Caddyfile:4`},
	},
	loaded: []namedRefusal{
		{"store path unset", "store sqlite {env.GATEHOUSE_TEST_UNSET}", "store path: "},
	},
	json: []refusal{
		{`"store":{"type":"postgres"}`, `store postgres needs a connection string`},
		{`"store":{"type":"postgres","dsn":"postgres://db/x","pool":4}`, "a pool of 4 is too small: use 5 or more"},
		{`"store":{"type":"postgres","dsn":"postgres://db/x","path":"x"}`, "store postgres has no path"},
		{`"store":{"type":"sqlite","dsn":"postgres://db/x"}`, "store sqlite has no dsn"},
		{`"store":{"type":"mysql"}`, `unknown store "mysql": use sqlite, postgres or memory`},
		{`"store":{"type":"memory","path":"x"}`, "store memory has no path"},
	},
}

// TestK7WarnedOfThePassword checks that a warning without the password is logged and that the configuration is accepted.
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

// TestK7MisreadConfiguration checks that no misreading of a connection string puts a part of the password into the error.
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
