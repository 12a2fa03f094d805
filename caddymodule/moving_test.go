package caddymodule

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
)

// newHome is an issuer that takes over what Doorkeeper had.
var newHome = strings.NewReplacer("scope", "scope", "client conf SECRET", `scope orders.read "Read orders"
		client conf SECRET`).Replace(staffed)

// doorkeeper is a database with the tables of Doorkeeper and Devise.
type doorkeeper struct {
	t   *testing.T
	dsn string
	db  *sql.DB
}

func newDoorkeeper(t *testing.T) *doorkeeper {
	t.Helper()
	d := &doorkeeper{t: t, dsn: pgtest.Shared(t).Database(t)}
	var err error
	d.db, err = sql.Open("pgx", d.dsn)
	check(t, err)
	t.Cleanup(func() { _ = d.db.Close() })
	schema, err := os.ReadFile("moving/testdata/postgres.sql")
	check(t, err)
	d.exec(string(schema))
	return d
}

func (d *doorkeeper) exec(statement string, args ...any) {
	d.t.Helper()
	_, err := d.db.ExecContext(d.t.Context(), statement, args...)
	check(d.t, err)
}

func (d *doorkeeper) application(uid, secret, uris, scopes string, confidential bool) {
	d.t.Helper()
	d.exec(`INSERT INTO oauth_applications (name, uid, secret, redirect_uri, scopes, confidential, created_at, updated_at) VALUES ($1, $1, $2, $3, $4, $5, now(), now())`,
		uid, secret, uris, scopes, confidential)
}

func (d *doorkeeper) user(email, hash string) {
	d.t.Helper()
	d.exec(`INSERT INTO users (email, encrypted_password, confirmed_at, created_at) VALUES ($1, $2, now(), now())`, email, hash)
}

// token stores a token of a user, 0 for none, and an application.
func (d *doorkeeper) token(user, application int, token, refresh string, expires any) {
	d.t.Helper()
	d.exec(`INSERT INTO oauth_access_tokens (resource_owner_id, application_id, token, refresh_token, expires_in, scopes, created_at)
		VALUES (NULLIF($1, 0), $2, $3, NULLIF($4, ''), $5, 'public orders.read', (now() AT TIME ZONE 'UTC') - interval '1 minute')`, user, application, token, refresh, expires)
}

func hexDigest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func bcryptOf(t *testing.T, text string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(text[:min(len(text), 72)]), bcrypt.MinCost)
	check(t, err)
	return string(hash)
}

func (g *gatehouse) refreshOf(client, secret, token string) (int, string) {
	g.t.Helper()
	status, _, body := g.post("/oauth/token", url.Values{"grant_type": {"refresh_token"}, "client_id": {client}, "client_secret": {secret}, "refresh_token": {token}})
	return status, body
}

func (g *gatehouse) introspected(client, secret, token string) string {
	g.t.Helper()
	_, _, body := g.post("/oauth/introspect", url.Values{"client_id": {client}, "client_secret": {secret}, "token": {token}})
	return body
}

// TestDK10AServiceMovesIn: the tables of a service with Doorkeeper and Devise are imported → its opaque tokens pass the gate, are described
// and can be revoked, its refresh tokens give families with the old scopes, its people sign in with their passwords and its applications
// with their secrets, in SHA-256 and bcrypt; a second import takes what was added, changed and revoked there, and nothing that ended here
// comes back.
func TestDK10AServiceMovesIn(t *testing.T) {
	g := startGatehouse(t, newHome)
	d := newDoorkeeper(t)
	const portalSecret, oldSecret = "portal-secret-portal-secret", "an-older-secret-that-bcrypt-holds"
	d.application("portal", hexDigest(portalSecret), "https://portal.example/callback\nhttps://portal.example/other", "public orders.read refresh_token", true)
	d.application("older", bcryptOf(t, oldSecret), "https://older.example/callback", "public orders.read", true)
	d.user("ada@old.example", bcryptOf(t, adaPassword))
	d.user("eve@old.example", bcryptOf(t, adaPassword))
	long := strings.Repeat("p", 80)
	d.user("long@old.example", bcryptOf(t, long))
	const first, second, machine, gone, expired = "first-opaque-token-of-ada-000000", "second-opaque-token-of-eve-00000", "opaque-token-of-a-machine-000000", "opaque-token-that-was-revoked-00", "opaque-token-that-has-expired-00"
	d.token(1, 1, first, "refresh-token-of-ada-0000000000", 7200)
	d.token(2, 2, second, "refresh-token-of-eve-0000000000", 7200)
	d.token(0, 1, machine, "", nil)
	d.token(1, 1, gone, "refresh-token-that-was-revoked-0", 7200)
	d.exec(`UPDATE oauth_access_tokens SET revoked_at = now() AT TIME ZONE 'UTC' WHERE token = $1`, gone)
	d.token(2, 1, expired, "refresh-token-of-eve-2-00000000", 30)
	imports := func(args ...string) (string, error) {
		t.Helper()
		return g.run("", append([]string{"import", "doorkeeper", "--from", d.dsn, "--devise", "users", "--tokens", "plain", "--secrets", "sha256"}, args...)...)
	}
	if out, err := imports("--dry-run"); err != nil || out != "" {
		t.Fatalf("dry run: %v\n%s", err, out)
	}
	if status := g.gate(first); status != http.StatusUnauthorized {
		t.Errorf("after a dry run the gate answers %d", status)
	}
	if _, body := g.refreshOf("portal", portalSecret, "x"); !strings.Contains(body, "invalid_client") {
		t.Errorf("after a dry run the client is there: %s", body)
	}
	out, err := imports()
	if err != nil || out != "" {
		t.Fatalf("import: %v\n%s", err, out)
	}
	g.eventually("the gate looks for imported tokens", func() bool { return g.gate(first) == http.StatusOK })
	for token, want := range map[string]int{machine: http.StatusOK, gone: http.StatusUnauthorized, expired: http.StatusUnauthorized, "opaque-token-that-never-was-0000": http.StatusUnauthorized} {
		if got := g.gate(token); got != want {
			t.Errorf("%s: the gate answers %d", token, got)
		}
	}
	if body := g.introspected("portal", portalSecret, first); member(t, body, "sub") != "1" || member(t, body, "scope") != "public orders.read" || member(t, body, "username") != "ada@old.example" {
		t.Errorf("introspection: %s", body)
	}
	if body := g.introspected("older", oldSecret, first); strings.Contains(body, "sub") {
		t.Errorf("another client is told %s", body)
	}
	if _, _, body := g.get("/oauth/token/info", first); !strings.Contains(body, `"uid":"portal"`) {
		t.Errorf("token info: %s", body)
	}
	// People and applications prove who they are as before.
	for email, password := range map[string]string{"ada@old.example": adaPassword, "long@old.example": long} {
		for range 2 { // and once more with the new hash
			if status, body := g.staffSignIn(email, password); status != http.StatusOK {
				t.Errorf("%s: %d %s", email, status, body)
			}
		}
	}
	for range 2 {
		if status, token := g.tokenFor("older", oldSecret); status != http.StatusOK || g.gate(token) != http.StatusOK {
			t.Errorf("the secret in bcrypt: %d", status)
		}
	}
	// A refresh token is good once, with its client.
	if status, body := g.refreshOf("older", oldSecret, "refresh-token-of-ada-0000000000"); status != http.StatusBadRequest {
		t.Errorf("another client refreshes: %d %s", status, body)
	}
	status, body := g.refreshOf("portal", portalSecret, "refresh-token-of-ada-0000000000")
	if status != http.StatusOK || member(t, body, "scope") != "public orders.read" || g.gate(member(t, body, "access_token")) != http.StatusOK {
		t.Fatalf("refreshing: %d %s", status, body)
	}
	renewed := member(t, body, "refresh_token")
	if _, again := g.refreshOf("portal", portalSecret, "refresh-token-of-ada-0000000000"); member(t, again, "refresh_token") != renewed {
		t.Errorf("a repetition within the grace: %s", again)
	}
	if status, body = g.refreshOf("portal", portalSecret, renewed); status != http.StatusOK {
		t.Fatalf("refreshing again: %d %s", status, body)
	}
	if status, _ := g.refreshOf("portal", portalSecret, "refresh-token-of-ada-0000000000"); status != http.StatusBadRequest {
		t.Errorf("a replay: %d", status)
	}
	if status, _ := g.refreshOf("portal", portalSecret, member(t, body, "refresh_token")); status != http.StatusBadRequest || g.gate(first) != http.StatusUnauthorized {
		t.Errorf("after a replay: %d, and the gate answers %d", status, g.gate(first))
	}
	// The old service goes on meanwhile.
	d.exec(`UPDATE oauth_access_tokens SET revoked_at = now() AT TIME ZONE 'UTC' WHERE token = $1`, second)
	d.exec(`DELETE FROM oauth_access_tokens WHERE token = $1`, machine)
	const third = "third-opaque-token-of-eve-000000"
	d.token(2, 1, third, "", 7200)
	d.exec(`UPDATE users SET encrypted_password = $1 WHERE id = 2`, bcryptOf(t, "another horse"))
	if g.gate(second) != http.StatusOK || g.gate(machine) != http.StatusOK {
		t.Error("tokens end before the second import")
	}
	if out, err := imports(); err != nil || out != "" {
		t.Fatalf("second import: %v\n%s", err, out)
	}
	for token, want := range map[string]int{first: http.StatusUnauthorized, second: http.StatusUnauthorized, machine: http.StatusUnauthorized} {
		if got := g.gate(token); got != want {
			t.Errorf("%s: after the second import the gate answers %d", token, got)
		}
	}
	g.eventually("the gate looks for the new token", func() bool { return g.gate(third) == http.StatusOK })
	if status, _ := g.staffSignIn("eve@old.example", "another horse"); status != http.StatusOK {
		t.Errorf("the new password: %d", status)
	}
	if status, _ := g.refreshOf("older", oldSecret, "refresh-token-of-eve-0000000000"); status != http.StatusBadRequest {
		t.Errorf("a refresh token that was revoked there: %d", status)
	}
	// Its client revokes it here, and no import brings it back.
	if status, _, body := g.post("/oauth/revoke", url.Values{"client_id": {"portal"}, "client_secret": {portalSecret}, "token": {third}}); status != http.StatusOK {
		t.Errorf("revoking: %d %s", status, body)
	}
	if out, err := imports(); err != nil || out != "" || g.gate(third) != http.StatusUnauthorized {
		t.Errorf("third import: %v\n%s, and the gate answers %d", err, out, g.gate(third))
	}
	g.notLogged(t, first, "refresh-token-of-ada-0000000000", portalSecret, oldSecret)
}
