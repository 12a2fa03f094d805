package sqlstore

import (
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore/sqlite"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/storetest"
)

// backToVersion1 undoes the migrations after the first one.
const backToVersion1 = `DROP TABLE imported_tokens; DROP TABLE import_states; ALTER TABLE client_secrets DROP COLUMN hash; ALTER TABLE users DROP COLUMN apart;
	DROP TABLE factors; DROP TABLE mails; DROP TABLE devices; DROP TABLE audit_events; DROP TABLE user_terms; DROP TABLE client_terms;
	DROP INDEX users_invited; DROP INDEX identities_by_provider;
	ALTER TABLE identities DROP COLUMN refresh_token;
	UPDATE counters SET position = 1 WHERE name = 'newest_schema';
	DELETE FROM goose_db_version WHERE version_id > 1`

// TestW36ASchemaOfVersion1IsMigrated: a database of version 1 with rows is opened → version 3, with the same rows in the same tables, and it
// stores factors, mails and device authorizations, and finds its people; opened once more → nothing is migrated, and they are there.
func TestW36ASchemaOfVersion1IsMigrated(t *testing.T) {
	file, dsn := newPath(t), sharedDatabase(t)
	for name, open := range map[string]func(testing.TB) *Store{
		"SQLite":     func(t testing.TB) *Store { return openAt(t, file) },
		"PostgreSQL": func(t testing.TB) *Store { return openPostgres(t, dsn) },
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			addClient(t, s, "app")
			must(t, s.Users.AddUser(t.Context(), newUser("ada"), true))
			must(t, storetest.Done(s.Families.AddFamily(t.Context(), declaredFamily("f-1"))))
			_, err := s.db.write.ExecContext(t.Context(), backToVersion1)
			must(t, err)
			before := contentOf(t, s)
			if name == "SQLite" {
				holdTables(t, s.db.write, version1(t))
			}
			must(t, s.Close())

			s = open(t)
			version, err := schemaVersion(t.Context(), s.db.write)
			if must(t, err); version != 3 {
				t.Fatalf("version %d", version)
			}
			after := contentOf(t, s)
			for _, added := range []string{"factors", "mails", "devices", "audit_events", "imported_tokens", "import_states"} {
				if rows, has := after[added]; !has || len(rows) != 0 {
					t.Errorf("%s %q", added, rows)
				}
				delete(after, added)
			}
			delete(after, "user_terms")
			delete(after, "client_terms")
			for table, empty := range map[string]string{"client_secrets": "", "users": map[string]string{"SQLite": "0", "PostgreSQL": "false"}[name]} { // a column more
				for i, row := range after[table] {
					after[table][i] = strings.TrimSuffix(row, " "+empty+"]") + "]"
				}
			}
			if !maps.EqualFunc(before, after, slices.Equal) {
				t.Errorf("the rows were\n%v\nand are\n%v", before, after)
			}
			if found, err := s.Users.FindUsers(t.Context(), store.UserQuery{Search: "ada", Limit: 1}); err != nil || len(found.Users) != 1 {
				t.Errorf("a search finds %v, %v", found.Users, err)
			}
			if found, err := s.Clients.FindClients(t.Context(), store.ClientQuery{Search: "app", Limit: 1}); err != nil || len(found.Clients) != 1 {
				t.Errorf("a search finds %v, %v", found.Clients, err)
			}
			for _, table := range []string{"clients", "users", "families"} {
				if len(after[table]) == 0 {
					t.Errorf("no rows in %s", table)
				}
			}
			user, err := s.Users.User(t.Context(), "ada")
			must(t, err)
			must(t, s.Factors.AddFactor(t.Context(), &store.Factor{ID: "t", UserID: "ada", Kind: store.TOTP, Data: []byte("sealed"), CreatedAt: time.Now()}, user.Version))
			must(t, s.Mails.AddMail(t.Context(), waitingMail, store.MailLimits{All: 1, PerAddress: 1}))
			device := &store.Device{ID: "d", ClientID: "app", UserCode: "digest", CreatedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour)}
			added, err := s.Devices.AddDevice(t.Context(), device, 1)
			if must(t, err); !added {
				t.Error("there is no room for a device")
			}
			must(t, s.Close())

			s = open(t)
			if own, err := s.Factors.Factors(t.Context(), "ada"); err != nil || len(own) != 1 || string(own[0].Data) != "sealed" {
				t.Errorf("factors %v, %v", own, err)
			}
			if due, err := s.Mails.DueMails(t.Context(), waitingMail.DueAt, 10); err != nil || len(due) != 1 || string(due[0].Sealed) != "sealed" {
				t.Errorf("mails %v, %v", due, err)
			}
			if d, err := s.Devices.DeviceByUserCode(t.Context(), "digest"); err != nil || d.ID != "d" {
				t.Errorf("device %v, %v", d, err)
			}
		})
	}
}

// waitingMail is due.
var waitingMail = store.Mail{
	ID: "m", To: "ada@example.com", Sealed: []byte("sealed"), CreatedAt: time.Unix(1, 0), DueAt: time.Unix(2, 0), ExpiresAt: time.Unix(3, 0),
}

// contentOf returns the rows of the tables, but for the version of the schema.
func contentOf(t *testing.T, s *Store) map[string][]string {
	t.Helper()
	tables := `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'`
	if s.db.dialect.concurrent() {
		tables = `SELECT tablename FROM pg_tables WHERE schemaname = 'public'`
	}
	content := make(map[string][]string)
	for _, table := range textsOf(t, s.db.write, tables) {
		if table != "goose_db_version" {
			content[table] = rowsOf(t, s.db.write, `SELECT * FROM `+table)
		}
	}
	content["counters"] = slices.DeleteFunc(content["counters"], func(row string) bool { return strings.HasPrefix(row, "[newest_schema ") })
	return content
}

// rowsOf returns the rows of a query as text, sorted.
func rowsOf(t *testing.T, db *sql.DB, query string) (lines []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	must(t, err)
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	must(t, err)
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		must(t, rows.Scan(into...))
		lines = append(lines, fmt.Sprint(values))
	}
	must(t, rows.Err())
	slices.Sort(lines)
	return lines
}

// textsOf returns the first column of a query.
func textsOf(t *testing.T, db *sql.DB, query string) (texts []string) {
	t.Helper()
	for _, row := range rowsOf(t, db, query) {
		texts = append(texts, row[1:len(row)-1])
	}
	return texts
}

// version1 returns a database with the first migration only.
func version1(t *testing.T) *sql.DB {
	t.Helper()
	file, err := sqlite.Open(t.Context(), newPath(t), sqlite.Options{Warn: func(format string, arguments ...any) { t.Errorf(format, arguments...) }})
	must(t, err)
	db := newSQLite(file, Options{}, file.TruncateLog, file.Backup)
	t.Cleanup(func() { must(t, db.Close()) })
	entries, err := migrationFiles.ReadDir("migrations")
	must(t, err)
	first := "migrations/" + entries[0].Name()
	text, err := migrationFiles.ReadFile(first)
	must(t, err)
	must(t, db.migrateTo(t.Context(), fstest.MapFS{first: {Data: text}}))
	return file.Write
}

// holdTables checks that two databases have the same tables and indices.
func holdTables(t *testing.T, db, want *sql.DB) {
	t.Helper()
	const schema = `SELECT name, sql FROM sqlite_schema`
	if got, want := rowsOf(t, db, schema), rowsOf(t, want, schema); !slices.Equal(got, want) {
		t.Errorf("the schema is\n%q\nand not\n%q", got, want)
	}
}
