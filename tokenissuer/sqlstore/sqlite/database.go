// Package sqlite opens an SQLite database, in a file or in memory: who may read the file, how each connection is set, whether the
// file is sound, how long a writer waits for another process, and what the errors mean. It knows nothing of the tables in it.
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

// Warn is called with what was found wrong.
type Warn func(format string, args ...any)

// Options are the settings of an opening.
type Options struct {
	Warn Warn
	// LockTimeout is how long a writer waits for another process's.
	LockTimeout time.Duration
	// CheckedAtOnce is the largest size in bytes of a file in which Open looks for damage from one end to the other. Of a larger one
	// it leaves out LargeTables. A gigabyte takes about two seconds.
	CheckedAtOnce int64
	LargeTables   []string
}

// Database is an open database. Lasts is the writer's; everything else is safe for concurrent use.
type Database struct {
	// Write has one connection: SQLite lets one writer in at a time. The writers of this process queue in memory, first come, first
	// served; SQLite's own lock, which is polled, is left to other processes.
	Write *sql.DB
	// Read has connections that cannot write. In memory it is Write.
	Read *sql.DB
	// Checked: Open has looked for damage in all of the file.
	Checked bool

	path        string      // empty: the database is in memory
	opened      fs.FileInfo // the database
	large       bool        // the operator knows of the log
	warn        Warn
	lockTimeout time.Duration
}

// Open opens the database in the file at path, and creates file and directory when they are missing. It refuses a file that is
// damaged, or open to others in a way that it cannot put right. The caller closes both handles, the one for writing last: the last
// connection to leave a file clears its log, and must be able to write.
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
	err = d.AwaitLock(ctx.Done(), func() error { return d.check(ctx, options) }) // SQLite itself does not wait where two make the log at once
	if err != nil {
		return nil, errors.Join(err, d.Read.Close(), d.Write.Close())
	}
	return d, nil
}

// OpenMemory opens a new database in memory. Its one connection is the database: it stays open until the handle is closed, nothing
// else can reach it, and a reader waits for the transaction that is under way. Several connections to one database in memory would
// either read what is not committed, or fail and ask again, because such a database has no write-ahead log.
func OpenMemory() (*Database, error) {
	db, err := sql.Open("sqlite", "file::memory:?"+settings)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return &Database{Write: db, Read: db, Checked: true}, nil
}

// settings are those of every connection:
//
//   - immediate transactions: a writer waits for its turn at the beginning, where waiting is possible;
//   - secure_delete: what is overwritten or deleted is filled with zeros;
//   - dqs off, defensive, trusted_schema off: a misspelt name fails, a strange file can do less.
const settings = "_foreign_keys=on&_txlock=immediate&_pragma=secure_delete(1)&_pragma=trusted_schema(0)&_dqs=0&_defensive=1&_error_rc=1"

// connect returns a handle for the file. Every connection gets these settings too:
//
//   - mode=rw: SQLite never makes the file itself, so it has the mode that we gave it;
//   - synchronous FULL: a commit that has been acknowledged survives a power cut;
//   - journal_size_limit: a log that grew under a long reader shrinks again.
func (d *Database) connect(more string) (*sql.DB, error) {
	name := url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(filepath.ToSlash(d.path), "/")}
	return sql.Open("sqlite", name.String()+"?mode=rw&_busy_timeout="+strconv.FormatInt(d.lockTimeout.Milliseconds(), 10)+
		"&_synchronous=FULL&_pragma=journal_size_limit("+strconv.Itoa(keptLog)+")&"+settings+"&"+more)
}
