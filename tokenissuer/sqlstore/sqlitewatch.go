package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

const (
	// keptLog is the size to which the write-ahead log shrinks when it starts over: what a busy minute needs.
	keptLog = 8 << 20
	// largeLog is the size of the log at which the operator is told. It means that for long nothing could be moved into
	// the database, because somebody reads an older state.
	largeLog = 64 << 20
)

// errMoved: SQLite itself would write on into files that nobody finds again.
var errMoved = errors.New("the database is not where it was opened")

// fileWatch looks at the files of an open database before each commit. The writer is the only one who uses it.
type fileWatch struct {
	path    string
	opened  fs.FileInfo // the database
	large   bool        // the operator knows of the log
	options Options
}

func newFileWatch(path string, options Options) (*fileWatch, error) {
	opened, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	return &fileWatch{path: path, opened: opened, options: options}, nil
}

// groupCommit is newGroupCommit for the files.
func (w *fileWatch) groupCommit(ctx context.Context, db *sql.DB, options Options) (runner, error) {
	return newGroupCommit(ctx, db, w.look, options)
}

// look returns an error when a commit would not last, amid a transaction: then the log exists.
func (w *fileWatch) look() error {
	database, err := os.Lstat(w.path)
	if err != nil {
		return fmt.Errorf("%w: %w", errMoved, err)
	}
	if !os.SameFile(database, w.opened) {
		return fmt.Errorf("%w: another file is at %s", errMoved, w.path)
	}
	log, err := os.Lstat(w.path + "-wal")
	if err != nil {
		return fmt.Errorf("%w: %w", errMoved, err)
	}
	if large := log.Size() > largeLog; large != w.large {
		w.large = large
		if large {
			w.options.warn("the write-ahead log %s-wal has grown to %d MiB: some process reads an old state of the database and does not end",
				w.path, log.Size()>>20)
		}
	}
	return nil
}
