package sqlstore

import (
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestK7ConnectionErrorsTellNoPassword: an error of a connection names user, database and host at most.
func TestK7ConnectionErrorsTellNoPassword(t *testing.T) {
	const password = "hunter2hunter2"
	for _, c := range []struct{ name, dsn string }{
		{"nobody listens", "postgres://user:" + password + "@127.0.0.1:1/db"},
		{"no such host", "postgres://user:" + password + "@nowhere.invalid/db"},
		{"no socket", "host=/nowhere user=user password=" + password + " dbname=db"},
		{"no TLS", "postgres://user:" + password + "@127.0.0.1:1/db?sslmode=verify-full"},
	} {
		_, err := OpenPostgres(t.Context(), oauth.NewSecret(c.dsn), 0, Options{})
		if err == nil || !strings.Contains(err.Error(), "failed to connect") || strings.Contains(err.Error(), password) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
