package caddymodule

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
)

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
			check(t, os.WriteFile(file, []byte("{\noauth {\nissuer https://a.example\nstore postgres "+c.store+"\n}\n}\n"), 0o600))
			_, err := runCommand("", "--config", file, "--adapter", "caddyfile", "migrate")
			if err == nil || strings.Contains(err.Error(), "S3") || strings.Contains(err.Error(), "cret") {
				t.Errorf("got %v", err)
			}
		})
	}
}
