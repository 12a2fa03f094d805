package sqlite

import (
	"errors"
	"fmt"
	"strings"

	driver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

func isBusy(err error) bool {
	var failure *driver.Error
	return errors.Is(err, errLogInUse) || errors.As(err, &failure) && failure.Code()&0xff == sqlite3.SQLITE_BUSY
}

// IsMissingTable reports whether a statement names a table that does not exist. SQLite has no error code for that.
func IsMissingTable(err error) bool {
	var failure *driver.Error
	return errors.As(err, &failure) && failure.Code()&0xff == sqlite3.SQLITE_ERROR && strings.Contains(failure.Error(), "no such table")
}

// Explain prefixes the driver's error with what an operator can do.
func Explain(err error) error {
	var failure *driver.Error
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
