// Package sqlite opens an SQLite database, in a file or in memory: permissions of the file, connection settings, checks for damage,
// waiting for other processes, and the meaning of errors. It does not know the tables.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// Warn is called with problems that were found.
type Warn func(format string, args ...any)

// Options are the settings of Open.
type Options struct {
	Warn Warn
	// LockTimeout is how long a writer waits for another process.
	LockTimeout time.Duration
	// CheckedAtOnce is the largest size in bytes of a file that Open checks completely for damage. In a larger file it skips LargeTables.
	// A gigabyte takes about two seconds.
	CheckedAtOnce int64
	LargeTables   []string
}

// Database is an open database. Only the writer may call Lasts; everything else is safe for concurrent use.
type Database struct {
	// Write has one connection, because SQLite allows one writer at a time. The writers of this process queue for it in memory, first in,
	// first out. Only other processes wait for SQLite's own lock, which is polled.
	Write *sql.DB
	// Read has connections that cannot write. In memory it is Write.
	Read *sql.DB
	// Checked reports whether Open has checked the complete file for damage.
	Checked bool

	path        string      // empty: the database is in memory
	opened      fs.FileInfo // the file that was opened
	large       bool        // the operator was warned of the size of the log
	warn        Warn
	lockTimeout time.Duration
}

// Open opens the database in the file at path, and creates the file and its directory when they are missing. It refuses a file that is
// damaged or accessible to others in a way that it cannot correct. The caller closes both handles, Write last: the last connection that
// closes a file truncates its log, and must be able to write.
func Open(ctx context.Context, path string, options Options) (*Database, error) {
	if path == "" {
		return nil, errors.New("the path is empty")
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := prepareFiles(absolute, os.Geteuid(), options.Warn); err != nil {
		return nil, err
	}
	d := &Database{path: absolute, warn: options.Warn, lockTimeout: options.LockTimeout}
	if d.opened, err = os.Lstat(absolute); err != nil {
		return nil, err
	}
	if d.Write, err = d.connect("_journal_mode=WAL"); err != nil {
		return nil, err
	}
	if d.Read, err = d.connect("_query_only=on"); err != nil {
		return nil, errors.Join(err, d.Write.Close())
	}
	d.Write.SetMaxOpenConns(1)
	readers := 2 * runtime.GOMAXPROCS(0)
	d.Read.SetMaxOpenConns(readers)
	d.Read.SetMaxIdleConns(readers)
	err = d.AwaitLock(ctx.Done(), func() error { return d.check(ctx, options) }) // SQLite itself does not wait when two processes create the log at once
	if err != nil {
		return nil, errors.Join(err, d.Read.Close(), d.Write.Close())
	}
	return d, nil
}

// OpenMemory opens a new database in memory. Its one connection is the database: it stays open until the handle is closed, nothing else
// can reach it, and a reader waits for the current transaction. Several connections to one database in memory would either read
// uncommitted data, or fail and have to retry, because such a database has no write-ahead log.
func OpenMemory() (*Database, error) {
	db, err := sql.Open("sqlite", "file::memory:?"+settings)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return &Database{Write: db, Read: db, Checked: true}, nil
}

// settings apply to every connection:
//
//   - immediate transactions: a writer waits for its turn at the beginning, where waiting is possible;
//   - secure_delete: overwritten or deleted content is filled with zeros;
//   - temp_store: what a large step would undo and what a query sorts stays in memory. With a read-only root there may be no directory for it;
//   - dqs off, defensive, trusted_schema off: a misspelt name is an error, and a malicious file can do less.
const settings = "_foreign_keys=on&_txlock=immediate&_pragma=secure_delete(1)&_pragma=temp_store(2)&_pragma=trusted_schema(0)&_dqs=0&_defensive=1&_error_rc=1"

// connect returns a handle for the file. These settings apply to every connection too:
//
//   - mode=rw: SQLite never creates the file itself, which keeps the mode that prepareFiles set;
//   - synchronous FULL: an acknowledged commit survives a power loss;
//   - journal_size_limit: a log that grew under a long reader shrinks again.
func (d *Database) connect(more string) (*sql.DB, error) {
	name := url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(filepath.ToSlash(d.path), "/")}
	return sql.Open("sqlite", name.String()+"?mode=rw&_busy_timeout="+strconv.FormatInt(d.lockTimeout.Milliseconds(), 10)+
		"&_synchronous=FULL&_pragma=journal_size_limit("+strconv.Itoa(keptLog)+")&"+settings+"&"+more)
}
