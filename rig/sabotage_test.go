//go:build linux && failpoint

package rig

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// databaseFiles are the files of SQLite: any of them may contain committed content.
var databaseFiles = []string{"gatehouse.db", "gatehouse.db-wal", "gatehouse.db-shm"}

// copyDatabase copies the files of a node that is down. A file missing in from is removed in to.
func copyDatabase(from, to string) error {
	for _, name := range databaseFiles {
		content, err := os.ReadFile(from + "/" + name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			err = os.RemoveAll(to + "/" + name)
		case err == nil:
			err = os.WriteFile(to+"/"+name, content, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// TestCrashIsNoticed runs the rig on a node that loses acknowledged changes: after a while its database reverts to an earlier state. The
// rig must find errors, or it would never find any.
func TestCrashIsNoticed(t *testing.T) {
	r := onSQLite(t)
	r.want = 4
	kept, items, forgotten := t.TempDir(), int64(0), false
	r.between = func(n *Node) {
		var err error
		switch now := r.books.counts.refreshes.Load(); {
		case forgotten:
			return
		case items == 0 && now >= 20:
			err = copyDatabase(n.Dir, kept)
			items = now
		case items > 0 && now >= items+100:
			err = copyDatabase(kept, n.Dir)
			forgotten = true
		}
		r.want++ // until enough has been lost
		if err != nil {
			t.Error(err)
		}
	}
	wrong := strings.Join(r.crash(1), "\n")
	for _, want := range []string{"an acknowledged refresh token is refused", "the history of a family is Illegal"} {
		if !strings.Contains(wrong, want) {
			t.Errorf("the rig does not say %q, but: %s", want, wrong)
		}
	}
}
