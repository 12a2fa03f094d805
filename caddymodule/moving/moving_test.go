package moving

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/mariadbtest"
	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// filled are rows for both databases: more tokens than one page has, some with NULLs.
const filled = `INSERT INTO oauth_applications (name, uid, secret, redirect_uri, scopes, confidential, created_at, updated_at)
	VALUES ('Portal “é”', 'portal', 's', 'https://a.example/cb', 'public', TRUE, '2026-01-02 03:04:05.123456', '2026-01-02 03:04:05'),
	('Shop', 'shop', '', 'https://b.example/cb', '', FALSE, '2026-01-02 03:04:05', '2026-01-02 03:04:05');
	INSERT INTO oauth_access_tokens (resource_owner_id, application_id, token, refresh_token, expires_in, scopes, created_at, revoked_at) VALUES %s;
	INSERT INTO users (email, encrypted_password, confirmed_at, locked_at, full_name, teams, created_at)
	VALUES ('ada@example.com', '$2a$04$hash', '2026-01-02 03:04:05', NULL, 'Ada', '{staff,"a b"}', '2026-01-02 03:04:05'),
	('eve@example.com', '', NULL, '2026-01-03 03:04:05', NULL, NULL, '2026-01-02 03:04:05')`

// fill makes the tables of a source with three pages of tokens.
func fill(t *testing.T, db *sql.DB, schema string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", schema))
	check(t, err)
	_, err = db.ExecContext(t.Context(), string(text))
	check(t, err)
	var values []string
	for i := range 2*PageRows + 7 {
		values = append(values, fmt.Sprintf("(%s, 1, 'opaque-token-%08d', NULL, %s, 'public read', '2026-01-02 03:04:05', NULL)", []string{"1", "NULL"}[i%2], i, []string{"7200", "NULL"}[i%2]))
	}
	_, err = db.ExecContext(t.Context(), fmt.Sprintf(filled, strings.Join(values, ", ")))
	check(t, err)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestDK20TablesOfBothDatabases: the tables in PostgreSQL and in MariaDB → the same rows, every one once and in order, with the same times
// wherever the server is, flags and NULLs, by transactions that cannot write.
func TestDK20TablesOfBothDatabases(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) string{
		"PostgreSQL": func(t *testing.T) string {
			dsn := pgtest.Shared(t).Database(t)
			db, err := sql.Open("pgx", dsn)
			check(t, err)
			t.Cleanup(func() { _ = db.Close() })
			fill(t, db, "postgres.sql")
			return dsn
		},
		"MariaDB": func(t *testing.T) string {
			db, from := mariadbtest.Start(t)
			fill(t, db, "mariadb.sql")
			_, err := db.ExecContext(t.Context(), "ALTER TABLE oauth_access_tokens MODIFY created_at TIMESTAMP(6) NOT NULL; SET GLOBAL time_zone = '+05:00'")
			check(t, err)
			return from
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := Open(t.Context(), open(t))
			check(t, err)
			defer func() { _ = s.Close() }()
			d := Doorkeeper{Tokens: Plain, Now: time.Date(2026, 1, 2, 3, 30, 0, 0, time.UTC)}
			var applications []string
			check(t, EachPage(t.Context(), s, Applications, func(page []Row, _ bool) error {
				for _, row := range page {
					c, err := d.Application(row)
					d.Note(row, "")
					applications = append(applications, fmt.Sprintf("%s %q %t %q %q %.8s %v", c.ID, c.Name, c.Confidential, c.RedirectURIs, c.Scopes, c.Secret, err))
				}
				return nil
			}))
			if got, want := strings.Join(applications, "; "), `portal "Portal “é”" true ["https://a.example/cb"] ["public"] 043a7187 <nil>; `+
				`shop "Shop" false ["https://b.example/cb"] []  <nil>`; got != want {
				t.Errorf("applications\n%s\nwant\n%s", got, want)
			}
			var tokens, alone int
			check(t, EachPage(t.Context(), s, AccessTokens, func(page []Row, last bool) error {
				for _, row := range page {
					token, err := d.Token(row)
					tokens++
					if want := fmt.Sprintf("%020d", tokens); err != nil || token.Record != want || token.Client != "portal" || token.CreatedAt != 1767323045 || token.Access == "" || token.Refresh != "" {
						t.Fatalf("%+v, %v", token, err)
					}
					if token.User == "" && token.ExpiresAt == 0 {
						alone++
					} else if token.User != "1" || token.CreatedAt != time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Unix() || token.ExpiresAt != token.CreatedAt+7200 {
						t.Fatalf("%+v", token)
					}
				}
				if last != (tokens == 2*PageRows+7) {
					t.Errorf("last is %t after %d", last, tokens)
				}
				return nil
			}))
			if tokens != 2*PageRows+7 || alone != PageRows+3 {
				t.Errorf("%d tokens, %d without a user", tokens, alone)
			}
			devise, err := NewDevise("users", []string{"groups=teams", "name=full_name"})
			check(t, err)
			var people []string
			check(t, EachPage(t.Context(), s, "users", func(page []Row, _ bool) error {
				for _, row := range page {
					u, err := devise.User(row)
					people = append(people, fmt.Sprintf("%s %s %q %q %s %q %t %q %v", u.ID, u.Email, u.Name, u.Groups, u.Status, u.Hash, u.EmailVerified, u.Note, err))
				}
				return nil
			}))
			if got, want := strings.Join(people, "; "), `1 ada@example.com "Ada" ["staff" "a b"] active "$devise$2a$04$hash" true "" <nil>; `+
				`2 eve@example.com "" [] locked "" false "locked there, and locked here" <nil>`; got != want {
				t.Errorf("people\n%s\nwant\n%s", got, want)
			}
			if in, ok := s.(*database); ok {
				tx, err := in.db.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
				check(t, err)
				defer func() { _ = tx.Rollback() }()
				if _, err := tx.ExecContext(t.Context(), "DELETE FROM users"); err == nil {
					t.Error("a transaction of the source can write")
				}
			}
		})
	}
}

// TestDK27ASourceThatChangesWhileItIsRead: rows are added, changed and deleted between two pages → every row that stays comes once and in order, the
// ones ahead as they are by then.
func TestDK27ASourceThatChangesWhileItIsRead(t *testing.T) {
	dsn := pgtest.Shared(t).Database(t)
	db, err := sql.Open("pgx", dsn)
	check(t, err)
	defer func() { _ = db.Close() }()
	fill(t, db, "postgres.sql")
	s, err := Open(t.Context(), dsn)
	check(t, err)
	defer func() { _ = s.Close() }()
	var ids []string
	revoked, pages := 0, 0
	check(t, EachPage(t.Context(), s, AccessTokens, func(page []Row, _ bool) error {
		for _, row := range page {
			ids = append(ids, row.Text("id"))
			if row.Text("revoked_at") != "" {
				revoked++
			}
		}
		if pages++; pages > 1 {
			return nil
		}
		_, err := db.ExecContext(t.Context(), fmt.Sprintf(`DELETE FROM oauth_access_tokens WHERE id IN (5, %d, %d); UPDATE oauth_access_tokens SET revoked_at = now() WHERE id IN (6, %d);
			INSERT INTO oauth_access_tokens (token, created_at) VALUES ('opaque-token-of-now', now())`, PageRows, PageRows+1, PageRows+2))
		return err
	}))
	seen := make(map[string]bool)
	for _, id := range ids {
		seen[id] = true
	}
	if len(ids) != 2*PageRows+7 || len(seen) != len(ids) || seen[fmt.Sprint(PageRows+1)] || !seen[fmt.Sprint(2*PageRows+8)] || revoked != 1 {
		t.Errorf("%d rows, %d of them different, %d revoked; the last is %s", len(ids), len(seen), revoked, ids[len(ids)-1])
	}
}

// TestDK21ADumpOfLines: a dump with a JSON object a line → the same rows, page by page; rows out of order, a line that is no JSON and an
// unknown scheme end the import with the place.
func TestDK21ADumpOfLines(t *testing.T) {
	dump := func(lines ...string) Source {
		path := filepath.Join(t.TempDir(), "dump.jsonl")
		check(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600))
		s, err := Open(t.Context(), path)
		check(t, err)
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	var lines []string
	for i := range PageRows + 3 {
		lines = append(lines, fmt.Sprintf(`{"table":"oauth_access_tokens","id":%d,"resource_owner_id":7,"token":"opaque-token-%d-0000","expires_in":60,"created_at":"2026-01-02T03:04:05.5Z","revoked_at":null}`, i+1, i),
			fmt.Sprintf(`{"table":"users","id":"00000000-0000-4000-8000-%012d","email":"u%d@example.com","teams":["a","b"]}`, i, i))
	}
	s := dump(lines...)
	big := dump(`{"table":"users","id":9007199254740993,"email":"u@example.com","teams":[1,"b"],"admin":true}`)
	rows, err := big.Page(t.Context(), "users", nil)
	if check(t, err); len(rows) != 1 || rows[0].Text("id") != "9007199254740993" || rows[0].Key() != "00009007199254740993" || !slices.Equal(rows[0].List("teams"), []string{"1", "b"}) || !rows[0].Flag("admin", false) {
		t.Errorf("a row with a large id: %v", rows)
	}
	for table, want := range map[string]int{AccessTokens: PageRows + 3, "users": PageRows + 3, "none": 0} {
		rows := 0
		check(t, EachPage(t.Context(), s, table, func(page []Row, _ bool) error { rows += len(page); return nil }))
		if rows != want {
			t.Errorf("%s has %d rows, want %d", table, rows, want)
		}
	}
	for what, lines := range map[string][]string{
		"comes after that": {`{"table":"users","id":2}`, `{"table":"users","id":1}`},
		"line 2":           {`{"table":"users","id":1}`, `{"table":`},
	} {
		if err := EachPage(t.Context(), dump(lines...), "users", func([]Row, bool) error { return nil }); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%q: %v", what, err)
		}
	}
	for _, from := range []string{"oracle://x/y", filepath.Join(t.TempDir(), "none"), "mysql://host", "postgres://%zz:secret@x"} {
		if _, err := Open(t.Context(), from); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", from, err)
		}
	}
}

// TestDK22WhatATokenSays: a row of oauth_access_tokens in every state → what is imported, what is skipped because it is over, and what is
// refused with the reason; 64 hexadecimal digits without --tokens → the import ends, because they may be a token or a digest.
func TestDK22WhatATokenSays(t *testing.T) {
	now := time.Date(2026, 1, 2, 4, 0, 0, 0, time.UTC)
	hexToken := strings.Repeat("0123456789abcdef", 4)
	for _, c := range []struct {
		name    string
		tokens  Form
		columns Row
		access  bool
		refresh bool
		wrong   string
	}{
		{"alive", Plain, nil, true, false, ""},
		{"hashed", SHA256, Row{"token": hexToken}, true, false, ""},
		{"plain beside hashed ones", SHA256, nil, true, false, ""},
		{"ambiguous", Auto, Row{"token": hexToken}, true, false, "--tokens"},
		{"never expires", Plain, Row{"expires_in": nil, "created_at": "2001-01-01 00:00:00"}, true, false, ""},
		{"expired", Plain, Row{"expires_in": int64(60)}, false, false, "expired"},
		{"expired, with a refresh token", Plain, Row{"expires_in": int64(60), "refresh_token": "refresh-token-0000"}, false, true, ""},
		{"expired, without a user", Plain, Row{"expires_in": int64(60), "refresh_token": "refresh-token-0000", "resource_owner_id": nil}, false, false, "expired"},
		{"revoked", Plain, Row{"revoked_at": "2026-01-02 03:59:00"}, false, false, "revoked"},
		{"revoked by a clock that is ahead", Plain, Row{"revoked_at": "2026-01-02 04:59:00"}, false, false, "revoked"},
		{"revoked at some time", Plain, Row{"revoked_at": "yesterday"}, false, false, "revoked"},
		{"of tomorrow", Plain, Row{"created_at": "2026-01-03 03:30:00"}, true, false, ""},
		{"of no time", Plain, Row{"created_at": nil}, false, false, "no created_at"},
		{"in UTC", Plain, Row{"created_at": "2026-01-02 03:30:00 UTC"}, true, false, ""},
		{"with an offset", Plain, Row{"created_at": "2026-01-02T04:30:00+01:00"}, true, false, ""},
		{"in a zone by name", Plain, Row{"created_at": "2026-01-02 03:30:00 CST"}, false, false, "is no time"},
		{"of another class", Plain, Row{"resource_owner_type": "Admin"}, false, false, "its owner is a Admin"},
		{"of the class", Plain, Row{"resource_owner_type": "User"}, true, false, ""},
		{"of no application", Plain, Row{"application_id": nil}, true, false, ""},
		{"of an unknown application", Plain, Row{"application_id": int64(9)}, false, false, "no application 9"},
		{"of a refused application", Plain, Row{"application_id": int64(2)}, false, false, "was not brought over: because"},
		{"a JWT", Plain, Row{"token": "eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmF0dXJl"}, false, false, "JWT"},
		{"short", Plain, Row{"token": "short"}, false, false, "too short"},
		{"a strange time", Plain, Row{"created_at": "yesterday"}, false, false, "is no time"},
		{"a strange lifetime", Plain, Row{"expires_in": "-5"}, false, false, "no number of seconds"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := Doorkeeper{Tokens: c.tokens, OwnerType: "User", Now: now}
			d.Note(Row{"id": int64(1), "uid": "portal"}, "")
			d.Note(Row{"id": int64(2), "uid": "other"}, "because")
			row := Row{"id": int64(5), "resource_owner_id": int64(7), "application_id": int64(1), "token": "opaque-token-00000", "refresh_token": nil, "expires_in": int64(7200), "created_at": "2026-01-02 03:30:00.25", "scopes": "public read"}
			for column, value := range c.columns {
				row[column] = value
			}
			token, err := d.Token(row)
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) || IsFatal(err) != (c.tokens == Auto) || errors.As(err, new(Skipped)) != (c.wrong == "expired" || c.wrong == "revoked") {
					t.Errorf("error %v, want %s", err, c.wrong)
				}
				return
			}
			if err != nil || (token.Access != "") != c.access || (token.Refresh != "") != c.refresh || token.Record != "00000000000000000005" || token.CreatedAt > now.Unix() {
				t.Errorf("%+v, %v", token, err)
			}
		})
	}
}

// TestDK36ListsOfGroups: a column with groups as an array of PostgreSQL, a JSON array or names between commas → its elements; one with a comma stays
// one, and NULL is none.
func TestDK36ListsOfGroups(t *testing.T) {
	for text, want := range map[string][]string{
		`{staff,"a b"}`: {"staff", "a b"}, `{"sales, north",b}`: {"sales, north", "b"}, `{NULL,null,"NULL",a}`: {"NULL", "a"}, `{"say \"hi\"","back\\slash"}`: {`say "hi"`, `back\slash`},
		`{}`: nil, ``: nil, `["x, y","z"]`: {"x, y", "z"}, `a, b`: {"a", "b"},
	} {
		if got := (Row{"teams": text}).List("teams"); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestDK37TwoServicesAreTwoSources: databases that differ in host or name → sources of different names, which are ids.
func TestDK37TwoServicesAreTwoSources(t *testing.T) {
	names := make(map[string]bool)
	for _, d := range [][2]string{{"a:5432", "api"}, {"b:5432", "api"}, {"a:5432", "Api 2"}, {"a:5432", strings.Repeat("é", 99)}} {
		name := nameOf(d[0], d[1])
		if err := store.ValidateID(name); err != nil || names[name] {
			t.Errorf("%q: %q, %v", d, name, err)
		}
		names[name] = true
	}
	if again := nameOf("a:5432", "api"); !names[again] {
		t.Errorf("a database has two names: %q", again)
	}
}
