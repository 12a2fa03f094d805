package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// OpenSQLite opens the SQLite database in the file at path, and creates file and directory when they are missing. It
// refuses a file that is damaged, of a newer schema, or open to others in a way that it cannot put right.
//
// Several processes may have one file open: a write waits up to two seconds for another process's. The file must lie
// on a local disk, because SQLite's locks do not hold on network file systems.
func OpenSQLite(ctx context.Context, path string, options Options) (*Store, error) {
	fail := func(err error) (*Store, error) {
		return nil, fmt.Errorf("opening SQLite database %s: %w", path, explainSQLite(err))
	}
	if path == "" {
		return fail(errors.New("the path is empty"))
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return fail(err)
	}
	if err := prepareFiles(absolute, os.Geteuid(), options); err != nil {
		return fail(err)
	}
	files, err := newFileWatch(absolute, options)
	if err != nil {
		return fail(err)
	}
	write, err := sql.Open("sqlite", dsn(absolute, "_journal_mode=WAL"))
	if err != nil {
		return fail(err)
	}
	read, err := sql.Open("sqlite", dsn(absolute, "_query_only=on"))
	if err != nil {
		return fail(errors.Join(err, write.Close()))
	}
	// SQLite lets one writer in at a time. With one connection the writers of this process queue in memory, first
	// come, first served; SQLite's own lock, which is polled, is left to other processes.
	write.SetMaxOpenConns(1)
	readers := 2 * runtime.GOMAXPROCS(0)
	read.SetMaxOpenConns(readers)
	read.SetMaxIdleConns(readers)
	var checked bool
	err = awaitLock(ctx.Done(), func() (err error) { // SQLite itself does not wait where two make the log at once
		checked, err = checkSQLite(ctx, write, absolute)
		return err
	})
	if err != nil {
		return fail(errors.Join(err, read.Close(), write.Close()))
	}
	s, err := open(ctx, &Store{
		write: write, read: handle{db: read}, feed: handle{db: read}, options: options,
		dialect: dialect{goose: goose.DialectSQLite3, erase: truncateLog, newRunner: files.groupCommit,
			place: "rowid", placeAmong: "rowid IN (%s)",
			backup: func(ctx context.Context, to string) error { return backupSQLite(ctx, absolute, to) },
		},
	})
	if err != nil {
		return fail(err)
	}
	if !checked {
		s.later(s.checkLarge)
	}
	return s, nil
}

// dsn is the driver's name for the file. Every connection gets these settings:
//
//   - mode=rw: SQLite never makes the file itself, so it has the mode that we gave it;
//   - synchronous FULL: a commit that has been acknowledged survives a power cut;
//   - immediate transactions: a writer waits for its turn at the beginning, where waiting is possible;
//   - journal_size_limit: a log that grew under a long reader shrinks again;
//   - secure_delete: what is overwritten or deleted is filled with zeros;
//   - dqs off, defensive, trusted_schema off: a misspelt name fails, a strange file can do less.
func dsn(path, more string) string {
	name := url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(filepath.ToSlash(path), "/")}
	return name.String() + "?mode=rw&_busy_timeout=" + strconv.FormatInt(lockTimeout.Milliseconds(), 10) + "&_synchronous=FULL&_foreign_keys=on&_txlock=immediate" +
		"&_pragma=journal_size_limit(" + strconv.Itoa(keptLog) + ")&_pragma=secure_delete(1)&_pragma=trusted_schema(0)&_dqs=0&_defensive=1&_error_rc=1&" + more
}

// checkSQLite makes sure that the settings took, on which durability rests, and that the file is sound; complete says
// whether all of it was looked at. SQLite keeps another journal without a word where a file system cannot do the one it
// was asked for.
func checkSQLite(ctx context.Context, db *sql.DB, path string) (complete bool, err error) {
	for _, check := range []struct{ pragma, want, otherwise string }{
		{"journal_mode", "wal", "the file system does not allow a write-ahead log: use a local disk"},
		{"synchronous", "2", "commits would not be durable"},
		{"foreign_keys", "1", "references would not be checked"},
	} {
		var got string
		if err := db.QueryRowContext(ctx, "PRAGMA "+check.pragma).Scan(&got); err != nil {
			return false, fmt.Errorf("asking for %s: %w", check.pragma, err)
		}
		if got != check.want {
			return false, fmt.Errorf("%s (%s is %q)", check.otherwise, check.pragma, got)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	if info.Size() <= checkedAtOnce {
		return true, checkSound(ctx, db, "1")
	}
	// Keys, clients and revocations are looked at now; the tables of people and their sign-ins, which may be very large, later.
	tables, err := askAll(ctx, query{on: &handle{db: db}, text: `SELECT name FROM sqlite_schema
		WHERE type = 'table' AND name NOT IN ('families', 'decided_requests', 'users', 'subjects', 'consents', 'attempts')
		AND name NOT LIKE 'sqlite\_%' ESCAPE '\'`}, nil, scanName)
	for _, table := range tables {
		err = errors.Join(err, checkSound(ctx, db, table))
	}
	return false, err
}

// checkedAtOnce is how large a file may be, in bytes, that is looked at from one end to the other before anybody is served: that
// takes about two seconds for a gigabyte.
var checkedAtOnce int64 = 64 << 20

// checkSound looks for damage: in a table, or in everything when what is "1".
func checkSound(ctx context.Context, db *sql.DB, what string) error {
	var got string
	if err := db.QueryRowContext(ctx, "PRAGMA quick_check("+what+")").Scan(&got); err != nil {
		return fmt.Errorf("looking for damage: %w", err)
	}
	if got != "ok" {
		return fmt.Errorf("the file is damaged: restore a backup (%q)", got)
	}
	return nil
}

func scanName(row scanner) (name string, err error) {
	err = row.Scan(&name)
	return name, err
}

// checkLarge looks for damage in a file that is in use. Until somebody restores a backup, whoever meets the damage gets an
// error.
func (s *Store) checkLarge(ctx context.Context) {
	if err := checkSound(ctx, s.feed.db, "1"); err != nil && ctx.Err() == nil {
		s.options.warn("%v", explainSQLite(err))
	}
}

// truncateLog moves the write-ahead log into the database and empties it, so that no older state of a page is left.
func truncateLog(ctx context.Context, db *sql.DB) error {
	var busy, logged, moved int
	return awaitLock(ctx.Done(), func() error {
		err := db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &logged, &moved)
		if err == nil && busy != 0 {
			err = errLogInUse
		}
		return err
	})
}

// errLogInUse: somebody reads an older state, or writes.
var errLogInUse = errors.New("the write-ahead log is in use")

// lockTimeout is how long a step waits for another process's.
var lockTimeout = 2 * time.Second

// lockPoll is how often it asks. SQLite's own waiting sleeps a tenth of a second between two queries in the end,
// and a process that commits without a pause is hardly ever met in that way.
const lockPoll = time.Millisecond

// awaitLock tries something until no other process is in its way, patience or stop ends it.
func awaitLock(stop <-chan struct{}, try func() error) error {
	for end := time.Now().Add(lockTimeout); ; {
		err := try()
		if !isBusy(err) || !time.Now().Before(end) {
			return err
		}
		select {
		case <-stop:
			return err
		case <-time.After(lockPoll):
		}
	}
}

func isBusy(err error) bool {
	var failure *sqlite.Error
	return errors.Is(err, errLogInUse) || errors.As(err, &failure) && failure.Code()&0xff == sqlite3.SQLITE_BUSY
}

// isMissingTable reports whether a statement names a table that does not exist. SQLite has no code of its own for that.
func isMissingTable(err error) bool {
	var failure *sqlite.Error
	return errors.As(err, &failure) && failure.Code()&0xff == sqlite3.SQLITE_ERROR && strings.Contains(failure.Error(), "no such table")
}

// explainSQLite puts what an operator can do before the driver's words.
func explainSQLite(err error) error {
	var failure *sqlite.Error
	if !errors.As(err, &failure) {
		return err
	}
	switch failure.Code() & 0xff { // the primary code; the rest is detail
	case sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("the file is not an SQLite database: restore a backup, or name another file: %w", err)
	case sqlite3.SQLITE_CORRUPT:
		return fmt.Errorf("the file is damaged: restore a backup: %w", err)
	case sqlite3.SQLITE_BUSY:
		return fmt.Errorf("another process keeps the database locked: %w", err)
	case sqlite3.SQLITE_FULL:
		return fmt.Errorf("the disk is full: %w", err)
	case sqlite3.SQLITE_READONLY:
		return fmt.Errorf("the file or its directory cannot be written: %w", err)
	case sqlite3.SQLITE_CANTOPEN:
		return fmt.Errorf("the file or its log cannot be opened for writing; the disk may be read-only, or too many files open: %w", err)
	case sqlite3.SQLITE_IOERR:
		return fmt.Errorf("the disk fails or is full: %w", err)
	}
	return err
}
