package pgtest

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open opens a database with at most a few connections.
func open(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", dsn)
	must(t, err)
	db.SetMaxOpenConns(4)
	t.Cleanup(func() { must(t, db.Close()) })
	return db
}

func execute(t testing.TB, db *sql.DB, statement string) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), statement)
	must(t, err)
}

// ask checks the result of a query for one value. A pooled connection that died with the server fails once; the next one is new.
func ask[T comparable](t testing.TB, db *sql.DB, query string, want T) {
	t.Helper()
	var got T
	must(t, eventually("answer to "+query, func() (bool, error) {
		return db.QueryRowContext(t.Context(), query).Scan(&got) == nil, nil
	}))
	if got != want {
		t.Errorf("%s: got %v, want %v", query, got, want)
	}
}

// hangs runs a statement that must not be acknowledged.
func hangs(t testing.TB, db *sql.DB, statement string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := db.ExecContext(ctx, statement); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%s: error is %v, want no answer", statement, err)
	}
}

// TestDurabilityIsOn: the servers acknowledge nothing that is only in memory.
func TestDurabilityIsOn(t *testing.T) {
	db := open(t, Shared(t).Database(t))
	for _, setting := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
		ask(t, db, "SHOW "+setting, "on")
	}
}

// TestCommittedRowsSurvive: a server that was killed or stopped comes back at its address, with what was committed and nothing else.
func TestCommittedRowsSurvive(t *testing.T) {
	for _, end := range []struct {
		name string
		end  func(*Server)
	}{
		{"killed", (*Server).Kill},
		{"stopped", (*Server).Stop},
	} {
		t.Run(end.name, func(t *testing.T) {
			t.Parallel()
			s := Start(t)
			addr, db := s.Addr(), open(t, s.Database(t))
			execute(t, db, "CREATE TABLE rows (id int)")
			execute(t, db, "INSERT INTO rows VALUES (1)")
			open, err := db.BeginTx(t.Context(), nil)
			must(t, err)
			_, err = open.Exec("INSERT INTO rows VALUES (2)")
			must(t, err)

			end.end(s)
			if db.PingContext(t.Context()) == nil {
				t.Error("a server that is down answers")
			}
			s.Resume()
			if err := open.Commit(); err == nil {
				t.Error("a transaction of the server's earlier life commits")
			}
			ask(t, db, "SELECT array_agg(id)::text FROM rows", "{1}")
			if s.Addr() != addr {
				t.Errorf("the server moved from %s to %s", addr, s.Addr())
			}
		})
	}
}

// TestDatabaseIsGoneAfterItsTest: a database is dropped even if a client is still connected to it.
func TestDatabaseIsGoneAfterItsTest(t *testing.T) {
	s := Shared(t)
	var dsn string
	var straggler *sql.DB
	t.Run("inner", func(t *testing.T) {
		dsn = s.Database(t)
		var err error
		straggler, err = sql.Open("pgx", dsn)
		must(t, err)
		execute(t, straggler, "CREATE TABLE rows (id int)")
		if dsn == s.Database(t) {
			t.Error("two databases have one name")
		}
	})
	defer func() { _ = straggler.Close() }()
	there, err := s.holds("SELECT true FROM pg_database WHERE datname = $1", filepath.Base(strings.TrimSuffix(dsn, "?sslmode=disable")))
	must(t, err)
	if there || straggler.PingContext(t.Context()) == nil {
		t.Error("the database is still there")
	}
	if Shared(t) != s {
		t.Error("there are two shared servers")
	}
}

// TestCopy: a copy has the same content, and is another database.
func TestCopy(t *testing.T) {
	s := Shared(t)
	dsn := s.Database(t)
	db := open(t, dsn)
	execute(t, db, "CREATE TABLE rows AS SELECT 1 AS id")
	must(t, db.Close())
	copied := open(t, s.Copy(t, dsn))
	execute(t, copied, "INSERT INTO rows VALUES (2)")
	ask(t, copied, "SELECT count(*) FROM rows", 2)
	ask(t, open(t, dsn), "SELECT count(*) FROM rows", 1)
}

// TestStandby: no commit is acknowledged while a standby is away, and a promoted one has all that were.
func TestStandby(t *testing.T) {
	t.Parallel()
	primary := Start(t)
	dsn := primary.Database(t)
	db := open(t, dsn)
	execute(t, db, "CREATE TABLE rows (id int)")
	standby := primary.Standby(t)
	execute(t, db, "INSERT INTO rows VALUES (1)")
	standby.Kill()
	hangs(t, db, "INSERT INTO rows VALUES (2)")
	standby.Resume()
	execute(t, db, "INSERT INTO rows VALUES (3)")
	if _, err := open(t, Via(dsn, standby.Addr())).ExecContext(t.Context(), "INSERT INTO rows VALUES (5)"); err == nil {
		t.Error("a standby takes writes")
	}

	primary.Kill()
	standby.Promote()
	after := open(t, Via(dsn, standby.Addr()))
	execute(t, after, "INSERT INTO rows VALUES (4)")
	ask(t, after, "SELECT count(*) FROM rows WHERE id IN (1, 3, 4)", 3)
}

// TestMissingProgramsAreNamed: without a supported PostgreSQL the error names the package to install.
func TestMissingProgramsAreNamed(t *testing.T) {
	dir := t.TempDir()
	pattern := filepath.Join(dir, "*", "bin", "initdb")
	install := func(version string) {
		t.Helper()
		bin := filepath.Join(dir, version, "bin")
		must(t, os.MkdirAll(bin, 0o700))
		must(t, os.WriteFile(filepath.Join(bin, "initdb"), nil, 0o700))
	}
	for _, missing := range []string{"none", "9", "14"} {
		if missing != "none" {
			install(missing)
		}
		if _, err := findPrograms(pattern); err == nil || !strings.Contains(err.Error(), "package postgresql") {
			t.Errorf("version %s: error is %v, want the name of the package", missing, err)
		}
	}
	install("15")
	install("100")
	if bin, err := findPrograms(pattern); err != nil || bin != filepath.Join(dir, "100", "bin") {
		t.Errorf("got %s, %v, want the newest", bin, err)
	}
}
