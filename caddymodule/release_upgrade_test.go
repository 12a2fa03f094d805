package caddymodule

import (
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
)

// upgradedSite is the configuration under which the stores in testdata/release-0.1.0 were written. Their keys are bound to its issuer. Keys do
// not rotate, because those of the stores are old.
const upgradedSite = `{
	admin ADMIN
	log {
		output file LOG
	}
	oauth {
		issuer http://localhost:48080
		openid
		store STORE
		keys {
			rotate off
			encrypt_with {file.DIR/kek}
		}
		password_grant {
			refresh_tokens
		}
		personal_tokens {
			scopes public
		}
	}
}

http://ADDR {
	oauth_server
	handle /api/* {
		protect
		respond "Hello {http.auth.user.id}"
	}
	handle {
		respond 404
	}
}
`

// releaseFile returns a file that belongs to the stores of release 0.1.0.
func releaseFile(t *testing.T, name string) string {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata/release-0.1.0", name))
	check(t, err)
	defer func() { _ = file.Close() }()
	var from io.Reader = file
	if strings.HasSuffix(name, ".gz") {
		from, err = gzip.NewReader(file)
		check(t, err)
	}
	content, err := io.ReadAll(from)
	check(t, err)
	return string(content)
}

// TestW81StoresOfRelease010: this build starts on a store that 0.1.0 has written, on SQLite and on PostgreSQL → the same keys sign; clients,
// people, personal tokens and refresh tokens go on, what was revoked stays revoked, and people are found; after a restart too.
func TestW81StoresOfRelease010(t *testing.T) {
	// The tokens of then may have expired meanwhile.
	unexpired := fmt.Sprintf("UPDATE families SET rotated_at = %d, expires_at = %d; UPDATE personal_tokens SET expires_at = %[2]d",
		time.Now().Add(-time.Hour).UnixMicro(), time.Now().Add(time.Hour).UnixMicro())
	for kind, open := range map[string]func(*testing.T, *gatehouse) (store string){
		"sqlite": func(t *testing.T, g *gatehouse) string {
			check(t, os.MkdirAll(filepath.Dir(g.database()), 0o700))
			check(t, os.WriteFile(g.database(), []byte(releaseFile(t, "sqlite.db.gz")), 0o600))
			g.behind(unexpired)
			return "sqlite " + g.database()
		},
		"postgres": func(t *testing.T, _ *gatehouse) string {
			dsn := pgtest.Shared(t).Database(t)
			db, err := pgconn.Connect(t.Context(), dsn)
			check(t, err)
			defer func() { _ = db.Close(t.Context()) }()
			_, err = db.Exec(t.Context(), releaseFile(t, "postgres.sql")+"SET search_path = public;"+unexpired).ReadAll()
			check(t, err)
			return "postgres " + dsn
		},
	} {
		t.Run(kind, func(t *testing.T) {
			g := startGatehouse(t, "{\n\tadmin ADMIN\n}\n")
			g.writeKEK("kek", base64.StdEncoding.EncodeToString([]byte("the key of the fixture, 32 bytes")))
			var had struct {
				ClientSecret string `json:"client_secret"`
				Personal     string `json:"personal_token"`
				Refresh      string `json:"refresh_token"`
				Revoked      string `json:"revoked_refresh_token"`
				Access       string `json:"access_token"`
			}
			check(t, json.Unmarshal([]byte(releaseFile(t, kind+".json")), &had))
			site := strings.Replace(upgradedSite, "STORE", open(t, g), 1)
			asks := func(form ...string) (int, string) {
				values := url.Values{"client_id": {"app"}, "client_secret": {had.ClientSecret}}
				for i := 0; i < len(form); i += 2 {
					values.Set(form[i], form[i+1])
				}
				status, _, body := g.post("/oauth/token", values)
				return status, body
			}
			for _, start := range []string{"the first start", "the second start"} {
				g.reload(site)
				g.awaitServing()
				if kids := g.kids(); !strings.Contains(kids, kidOf(t, had.Access)) {
					t.Errorf("%s: the keys are %s, without %s", start, kids, kidOf(t, had.Access))
				}
				status, body := asks("grant_type", "client_credentials")
				if status != http.StatusOK || kidOf(t, member(t, body, "access_token")) != kidOf(t, had.Access) {
					t.Errorf("%s: a token for the client: %d %s", start, status, body)
				}
				for user, password := range map[string]string{"ada": "a password of 0.1.0", "ben": "another password of 0.1.0"} {
					status, body := asks("grant_type", "password", "username", user+"@example.com", "password", password)
					if status != http.StatusOK {
						t.Fatalf("%s: %s signs in: %d %s", start, user, status, body)
					}
					if _, _, said := g.get("/api/", member(t, body, "access_token")); said != "Hello u-"+user {
						t.Errorf("%s: the gate says %q", start, said)
					}
				}
				if _, _, said := g.get("/api/", had.Personal); said != "Hello u-ada" {
					t.Errorf("%s: the gate says %q to the personal token", start, said)
				}
				status, body = asks("grant_type", "refresh_token", "refresh_token", had.Refresh)
				if status != http.StatusOK {
					t.Fatalf("%s: the refresh token: %d %s", start, status, body)
				}
				had.Refresh = member(t, body, "refresh_token")
				if status, body = asks("grant_type", "refresh_token", "refresh_token", had.Revoked); status != http.StatusBadRequest {
					t.Errorf("%s: a refresh token that was revoked: %d %s", start, status, body)
				}
				if out := g.ok("user", "list", "--search", "ada"); !strings.Contains(out, "Ada Admin") || strings.Contains(out, "ben") {
					t.Errorf("%s: a search finds %s", start, out)
				}
				if out := g.ok("client", "list", "--search", "single"); !strings.Contains(out, "spa") {
					t.Errorf("%s: a search finds %s", start, out)
				}
				g.ok("user", "update", "u-ben", "--name", "Ben after "+start)
				g.reload("{\n\tadmin ADMIN\n}\n")
			}
		})
	}
}
