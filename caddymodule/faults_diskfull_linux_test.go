package caddymodule

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// smallDisk mounts a disk of size bytes until the test ends and returns its path. It needs root.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	path := t.TempDir()
	if err := syscall.Mount("tmpfs", path, "tmpfs", 0, fmt.Sprint("mode=0700,size=", size)); err != nil {
		t.Fatalf("mounting a small disk, which takes root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(path, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmounting: %v", err)
		}
	})
	return path
}

// fill fills a disk. The returned function frees the space.
func fill(t *testing.T, disk string) (empty func()) {
	t.Helper()
	path := filepath.Join(disk, "filler")
	file, err := os.Create(path)
	check(t, err)
	for block := make([]byte, 4096); err == nil; {
		_, err = file.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("filling the disk: %v", err)
	}
	check(t, file.Close())
	return func() {
		check(t, os.Remove(path))
	}
}

// peopleAt returns the changes that give people a store in the file at path.
func peopleAt(path string) []string {
	return append(slices.Clone(patientCodes), "store memory", "store sqlite "+path)
}

// TestF4DiskFull: the disk under the store fills up → 503 and nothing acknowledged is lost; it serves when there is room.
func TestF4DiskFull(t *testing.T) {
	disk := smallDisk(t, 16<<20)
	path := filepath.Join(disk, "state", "oauth.db")
	u := openUsers(t, peopleAt(path)...)
	o := u.beforeFault()
	empty := fill(t, disk)
	o.holds()
	empty()
	o.ends()
	soundAt(t, path)
}

// TestF4LogFileFull: the disk of the log is full → the node keeps serving, and logs again when there is space.
func TestF4LogFileFull(t *testing.T) {
	disk := smallDisk(t, 1<<20)
	file := filepath.Join(disk, "caddy.log")
	g := startPeople(t, append(onDiskPeople, "file LOG", "file "+file)...)
	g.logFile = file
	r := requestOf("conf")
	got := g.userTokens(r, ada)
	empty := fill(t, disk)
	for range 20 {
		got = g.obtain(r.refresh(got.RefreshToken))
		if !g.alive(got.AccessToken) {
			t.Error("the gate refuses a good token")
		}
	}
	before := len(g.logs())
	empty()
	g.obtain(r.refresh(got.RefreshToken))
	g.eventually("there is a log again", func() bool { return len(g.logs()) > before })
}
