//go:build unix

package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestK5ForeignOwner runs as another user than the owner of file and directory. A directory of root is trusted, a file of root is not.
func TestK5ForeignOwner(t *testing.T) {
	ignore := func(string, ...any) {}
	path := filepath.Join(t.TempDir(), "data", "gatehouse.db")
	open := func() error {
		d, err := Open(t.Context(), path, Options{Warn: ignore, LockTimeout: time.Minute})
		if err != nil {
			return err
		}
		return errors.Join(d.Read.Close(), d.Write.Close())
	}
	must(t, open())
	refused := func() {
		t.Helper()
		if err := open(); err == nil || !strings.Contains(err.Error(), "belongs to user 12345") {
			t.Errorf("what belongs to another user: %v", err)
		}
	}
	stranger := os.Geteuid() + 1
	if _, err := tightenFile(path, stranger, ignore); err == nil || !strings.Contains(err.Error(), "belongs to user") {
		t.Errorf("a stranger's file gave %v", err)
	}
	err := prepareDirectory(path, stranger, ignore)
	if trusted := os.Geteuid() == 0; trusted != (err == nil) {
		t.Errorf("another user's directory gave %v", err)
	}
	if os.Geteuid() == 0 { // only root can give a directory away
		must(t, os.Chown(filepath.Dir(path), 12345, -1))
		refused()
		must(t, os.Chown(filepath.Dir(path), 0, -1))
		must(t, os.Chown(path, 12345, -1))
		refused()
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
