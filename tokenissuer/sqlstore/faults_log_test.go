package sqlstore

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestF7TruncatedLog opens databases whose log was cut or damaged. SQLite cannot distinguish that from a power loss during a write. What
// follows the damage is lost, what precedes it is complete, and no step is there partly.
func TestF7TruncatedLog(t *testing.T) {
	const frame, header = 24 + 4096, 32
	path, known, dir := newPath(t), newBooks(), memoryDir(t)
	s := openAt(t, path)
	w := scribe{store: s, note: func(note any) {
		if e := note.(entry); !e.acknowledged { // after damage nothing is guaranteed
			known.enter(e)
		}
	}}
	for i := range 3 {
		must(t, w.live(t.Context(), fmt.Sprint("family ", i), 2, true))
	}
	database, err := os.ReadFile(path)
	must(t, err)
	log, err := os.ReadFile(path + "-wal")
	must(t, err)
	frames := (len(log) - header) / frame
	if frames < 20 {
		t.Fatalf("there are %d frames: the test tries nothing", frames)
	}
	for n := 0; n <= frames; n += max(1, frames/10) {
		cut := header + n*frame
		for name, log := range map[string][]byte{
			"cut":              log[:cut],
			"cut amid a frame": log[:min(cut+frame/2, len(log))],
			"damaged":          flipped(log, min(cut+frame/2, len(log)-1)),
		} {
			left := map[string][]byte{"gatehouse.db": database, "gatehouse.db-wal": log}
			if err := restart(t.Context(), dir, left, known); err != nil {
				t.Errorf("the log is %s at frame %d of %d: %v", name, n, frames, err)
			}
		}
	}
	known.acknowledged = known.begun
	must(t, restart(t.Context(), dir, map[string][]byte{"gatehouse.db": database, "gatehouse.db-wal": log}, known))
}

// flipped is content with one byte changed.
func flipped(content []byte, at int) []byte {
	content = append([]byte(nil), content...)
	content[at] ^= 0xff
	return content
}

// TestF7WrongSchema opens databases that have our tables, without a record of the schema's version.
func TestF7WrongSchema(t *testing.T) {
	for name, statement := range map[string]string{
		"no version":   `DELETE FROM goose_db_version`,
		"version lost": `DROP TABLE goose_db_version`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // the library retries for three seconds
			path := newPath(t)
			sound(t, path)
			db, err := sql.Open("sqlite", path)
			must(t, err)
			_, err = db.ExecContext(t.Context(), statement)
			must(t, errors.Join(err, db.Close()))
			refused(t, path, "schema")
		})
	}
}

// TestF8LongReader: a foreign process reads an old state while the log grows → writes go on, and the log shrinks afterwards. The operator
// is warned once.
func TestF8LongReader(t *testing.T) {
	const alarm = 64 << 20
	path := newPath(t)
	var mu sync.Mutex
	var warnings []string
	s, err := OpenSQLite(t.Context(), path, Options{Warn: func(text string) {
		mu.Lock()
		defer mu.Unlock()
		warnings = append(warnings, text)
	}})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	foreign, err := sql.Open("sqlite", path)
	must(t, err)
	defer func() { must(t, foreign.Close()) }()
	reader, err := foreign.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
	must(t, err)
	var count int
	must(t, reader.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM families`).Scan(&count))
	for _, statement := range []string{`CREATE TABLE big (content BLOB)`, fmt.Sprintf(`INSERT INTO big VALUES (zeroblob(%d))`, alarm)} {
		_, err := foreign.ExecContext(t.Context(), statement)
		must(t, err)
	}
	for i := range 3 {
		addClient(t, s, fmt.Sprint("app ", i))
	}
	if size := logSize(t, path); size <= alarm {
		t.Fatalf("the log has %d bytes: the test tries nothing", size)
	}
	mu.Lock()
	if len(warnings) != 1 || !strings.Contains(warnings[0], path+"-wal has grown to 6") {
		t.Errorf("the warnings are %q", warnings)
	}
	mu.Unlock()
	must(t, reader.Rollback())
	for i := 0; logSize(t, path) > alarm/4; i++ {
		if i == 100 {
			t.Fatalf("after %d further steps the log has %d bytes", i, logSize(t, path))
		}
		must(t, s.Revocations.Revoke(t.Context(), store.Revocation{Kind: store.RevokeToken, ID: fmt.Sprint(i)}))
	}
}

func logSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path + "-wal")
	must(t, err)
	return info.Size()
}

// TestF5FilesRemoved: a file is taken away from under a store, or replaced by another → nothing is acknowledged until it is back. SQLite
// itself would go on writing into a file without a name.
func TestF5FilesRemoved(t *testing.T) {
	for name, take := range map[string]struct{ file, instead string }{
		"directory": {"", ""}, "database": {"gatehouse.db", ""}, "log": {"gatehouse.db-wal", ""},
		"another database": {"gatehouse.db", "another"},
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			s := openAt(t, path)
			addClient(t, s, "before")
			place := filepath.Join(filepath.Dir(path), take.file)
			must(t, os.Rename(place, place+".away"))
			if take.instead != "" {
				must(t, os.WriteFile(place, []byte(take.instead), 0o600))
			}
			if err := s.Clients.AddClient(t.Context(), newClient("meanwhile", oauth.NewClientSecret())); err == nil {
				t.Error("a step was acknowledged")
			}
			if err := s.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "not where it was opened") {
				t.Errorf("asking whether the store is ready gave %v", err)
			}
			if _, err := s.Clients.Client(t.Context(), "before"); err != nil {
				t.Errorf("reading: %v", err)
			}
			must(t, os.Rename(place+".away", place))
			addClient(t, s, "after")
			if _, err := s.Clients.Client(t.Context(), "meanwhile"); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("what was refused is there: %v", err)
			}
		})
	}
}
