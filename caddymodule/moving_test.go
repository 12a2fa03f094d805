package caddymodule

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/gatehouse-auth/gatehouse/caddymodule/moving"
	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// newHome is an issuer that takes over what Doorkeeper had.
var newHome = strings.Replace(staffed, "client conf SECRET", "scope orders.read \"Read orders\"\n\t\tclient conf SECRET", 1)

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
	if has, err := g.app().node.Store().Imports.HasImported(t.Context()); has || err != nil {
		t.Errorf("after a dry run there are tokens: %t, %v", has, err)
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

// dumped writes a dump and returns its path.
func dumped(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dump.jsonl")
	check(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600))
	return path
}

// TestDK11RowsThatAreNotBroughtOver: an address in two spellings, a person without a password, unconfirmed or locked, an application with a
// redirect URI that is refused or an unknown scope, ids that are in use here, and tokens of all of these → each is listed with the reason, and
// the others are brought over; the configuration is mended → the same command brings what was missing.
func TestDK11RowsThatAreNotBroughtOver(t *testing.T) {
	g := startGatehouse(t, newHome)
	g.ok("user", "add", "--id", "5", "--email", "five@acme.example")
	hash := bcryptOf(t, adaPassword)
	user := func(id, more string) string {
		return `{"table":"users","id":` + id + `,"encrypted_password":"` + hash + `","confirmed_at":"2026-01-01T00:00:00Z",` + more + `}`
	}
	token := func(id, owner, application string) string {
		return `{"table":"oauth_access_tokens","id":` + id + `,"resource_owner_id":` + owner + `,"application_id":` + application + `,"token":"opaque-token-number-` + id + `","refresh_token":null,"expires_in":null,"scopes":"","created_at":"2026-01-01T00:00:00Z"}`
	}
	longSecret := strings.Repeat("s", 75)
	lines := []string{
		`{"table":"oauth_applications","id":1,"uid":"good","name":"Good","secret":"` + bcryptOf(t, longSecret) + `","redirect_uri":"https://good.example/cb","scopes":"public","confidential":true}`,
		`{"table":"oauth_applications","id":2,"uid":"oob","name":"Oob","secret":"plain","redirect_uri":"urn:ietf:wg:oauth:2.0:oob\nhttps://oob.example/cb","scopes":"public","confidential":true}`,
		`{"table":"oauth_applications","id":3,"uid":"unknown","name":"Unknown","secret":"plain","redirect_uri":"https://u.example/cb","scopes":"public rockets","confidential":true}`,
		`{"table":"oauth_applications","id":4,"uid":"conf","name":"Conf","secret":"plain","redirect_uri":"","scopes":"public","confidential":true}`,
		`{"table":"oauth_applications","id":5,"uid":"phone","name":"Phone","secret":"","redirect_uri":"com.example.phone:/cb","scopes":"public","confidential":false}`,
		user("1", `"email":"Ada@Example.com"`), user("2", `"email":"ada@example.com "`), user("3", `"email":"none"`),
		`{"table":"users","id":4,"email":"four@example.com","encrypted_password":"","confirmed_at":"2026-01-01T00:00:00Z"}`,
		user("5", `"email":"another@example.com"`), user("6", `"email":"six@example.com","locked_at":"2026-01-01T00:00:00Z"`),
		`{"table":"users","id":7,"email":"seven@example.com","encrypted_password":"` + hash + `","confirmed_at":null}`,
		`{"table":"users","id":8,"email":"eight@example.com","encrypted_password":"{SSHA}x","confirmed_at":"2026-01-01T00:00:00Z"}`,
		token("1", "1", "1"), token("2", "2", "1"), token("3", "1", "2"), token("4", "1", "3"), token("5", "4", "1"), token("6", "99", "1"), token("7", "null", "5"),
	}
	from := dumped(t, lines...)
	want := []string{
		`applications 2 ("Oob"): added: brought over disabled: redirect URI "urn:ietf:wg:oauth:2.0:oob"`, `applications 3 ("Unknown"): refused: unknown scope`,
		"applications 4 (\"Conf\"): unchanged: it is declared", "people 2 (\"ada@example.com \"): refused: adding user: another user has the e-mail address", "people 3 (\"none\"): refused: ",
		"people 4 (\"four@example.com\"): added: has no password", "people 5 (\"another@example.com\"): refused: the id is in use here by one that did not come",
		"people 6 (\"six@example.com\"): added: locked there", "people 7 (\"seven@example.com\"): added: brought over disabled: the address was never confirmed",
		"people 8 (\"eight@example.com\"): refused: the hash of Devise", "tokens 2: refused: its user was not brought over", "tokens 4: refused: its application was not brought over: unknown scope",
		"tokens 3: refused: its client is disabled here", "tokens 5: refused: its user did not come from this source, cannot sign in, or may be another person here", "tokens 6: refused: its user did not come",
	}
	imports := func(from string) (string, error) {
		return g.run("", "import", "doorkeeper", "--from", from, "--devise", "users", "--tokens", "plain", "--secrets", "plain", "--source", "old")
	}
	out, err := imports(from)
	printed := strings.Split(strings.TrimSpace(out), "\n")
	if err == nil || len(printed) != len(want) {
		t.Errorf("%v: %d lines, want %d\n%s", err, len(printed), len(want), out)
	}
	for i := range min(len(printed), len(want)) {
		if !strings.HasPrefix(printed[i], want[i]) {
			t.Errorf("%q, want %q", printed[i], want[i])
		}
	}
	g.eventually("the gate looks for imported tokens", func() bool { return g.gate("opaque-token-number-1") == http.StatusOK })
	for _, token := range []string{"2", "3", "4", "5", "6"} {
		if status := g.gate("opaque-token-number-" + token); status != http.StatusUnauthorized {
			t.Errorf("token %s: %d", token, status)
		}
	}
	if status := g.gate("opaque-token-number-7"); status != http.StatusOK { // of a public client alone
		t.Errorf("token 7: %d", status)
	}
	// What bcrypt holds of a secret are 72 bytes. More are accepted, as they were, and never learnt.
	for _, secret := range []string{longSecret, longSecret[:72] + "xyz", longSecret} {
		if status, _ := g.tokenFor("good", secret); status != http.StatusOK {
			t.Errorf("a secret of %d bytes: %d", len(secret), status)
		}
	}
	if status, _ := g.tokenFor("good", longSecret[:71]); status != http.StatusUnauthorized {
		t.Errorf("71 bytes of it: %d", status)
	}
	if status, _ := g.tokenFor("oob", "plain"); status != http.StatusUnauthorized {
		t.Errorf("a disabled client: %d", status)
	}
	// The operator enables the application, and the next import brings its token.
	g.ok("client", "enable", "oob")
	if out, _ := imports(from); strings.Contains(out, "tokens 3:") || strings.Contains(out, "Oob") || g.gate("opaque-token-number-1") != http.StatusOK {
		t.Errorf("again:\n%s", out)
	}
	// A dump that breaks off in the middle leaves what was read, and the whole one brings the rest.
	lines = append(lines, token("8", "1", "1"), `{"table":`)
	if _, err := imports(dumped(t, lines...)); err == nil || !strings.Contains(err.Error(), "the same command goes on") {
		t.Errorf("a broken dump: %v", err)
	}
	_, _ = imports(dumped(t, lines[:len(lines)-1]...))
	g.eventually("the gate looks for the last token", func() bool { return g.gate("opaque-token-number-8") == http.StatusOK })
	for _, wrong := range [][]string{{"--tokens", "md5"}, {"--map", "name"}, {"--map", "name=nothing"}, {"--from", "oracle://x"}, {"--devise", "nobody", "--map", "x=y"}, {"--source", ""}} {
		if _, err := g.run("", append([]string{"import", "doorkeeper", "--from", from, "--devise", "users", "--source", "old"}, wrong...)...); err == nil {
			t.Errorf("%v is taken", wrong)
		}
	}
}

// TestDK12PeopleOfOtherLists: people from htpasswd, from a list of addresses and from a table with hashes of scrypt and PBKDF2 → they are
// there, and sign in with their passwords; hashes that cannot be verified → refused with the reason; a Devise with a pepper → its hashes
// verify with `devise_pepper` alone.
func TestDK12PeopleOfOtherLists(t *testing.T) {
	t.Setenv("DEVISE_PEPPER", "pepper-of-the-old-service")
	peppered := strings.Replace(newHome, "issuer http://ADDR", "issuer http://ADDR\n\t\tsign_in {\n\t\t\tpassword\n\t\t\tdevise_pepper {env.DEVISE_PEPPER}\n\t\t}", 1)
	g := startGatehouse(t, peppered)
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "file")
		check(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	out, err := g.run("", "import", "htpasswd", "--domain", "acme.example", file("# people\nhal:"+bcryptOf(t, adaPassword)+"\nivy@other.example:"+bcryptOf(t, adaPassword)+"\njim:{SHA}x\nkim\n"))
	if err == nil || out != "line 2: hal@acme.example added\nline 3: ivy@other.example added\nline 4: jim@acme.example refused: only hashes of bcrypt can be brought over (htpasswd -B)\nline 5: refused: it is not NAME:HASH\n" {
		t.Errorf("htpasswd: %v\n%s", err, out)
	}
	out, err = g.run("lou@acme.example\n\n# comment\nLou@ACME.example\nnobody\n", "import", "emails", "-")
	if err == nil || !strings.HasPrefix(out, "line 1: lou@acme.example added\nline 4: Lou@ACME.example refused: the address is that of line 1\nline 5: nobody refused: ") {
		t.Errorf("emails: %v\n%s", err, out)
	}
	const salt, password = "saltsaltsaltsalt", "correct horse battery staple"
	table := strings.Join([]string{
		"email,password_hash",
		`may@acme.example,"$scrypt$ln=10,r=8,p=1$c2FsdHNhbHRzYWx0c2FsdA$bHXojks4sm1uMH4CDw9EcLZ/muyLxbYYc9xGzvNAnuQ"`,
		"ned@acme.example,scrypt:1024:8:1$" + salt + "$6c75e88e4b38b26d6e307e020f0f4470b67f9aec8bc5b61873dc46cef3409ee42c82d3731b627777d18bfb54be24d3d251c63ecb5abaad67a0d03e9d3d680815",
		"oda@acme.example,pbkdf2_sha256$1000$" + salt + "$31ltvuXrbs8POP2F4tw9851NSNQCQpm0sCwu2eEvId8=",
		"pam@acme.example,$pbkdf2-sha512$i=1000$c2FsdHNhbHRzYWx0c2FsdA$ORxvnPF08mmTltUf/WSLS8FZ3yYanqBrD+km4rpMr07F2ze7/s1VLAjm+ry9RrSLc7aA5i7XxlkTGvDGO5vcpw",
		`quo@acme.example,"$scrypt$ln=22,r=8,p=1$c2FsdHNhbHRzYWx0c2FsdA$bHXojks4sm1uMH4CDw9EcLZ/muyLxbYYc9xGzvNAnuQ"`,
	}, "\n")
	out, err = g.run("", "import", "csv", file(table))
	if err == nil || strings.Count(out, " added\n") != 4 || !strings.Contains(out, "line 6: quo@acme.example refused: the scrypt hash costs too much") {
		t.Errorf("csv: %v\n%s", err, out)
	}
	hash := bcryptOf(t, password+"pepper-of-the-old-service")
	from := dumped(t, `{"table":"users","id":1,"email":"rex@acme.example","encrypted_password":"`+hash+`"}`)
	if out, err := g.run("", "import", "doorkeeper", "--from", from, "--devise", "users", "--source", "old"); err != nil || out != "" {
		t.Errorf("Devise: %v\n%s", err, out)
	}
	people := map[string]string{
		"hal@acme.example": adaPassword, "ivy@other.example": adaPassword, "may@acme.example": password, "ned@acme.example": password, "oda@acme.example": password,
		"pam@acme.example": password, "rex@acme.example": password,
	}
	for email, password := range people {
		for _, try := range []struct {
			password string
			want     int
		}{{password + "x", http.StatusBadRequest}, {password, http.StatusOK}, {password, http.StatusOK}} {
			if status, body := g.staffSignIn(email, try.password); status != try.want {
				t.Errorf("%s: %d %s", email, status, body)
			}
		}
	}
	for _, user := range g.storedUsers(t) {
		if hash := user.PasswordHash.Reveal(); people[user.Email] != "" && !strings.HasPrefix(hash, "$argon2id$") {
			t.Errorf("%s still has %.12s…", user.Email, hash)
		}
	}
}

// storedUsers returns the stored users.
func (g *gatehouse) storedUsers(t *testing.T) []*store.User {
	t.Helper()
	users, err := g.app().node.Store().Users.Users(t.Context(), "")
	check(t, err)
	return users
}

// importRows is how many tokens TestDK13 imports; GATEHOUSE_IMPORT_ROWS sets it for a measurement.
const importRows = 3000

// TestDK13ManyRowsWithBrokenOnes: a source with many tokens, one in a hundred broken → the broken ones are listed with their reasons, all others
// are brought over, and a second import finds them unchanged; the memory in use does not grow with the rows.
func TestDK13ManyRowsWithBrokenOnes(t *testing.T) {
	rows := importRows
	if n, err := strconv.Atoi(os.Getenv("GATEHOUSE_IMPORT_ROWS")); err == nil {
		rows = n
	}
	g := startGatehouse(t, durableHome)
	d := newDoorkeeper(t)
	people := max(rows/50, 1)
	d.application("portal", "portal-secret", "https://portal.example/callback", "public orders.read", true)
	d.exec(`INSERT INTO users (email, encrypted_password, confirmed_at, created_at) SELECT 'user' || n || '@old.example', $1, now(), now() FROM generate_series(1, CAST($2 AS INTEGER)) n`,
		bcryptOf(t, adaPassword), people)
	d.exec(`INSERT INTO oauth_access_tokens (resource_owner_id, application_id, token, refresh_token, expires_in, scopes, created_at)
		SELECT 1 + n % CAST($2 AS INTEGER), 1, CASE WHEN n % 100 = 50 THEN 'broken ' || n ELSE encode(sha256(CAST('access' || n AS BYTEA)), 'base64') END, 'refresh-token-' || encode(sha256(CAST('refresh' || n AS BYTEA)), 'hex'),
		7200, 'public orders.read', now() AT TIME ZONE 'UTC' FROM generate_series(1, CAST($1 AS INTEGER)) n`, rows, people)
	for _, run := range []string{"first", "second"} {
		runtime.GC()
		var before runtime.MemStats
		runtime.ReadMemStats(&before)
		peak, done := make(chan uint64), make(chan struct{})
		go func() {
			most := before.HeapAlloc
			for {
				select {
				case <-done:
					peak <- most
					return
				case <-time.After(50 * time.Millisecond):
					var now runtime.MemStats
					runtime.ReadMemStats(&now)
					most = max(most, now.HeapAlloc)
				}
			}
		}()
		began := time.Now()
		out, err := g.run("", "import", "doorkeeper", "--from", d.dsn, "--devise", "users", "--tokens", "plain", "--secrets", "plain", "--source", "lost")
		took := time.Since(began)
		close(done)
		grown := (<-peak - before.HeapAlloc) >> 20
		t.Logf("%s import of %d tokens and %d people: %v, at most %d MiB more of memory in use", run, rows, people, took.Round(time.Millisecond), grown)
		if broken := rows / 100; err == nil || strings.Count(out, "\n") != broken || strings.Count(out, ": refused: it is too short, too long or has characters") != broken {
			t.Errorf("%s import: %v, and %d lines", run, err, strings.Count(out, "\n"))
		}
		if grown > 256 {
			t.Errorf("%s import: %d MiB more of memory are in use", run, grown)
		}
	}
	if n := rowsIn(t, g, "imported_tokens"); n != rows-rows/100 {
		t.Errorf("%d tokens are stored", n)
	}
	if n := rowsIn(t, g, "families"); n != rows-rows/100 {
		t.Errorf("%d families are stored", n)
	}
}

// TestDK28AConnectionThatIsLost: the connection to the source breaks in the middle of a page → the import says so, and has stored whole batches; the
// same command brings the rest.
func TestDK28AConnectionThatIsLost(t *testing.T) {
	g := startGatehouse(t, durableHome)
	d := newDoorkeeper(t)
	const rows = 2*moving.PageRows + 500
	d.application("portal", "portal-secret", "https://portal.example/callback", "public orders.read", true)
	d.user("ada@old.example", bcryptOf(t, adaPassword))
	d.exec(`INSERT INTO oauth_access_tokens (resource_owner_id, application_id, token, expires_in, scopes, created_at)
		SELECT 1, 1, 'opaque-token-number-' || n, 7200, 'public', now() AT TIME ZONE 'UTC' FROM generate_series(1, $1) n`, rows)
	imports := func(from string) error {
		_, err := g.run("", "import", "doorkeeper", "--from", from, "--devise", "users", "--tokens", "plain", "--secrets", "plain", "--source", "lost")
		return err
	}
	if err := imports(pgtest.Via(d.dsn, breaking(t, d.dsn, 200*moving.PageRows))); err == nil || !strings.Contains(err.Error(), "the same command goes on") {
		t.Fatalf("a lost connection: %v", err)
	}
	if tokens, families := rowsIn(t, g, "imported_tokens"), rowsIn(t, g, "families"); tokens == 0 || tokens >= rows || tokens%moving.PageRows != 0 || families != tokens {
		t.Errorf("%d tokens and %d families are stored", tokens, families)
	}
	check(t, imports(d.dsn))
	if tokens, families := rowsIn(t, g, "imported_tokens"), rowsIn(t, g, "families"); tokens != rows || families != rows {
		t.Errorf("then %d tokens and %d families are stored", tokens, families)
	}
}

// breaking returns the address of a proxy of a database that ends after so many bytes of answers, and takes no connection afterwards.
func breaking(t *testing.T, dsn string, after int64) string {
	t.Helper()
	u, err := url.Parse(dsn)
	check(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = client.Close() }()
		_ = listener.Close()
		server, err := net.Dial("tcp", u.Host)
		if err != nil {
			return
		}
		defer func() { _ = server.Close() }()
		go func() { _, _ = io.Copy(server, client) }()
		_, _ = io.CopyN(client, server, after)
	}()
	return listener.Addr().String()
}

func rowsIn(t *testing.T, g *gatehouse, table string) (n int) {
	t.Helper()
	db, err := sql.Open("sqlite", g.database())
	check(t, err)
	defer func() { _ = db.Close() }()
	check(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+table).Scan(&n))
	return n
}
