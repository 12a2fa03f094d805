package sqlstore

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// refused ends the test unless opening fails with an error that contains all the words and names the file.
func refused(t *testing.T, path string, words ...string) {
	t.Helper()
	s, err := OpenSQLite(t.Context(), path, Options{})
	if err == nil {
		must(t, s.Close())
		t.Fatal("the database was opened")
	}
	for _, word := range append(words, path) {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error %q does not say %q", err, word)
		}
	}
}

// sound creates a database with a few hundred clients, closes it and returns its content.
func sound(t *testing.T, path string) []byte {
	t.Helper()
	s := openAt(t, path)
	for _, statement := range []string{
		`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)
			INSERT INTO subjects (id, kind) SELECT 'client ' || i, 'client' FROM n`,
		`INSERT INTO clients (id, members, disabled, origin, created_at)
			SELECT id, '{"name":"' || id || '","type":"public"}', 0, '', 0 FROM subjects WHERE id LIKE 'client %'`,
		`INSERT INTO client_secrets (client_id, number, digest, created_at, expires_at) SELECT id, 1, zeroblob(32), 0, 0 FROM clients WHERE id LIKE 'client %'`,
	} {
		_, err := s.db.write.ExecContext(t.Context(), statement)
		must(t, err)
	}
	must(t, s.Close())
	content, err := os.ReadFile(path)
	must(t, err)
	return content
}

// TestF7DamageIsRefused: a corrupted page, cut log or wrong schema → the start is refused with a clear message. Using such a file would
// mean creating new keys, or losing revocations.
func TestF7DamageIsRefused(t *testing.T) {
	const page = 4096
	t.Run("garbage", func(t *testing.T) {
		path := newPath(t)
		sound(t, path)
		must(t, os.WriteFile(path, bytes.Repeat([]byte("no database "), 1000), 0o600))
		refused(t, path, "not an SQLite database")
	})
	t.Run("truncated", func(t *testing.T) {
		path := newPath(t)
		content := sound(t, path)
		for size := len(content) - page; size >= page; size -= page {
			must(t, os.WriteFile(path, content[:size], 0o600))
			refused(t, path, "damaged")
		}
		must(t, os.WriteFile(path, content[:50], 0o600))
		refused(t, path)
	})
	t.Run("page", func(t *testing.T) {
		path := newPath(t)
		content := sound(t, path)
		for at := page; at < len(content); at += page {
			damaged := bytes.Clone(content)
			copy(damaged[at:at+page], bytes.Repeat([]byte{0xa5}, page))
			must(t, os.WriteFile(path, damaged, 0o600))
			refused(t, path, "damaged")
		}
		must(t, os.WriteFile(path, content, 0o600))
		must(t, openAt(t, path).Ping(t.Context())) // the original content is sound
	})
	t.Run("newer schema", func(t *testing.T) {
		path := newPath(t)
		s := openAt(t, path)
		_, err := s.db.write.ExecContext(t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)`)
		must(t, err)
		must(t, s.Close())
		refused(t, path, "schema version 9999", "newer build")
	})
}

// TestF7LogWithoutItsDatabase opens a path where only the log is left. SQLite itself would delete the log, and with it acknowledged
// commits.
func TestF7LogWithoutItsDatabase(t *testing.T) {
	path := newPath(t)
	s := openAt(t, path)
	addClient(t, s, "app")
	database, err := os.ReadFile(path)
	must(t, err)
	log, err := os.ReadFile(path + "-wal")
	must(t, err)
	must(t, s.Close())
	must(t, os.WriteFile(path+"-wal", log, 0o600))

	must(t, os.Remove(path))
	refused(t, path, "write-ahead log")
	must(t, os.WriteFile(path, nil, 0o600))
	refused(t, path, "write-ahead log")

	// With its database restored, the log contains the client.
	must(t, os.WriteFile(path, database, 0o600))
	_, err = openAt(t, path).Clients.Client(t.Context(), "app")
	must(t, err)
}

// TestEmptyFileIsNamed opens an empty file, which a crash of the very first start can leave.
func TestEmptyFileIsNamed(t *testing.T) {
	path := newPath(t)
	must(t, openAt(t, path).Close())
	must(t, os.Truncate(path, 0))
	var warnings []string
	s, err := OpenSQLite(t.Context(), path, Options{Warn: func(m string) { warnings = append(warnings, m) }})
	must(t, err)
	must(t, s.Close())
	if len(warnings) != 1 || !strings.Contains(warnings[0], "was empty") {
		t.Errorf("the warnings are %q", warnings)
	}
}

// TestOpeningIsCancelled: a cancelled opening leaves no incomplete schema behind.
func TestOpeningIsCancelled(t *testing.T) {
	path := newPath(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := OpenSQLite(ctx, path, Options{}); !errors.Is(err, ctx.Err()) {
		t.Errorf("opening returned %v", err)
	}
	must(t, os.Remove(path))
	if _, err := os.Stat(path + "-wal"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a log is left: %v", err)
	}
	addClient(t, openAt(t, path), "app")
}
