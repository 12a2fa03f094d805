package sqlite

import (
	"errors"
	"fmt"
	"os"
)

const (
	// keptLog is the size to which the write-ahead log shrinks when it restarts: what a busy minute needs.
	keptLog = 8 << 20
	// largeLog is the size of the log at which the operator is warned. It means that nothing could be moved into the database for a long
	// time, because a process reads an older snapshot.
	largeLog = 64 << 20
)

// errMoved: SQLite itself would go on writing into files that no longer have a name.
var errMoved = errors.New("the database is not where it was opened")

// Lasts returns an error when a commit would not be durable. Call it during a transaction, when the log exists, and from one goroutine at
// a time.
func (d *Database) Lasts() error {
	if d.path == "" {
		return nil // a database in memory is not durable
	}
	database, err := os.Lstat(d.path)
	if err != nil {
		return fmt.Errorf("%w: %w", errMoved, err)
	}
	if !os.SameFile(database, d.opened) {
		return fmt.Errorf("%w: another file is at %s", errMoved, d.path)
	}
	log, err := os.Lstat(d.path + "-wal")
	if err != nil {
		return fmt.Errorf("%w: %w", errMoved, err)
	}
	if large := log.Size() > largeLog; large != d.large {
		d.large = large
		if large {
			d.warn("the write-ahead log %s-wal has grown to %d MiB: some process reads an old state of the database and does not end",
				d.path, log.Size()>>20)
		}
	}
	return nil
}
