package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/storetest"
)

// openAt opens the database at path. Any warning fails the test.
func openAt(t testing.TB, path string) *Store {
	t.Helper()
	return openWith(t, path, func(message string) { t.Errorf("warning: %s", message) })
}

// openWith opens the database at path.
func openWith(t testing.TB, path string, warn func(message string)) *Store {
	t.Helper()
	s, err := OpenSQLite(t.Context(), path, Options{Warn: warn})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// newPath returns a path in a directory that does not exist yet. It is in memory, because a busy disk takes half a second for a commit.
// Failures of a disk have their own tests (faults_vfs_test.go).
func newPath(t testing.TB) string { return filepath.Join(memoryDir(t), "data", "gatehouse.db") }

// diskPath is newPath on the disk, for tests with many callers, which interleave differently there, and for measurements.
func diskPath(t testing.TB) string { return filepath.Join(t.TempDir(), "data", "gatehouse.db") }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// addClient adds a confidential client and returns its secret.
func addClient(t testing.TB, s *Store, id string) oauth.Secret {
	t.Helper()
	secret := oauth.NewClientSecret()
	must(t, s.Clients.AddClient(context.Background(), newClient(id, secret)))
	return secret
}

func newClient(id string, secret oauth.Secret) *store.Client {
	return &store.Client{
		ID: id, Name: "name of " + id, Type: store.ConfidentialClient, CreatedAt: time.Now(),
		Secrets: []store.ClientSecret{{Digest: secret.Digest(), CreatedAt: time.Now()}},
		Grants:  []oauth.GrantType{oauth.ClientCredentials}, Scopes: oauth.Scopes{"public", "read", "write"},
	}
}

func revocation(id string) store.Revocation {
	return store.Revocation{Kind: store.RevokeClient, ID: id, ExpiresAt: time.Now().Add(time.Hour)}
}

// TestSQLite opens copies of one empty database. Other tests cover the creation of the schema.
func TestSQLite(t *testing.T) {
	empty := newPath(t)
	must(t, openAt(t, empty).Close())
	content, err := os.ReadFile(empty)
	must(t, err)
	storetest.Run(t, func(t *testing.T) store.Store {
		path := newPath(t)
		must(t, os.Mkdir(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, content, 0o600))
		// The suite revokes keys while others use the store, and a log that is in use cannot be emptied. Other tests cover that the store
		// empties the log, and that it warns when it cannot.
		return openWith(t, path, func(message string) {
			if !strings.Contains(message, "the write-ahead log is in use") {
				t.Errorf("warning: %s", message)
			}
		}).Store
	})
}

func TestSQLiteDurable(t *testing.T) {
	storetest.RunDurable(t, func(t *testing.T) func() store.Store {
		path := newPath(t)
		return func() store.Store { return openAt(t, path).Store }
	})
}

// TestSettingsOfEveryConnection checks the settings that durability depends on for each connection of the pools, not only the first.
func TestSettingsOfEveryConnection(t *testing.T) {
	asANode(t)
	s := openAt(t, newPath(t))
	for _, pool := range []struct {
		name      string
		db        *sql.DB
		queryOnly string
		timeout   string
	}{{"writer", s.db.write, "0", "0"}, {"reader", s.db.read.db, "1", "2000"}} {
		want := map[string]string{"journal_mode": "wal", "synchronous": "2", "busy_timeout": pool.timeout, "foreign_keys": "1",
			"secure_delete": "1", "temp_store": "2", "trusted_schema": "0", "query_only": pool.queryOnly}
		for range pool.db.Stats().MaxOpenConnections {
			conn, err := pool.db.Conn(t.Context()) // kept until the end, which makes the next one a different connection
			must(t, err)
			defer func() { _ = conn.Close() }()
			for pragma, want := range want {
				var got string
				must(t, conn.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got))
				if got != want {
					t.Errorf("a %s has %s %q, want %q", pool.name, pragma, got, want)
				}
			}
		}
	}
}

// TestPathsAreNames opens files whose names have a meaning in a URI. A misread name would lead to another file.
func TestPathsAreNames(t *testing.T) {
	for _, name := range []string{"a b.db", "a?mode=memory.db", "a#b.db", "a%41.db", "a&b=c.db", "ä.db", ":memory:", "file:x.db"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "data", name)
			addClient(t, openAt(t, path), "app")
			entries, err := os.ReadDir(filepath.Dir(path))
			must(t, err)
			for _, entry := range entries {
				if !strings.HasPrefix(entry.Name(), name) {
					t.Errorf("%q appeared beside %q", entry.Name(), name)
				}
			}
			if info, err := os.Stat(path); err != nil || info.Size() == 0 {
				t.Errorf("the file has not been written (%v)", err)
			}
		})
	}
	if _, err := OpenSQLite(t.Context(), "", Options{}); err == nil {
		t.Error("an empty path was opened")
	}
}

// TestReadersDoNotWait reads while a writer has an open transaction.
func TestReadersDoNotWait(t *testing.T) {
	s := openAt(t, newPath(t))
	addClient(t, s, "app")
	tx, err := s.db.write.BeginTx(t.Context(), nil)
	must(t, err)
	_, err = tx.ExecContext(t.Context(), `UPDATE clients SET disabled = $1 WHERE id = $2`, true, "app")
	must(t, err)
	c, err := s.Clients.Client(t.Context(), "app")
	must(t, err)
	if c.Disabled {
		t.Error("a reader saw what is not committed")
	}
	must(t, tx.Commit())
	c, err = s.Clients.Client(t.Context(), "app")
	must(t, err)
	if !c.Disabled {
		t.Error("a reader did not see what is committed")
	}
}

// asANode sets the timeouts of a node for waiting on other processes and servers during the test.
func asANode(t *testing.T) {
	t.Helper()
	lock, server := lockTimeout, serverTimeout
	lockTimeout, serverTimeout = nodesLockTimeout, nodesServerTimeout
	t.Cleanup(func() { lockTimeout, serverTimeout = lock, server })
}

// TestForeignWriter: another handle keeps the file locked. The wait ends, and the step has not happened.
func TestForeignWriter(t *testing.T) {
	defer func(before time.Duration) { lockTimeout = before }(lockTimeout)
	lockTimeout = 100 * time.Millisecond
	path := newPath(t)
	s, foreign := openAt(t, path), openAt(t, path)
	tx, err := foreign.db.write.BeginTx(t.Context(), nil)
	must(t, err)
	if err := s.Clients.AddClient(t.Context(), newClient("app", oauth.NewClientSecret())); err == nil {
		t.Error("a step succeeded under a foreign lock")
	}
	must(t, tx.Rollback())
	inTime(t, "a step", func() error { return s.Clients.AddClient(t.Context(), newClient("app", oauth.NewClientSecret())) })
}

// TestStepsAreWhole breaks the second half of each step. The first half must be rolled back.
func TestStepsAreWhole(t *testing.T) {
	s := openAt(t, newPath(t))
	addClient(t, s, "app")
	before, err := s.Clients.Client(t.Context(), "app")
	must(t, err)
	must(t, s.Imports.AddImportedUser(t.Context(), "old", "said", importedUser("ada"), true))
	for _, statement := range []string{`CREATE TRIGGER no_imports BEFORE INSERT ON imported_tokens WHEN NEW.record = x'32'
		BEGIN SELECT RAISE(ABORT, 'broken'); END`, `CREATE TRIGGER no_states BEFORE INSERT ON import_states BEGIN SELECT RAISE(ABORT, 'broken'); END`,
		`DROP TABLE counters`, `CREATE TRIGGER no_secrets BEFORE INSERT ON client_secrets
		BEGIN SELECT RAISE(ABORT, 'broken'); END`} {
		_, err := s.db.write.ExecContext(t.Context(), statement)
		must(t, err)
	}
	for name, err := range map[string]error{
		"DisableClient":      s.Clients.ChangeClient(t.Context(), "app", store.DisableClient(revocation("app"))),
		"RemoveClient":       s.Clients.RemoveClient(t.Context(), "app", revocation("app")),
		"RotateClientSecret": s.Clients.ChangeClient(t.Context(), "app", store.RotateSecret(store.ClientSecret{CreatedAt: time.Now()}, time.Now())),
		"AddClient":          s.Clients.AddClient(t.Context(), newClient("other", oauth.NewClientSecret())),
		"AddImportedUser":    s.Imports.AddImportedUser(t.Context(), "old", "said", importedUser("eve"), true),
		"AddImportedClient":  s.Imports.AddImportedClient(t.Context(), "old", "said", &store.Client{ID: "third"}),
		"ImportTokens":       importTwo(t, s),
	} {
		if err == nil {
			t.Errorf("%s succeeded on a broken database", name)
		}
	}
	list, err := s.Clients.Clients(t.Context())
	must(t, err)
	if len(list) != 1 || list[0].Disabled || len(list[0].Secrets) != 1 || !list[0].Secrets[0].Equal(before.Secrets[0]) {
		t.Errorf("half of a step stayed: %+v", list)
	}
	var subjects int
	must(t, s.db.read.db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM subjects WHERE id NOT LIKE $1`, standIn+"%").Scan(&subjects))
	if subjects != 2 { // app and ada
		t.Errorf("%d ids are taken, want two", subjects)
	}
	for _, table := range []string{"families", "imported_tokens"} {
		var rows int
		must(t, s.db.read.db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM `+table).Scan(&rows))
		if rows != 0 {
			t.Errorf("%d %s of half a batch stayed", rows, table)
		}
	}
}

func importedUser(id string) *store.User {
	return &store.User{ID: id, Email: id + "@old.example", Status: store.UserActive, PasswordHash: oauth.NewSecret("hash"), CreatedAt: time.Now().Truncate(time.Microsecond)}
}

// importTwo imports two tokens of ada.
func importTwo(t *testing.T, s *Store) error {
	batch := store.ImportBatch{Source: "old"}
	for _, record := range []string{"1", "2"} {
		f := &store.TokenFamily{ID: record, User: store.FamilyUser{ID: "ada"}, Grant: store.Grant{ClientID: "app"}, Validity: store.Validity{ExpiresAt: time.Now().Add(time.Hour)}}
		batch.Tokens = append(batch.Tokens, store.NewImport{Family: f, ImportedToken: store.ImportedToken{Record: record, ID: record, FamilyID: record, Access: [32]byte{record[0]}, KeptUntil: f.ExpiresAt}})
	}
	_, err := s.Imports.ImportTokens(t.Context(), batch, store.Ending{At: time.Now()})
	return err
}

// TestTM1StandInIsNobody: the row that is read for unknown clients is not a client.
func TestTM1StandInIsNobody(t *testing.T) {
	s := openAt(t, newPath(t))
	if c, err := s.Clients.Client(t.Context(), standIn); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("got %+v, %v", c, err)
	}
	if list, err := s.Clients.Clients(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("listed %+v, %v", list, err)
	}
	if err := store.ValidateID(standIn); err == nil {
		t.Error("a client could have its id")
	}
}
