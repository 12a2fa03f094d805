package caddymodule

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// smallDisk mounts a disk of so many bytes until the test ends, and returns where. It takes root to do that.
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

// fill leaves no space on a disk. The result gives it back.
func fill(t *testing.T, disk string) (empty func()) {
	t.Helper()
	path := filepath.Join(disk, "filler")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for block := make([]byte, 4096); err == nil; {
		_, err = file.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("filling the disk: %v", err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// peopleAt is people with a store in that file.
func peopleAt(path string) []string {
	return append(slices.Clone(patientCodes), "store memory", "store sqlite "+path)
}

// TestF4DiskFull: the disk under the store fills up → 503 and nothing acknowledged is lost; it serves when there is room.
func TestF4DiskFull(t *testing.T) {
	disk := smallDisk(t, 16<<20)
	path := filepath.Join(disk, "state", "oauth.db")
	u := openUsers(t, peopleAt(path)...)
	u.sub("the log grows", func(u *userDoor) {
		o := u.beforeFault()
		empty := fill(u.t, disk)
		o.holds()
		empty()
		o.ends()
	})
	u.sub("the log is moved", func(u *userDoor) {
		o := u.beforeFault()
		foreign := besideAt(u.t, path)
		foreign.SetMaxOpenConns(1)
		exec := func(statement string) error { _, err := foreign.Exec(statement); return err }
		for _, statement := range []string{`PRAGMA wal_autocheckpoint = 0`, `CREATE TABLE big (content BLOB)`,
			`INSERT INTO big VALUES (zeroblob(3000000))`} {
			if err := exec(statement); err != nil {
				u.t.Fatal(err)
			}
		}
		empty := fill(u.t, disk)
		var busy, logged, moved int
		err := foreign.QueryRow(`PRAGMA wal_checkpoint(FULL)`).Scan(&busy, &logged, &moved)
		if err == nil || !strings.Contains(err.Error(), "full") {
			u.t.Errorf("the log was moved onto a full disk: %v", err)
		}
		o.holds()
		empty()
		o.ends()
		if err := exec(`DROP TABLE big`); err != nil {
			u.t.Error(err)
		}
	})
	soundAt(t, path)
}

// TestF4LogFileFull: who cannot write a log goes on serving, and logs again when there is space.
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

// limitFiles sets how large the process may make a file. Beyond that a write fails, as it does on a broken disk.
func (n *ownProcess) limitFiles(size uint64) {
	n.t.Helper()
	limit := unix.Rlimit{Cur: size, Max: unix.RLIM_INFINITY}
	if err := unix.Prlimit(n.command.Process.Pid, unix.RLIMIT_FSIZE, &limit, nil); err != nil {
		n.t.Fatal(err)
	}
}

// TestF5WritesFail: every write that makes the store's log longer fails → 503, and nothing is acknowledged that is not durable.
func TestF5WritesFail(t *testing.T) {
	n := startNode(t, peopleSite(append(slices.Clone(patientCodes), onDiskPeople...)...), 1024)
	r := requestOf("conf")
	code, first := n.code(r, ada), n.userTokens(r, ada)
	log, err := os.Stat(n.database() + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	n.limitFiles(uint64(log.Size()))
	for range 3 {
		n.refused(r.exchange(code), http.StatusServiceUnavailable, "temporarily_unavailable")
		n.refused(r.refresh(first.RefreshToken), http.StatusServiceUnavailable, "temporarily_unavailable")
		if !n.alive(first.AccessToken) {
			t.Error("the gate refuses a good token")
		}
	}
	n.limitFiles(unix.RLIM_INFINITY)
	n.eventually("the store is back", func() bool {
		status, _, _ := n.post("/oauth/token", r.refresh(first.RefreshToken))
		return status == http.StatusOK
	})
	n.obtain(r.exchange(code))
	n.refused(r.exchange(code), http.StatusBadRequest, "invalid_grant")
	n.end()
	soundAt(t, n.database())
}
