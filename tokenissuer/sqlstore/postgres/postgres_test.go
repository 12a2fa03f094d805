package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

func TestParse(t *testing.T) {
	for _, c := range []struct{ name, dsn, place string }{
		{"URL", "postgres://gatehouse:secret@db.example:5432/gatehouse?sslmode=verify-full", "database gatehouse on db.example:5432"},
		{"encoded password", "postgres://gatehouse:se%40c%2Fr%23e%3Ft@db.example/gatehouse", "database gatehouse on db.example:5432"},
		{"bracket in the password", "postgres://user:se[cret@db.example/gatehouse", "database gatehouse on db.example:5432"},
		{"words", "host=a.example,b.example user=gatehouse dbname=gatehouse", "database gatehouse on a.example:5432, b.example:5432"},
		{"quoted password", "host=a.example user=gatehouse password='a @ b'", "database gatehouse on a.example:5432"},
		{"a setting of the session", "postgres://gatehouse@db.example/x?search_path=oauth&timezone=UTC", "database x on db.example:5432"},
		{"socket", "postgres:///gatehouse?host=/var/run/postgresql", "database gatehouse on /var/run/postgresql:5432"},
	} {
		place, err := Place(oauth.NewSecret(c.dsn))
		if err != nil || place != c.place {
			t.Errorf("%s: %q, %v, want %q", c.name, place, err, c.place)
		}
	}
	if err := Parse(oauth.Secret{}); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("an empty one: %v", err)
	}
}

// TestK7MisreadConnectionString: a connection string that is not parsed as intended is refused before it is used to connect, and the
// error contains no part of the password, wherever the parser put it.
func TestK7MisreadConnectionString(t *testing.T) {
	for _, c := range []struct{ name, dsn, reason string }{
		{"port that is none", "postgres://user:S3cret@host:port/db", "invalid port"},
		{"port out of range", "postgres://user:S3:cret@host:99999999/db", "invalid port"},
		{"@ and a bad port", "postgres://user:S3@cret@host:x/db", ""},
		{"@", "postgres://user:12@S3cret@127.0.0.1:1/db", ""},
		{"/ behind digits", "postgres://user:12/S3cret@127.0.0.1:1/db", ""},
		{"/", "postgres://user:S3cr/et@host/db", ""},
		{"/ at once", "postgres://user:/S3cret@127.0.0.1:1/db", ""},
		{"? behind digits", "postgres://user:54?S3cret@127.0.0.1/db", ""},
		{"? and =", "postgres://user:54?a=S3cret@127.0.0.1/db", ""},
		{"# behind digits", "postgres://user:54#S3cret@127.0.0.1/db", ""},
		{"%", "postgres://user:S3%cret@host/db", ""},
		{"space", "postgres://user:S3cr et@host/db", ""},
		{"one slash", "postgres:/user:S3cret@host/db", ""},
		{"one slash and a setting", "postgres:/user:S3cret@host/db?connect_timeout=x", ""},
		{"no scheme", "user:S3cret@host/db", ""},
		{"bad sslmode", "postgres://user:S3cret@host/db?sslmode=bad", "sslmode is invalid"},
		{"bad timeout", "postgres://host/db?password=S3cret&connect_timeout=x", "invalid connect_timeout"},
		{"spaces around =", "host=h password = S3cret port=x", "invalid port"},
		{"word with a space", "host=h user=x password=S3cr et", ""},
		{"word with a space, before others", "host=h password=S3cr et user=x", ""},
		{"escaped space", `host=h port=x password=S3\ cret`, "invalid port"},
		{"quote in quotes", "host=h password='S3cr'et' user=x", ""},
		{"quote that is not closed", "host=h password='S3cret", "unterminated quoted string"},
		{"database with a space", "host=h dbname='S3 cret'", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, opened := New(oauth.NewSecret(c.dsn), Options{})
			for _, err := range []error{Parse(oauth.NewSecret(c.dsn)), opened} {
				if !errors.Is(err, errMisread) {
					t.Fatalf("got %v", err)
				}
				var library *pgconn.ParseConfigError
				if text := err.Error(); strings.Contains(text, "S3") || strings.Contains(text, "cret") || errors.As(err, &library) {
					t.Errorf("the error tells of the password: %v", err)
				}
				if !strings.Contains(err.Error(), c.reason) {
					t.Errorf("got %v, want the reason %q", err, c.reason)
				}
			}
		})
	}
}

// TestF13IsUnreachable: the server has no free connection, is starting up or gone → it counts as away, and a wrong password does not. The
// SQLSTATE may come from the server or from a proxy.
func TestF13IsUnreachable(t *testing.T) {
	for code, want := range map[string]bool{"": false, "5": false, "57": true, "57P03": true, "53300": true, "25006": true, "28P01": false} {
		if got := IsUnreachable(&pgconn.PgError{Code: code}); got != want {
			t.Errorf("%q: %v", code, got)
		}
	}
	if !IsUnreachable(fmt.Errorf("opening: %w", pgconn.ErrConnClosed)) {
		t.Error("a connection that was closed between two queries is taken for a fault of the configuration")
	}
}
