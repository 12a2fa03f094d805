//go:build unix

package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// permissionsMatter reports whether the mode of a file determines who may open it.
const permissionsMatter = true

// ownerOf returns the user id of a file's owner.
func ownerOf(info fs.FileInfo, otherwise int) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return otherwise
}

// syncDirectory makes the names in a directory durable, if the process may open it.
func syncDirectory(path string) error {
	dir, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
