package sqlstore

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// smallDisk mounts a small disk until the test ends, and returns its path. It requires root.
func smallDisk(t *testing.T) string {
	t.Helper()
	path := t.TempDir()
	if err := syscall.Mount("tmpfs", path, "tmpfs", 0, "mode=0700,size=4m"); err != nil {
		t.Fatalf("mounting a small disk, which takes root: %v", err)
	}
	t.Cleanup(func() { must(t, syscall.Unmount(path, syscall.MNT_DETACH)) })
	return path
}

// TestF4F5StartOnABadDisk opens a database where nothing can be written. That fails with a reason, and succeeds once writing is possible.
func TestF4F5StartOnABadDisk(t *testing.T) {
	disk := smallDisk(t)
	old, fresh := filepath.Join(disk, "old", "gatehouse.db"), filepath.Join(disk, "fresh", "gatehouse.db")
	useOnce(t, old)

	remount := func(flags uintptr) {
		must(t, syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT|flags, "mode=0700,size=4m"))
	}
	remount(syscall.MS_RDONLY)
	refused(t, old, "may be read-only")
	refused(t, fresh, "read-only file system")
	remount(0)

	filler := filepath.Join(disk, "filler")
	file, err := os.Create(filler)
	must(t, err)
	for block := make([]byte, 4096); err == nil; {
		_, err = file.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	must(t, file.Close())
	refused(t, old, "is full")
	refused(t, fresh, "is full")
	must(t, os.Remove(filler))
	for _, path := range []string{old, fresh} {
		useOnce(t, path)
		must(t, inspect(t.Context(), path))
	}
}

// useOnce opens a database, writes into it and closes it.
func useOnce(t *testing.T, path string) {
	t.Helper()
	s, err := OpenSQLite(t.Context(), path, Options{})
	must(t, err)
	must(t, errors.Join(s.Revocations.Revoke(t.Context(), revocation("app")), s.Close()))
}
