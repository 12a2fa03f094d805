package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// filesMu serializes openings that may create a file. POSIX locks belong to the process: closing any descriptor of a file drops all of
// the process's locks on it, including SQLite's. An existing database is therefore never opened here, and a new one is closed before any
// other goroutine can have it open.
var filesMu sync.Mutex

// prepareFiles makes sure that the database, its log and its directory belong to uid and are closed to others, before SQLite reads or
// writes a byte: they contain signing keys. SQLite gives the files that it creates next to the database the database's mode, whatever the
// umask.
func prepareFiles(path string, uid int, warn Warn) error {
	filesMu.Lock()
	defer filesMu.Unlock()
	if err := prepareDirectory(path, uid, warn); err != nil {
		return err
	}
	// Check the log first: a process that starts at the same time writes the database before its log.
	wal, err := tightenFile(path+"-wal", uid, warn)
	if err != nil {
		return err
	}
	for _, suffix := range []string{"-shm", "-journal"} {
		if _, err := tightenFile(path+suffix, uid, warn); err != nil {
			return err
		}
	}
	size, err := tightenFile(path, uid, warn)
	if err != nil {
		return err
	}
	switch {
	case wal > 0 && size <= 0:
		// SQLite would delete the log, and with it all acknowledged commits that are not yet in the database.
		return fmt.Errorf("there is a write-ahead log and its database is missing or empty: restore the database, or move %s-wal away", path)
	case size == 0:
		warn("%s was empty: starting with nothing in it", path)
	case size == missing:
		return createFile(path)
	}
	return nil
}

// prepareDirectory creates the directory with mode 0700, or restricts it to 0700 when it contains only this database. It leaves a
// directory with other content unchanged, and refuses it if others can create files there.
func prepareDirectory(path string, uid int, warn Warn) error {
	dir := filepath.Dir(path)
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		// MkdirAll is subject to the umask, Chmod is not.
		//lint:ignore gosec a directory must be searchable by its owner
		if err := os.Chmod(dir, 0o700); err != nil {
			return err
		}
		if err := syncDirectory(filepath.Dir(dir)); err != nil {
			return err
		}
		info, err = os.Lstat(dir)
	}
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return fmt.Errorf("the directory %s is a symbolic link: name the directory that it leads to", dir)
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", dir)
	}
	owner := ownerOf(info, uid)
	if owner != uid && owner != 0 {
		return fmt.Errorf("the directory %s belongs to user %d, who could replace the database: use a directory of user %d", dir, owner, uid)
	}
	mode := info.Mode().Perm()
	if mode&0o077 == 0 || !permissionsMatter {
		return nil
	}
	alone, err := holdsOnly(dir, filepath.Base(path))
	if err != nil {
		return err
	}
	switch {
	case owner == uid && alone:
		return tighten(dir, mode, 0o700, warn)
	case mode&0o022 != 0:
		return fmt.Errorf("others can write to the directory %s (mode %04o): use a directory of its own for the database", dir, mode)
	}
	warn("others can list the directory %s (mode %04o), which holds more than the database: better use one of its own", dir, mode)
	return nil
}

// holdsOnly reports whether the directory contains only the named database and its companion files.
func holdsOnly(dir, name string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, err
	}
	for _, entry := range entries {
		switch entry.Name() {
		case name, name + "-wal", name + "-shm", name + "-journal":
		default:
			return false, nil
		}
	}
	return true, nil
}

// missing is the size of a file that does not exist.
const missing = -1

// tightenFile closes a file to others, and returns its size or missing.
func tightenFile(path string, uid int, warn Warn) (int64, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return missing, nil
	}
	if err != nil {
		return 0, err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return 0, fmt.Errorf("%s is a symbolic link: name the file that it leads to", path)
	}
	if !info.Mode().IsRegular() {
		return 0, fmt.Errorf("%s is not a regular file", path)
	}
	if owner := ownerOf(info, uid); owner != uid {
		return 0, fmt.Errorf("%s belongs to user %d: it must belong to user %d, who runs this process", path, owner, uid)
	}
	if mode := info.Mode().Perm(); mode&^0o600 != 0 && permissionsMatter {
		err := tighten(path, mode, 0o600, warn)
		if errors.Is(err, fs.ErrNotExist) { // another process has just closed the database
			return missing, nil
		}
		if err != nil {
			return 0, err
		}
	}
	return info.Size(), nil
}

func tighten(path string, from, to fs.FileMode, warn Warn) error {
	if err := os.Chmod(path, to); err != nil {
		return err
	}
	warn("%s was open to others: its mode was %04o and is %04o now", path, from, to)
	return nil
}

// createFile creates an empty file with mode 0600 whose name survives a power loss. It accepts a file that another process has created in
// the meantime.
func createFile(path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	// The umask may have removed bits from the mode. It cannot have added any.
	if err := errors.Join(file.Chmod(0o600), file.Sync(), file.Close()); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(path))
}
