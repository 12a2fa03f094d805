package configuration

import (
	"testing"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
)

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
			if got := (&Store{Type: node.Postgres, DSN: c.dsn}).tellsPassword(); got != c.told {
				t.Errorf("got %v, want %v", got, c.told)
			}
		})
	}
}
