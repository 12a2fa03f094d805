//go:build unix

package sqlstore

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

func hasMode(t *testing.T, path string, want fs.FileMode) {
	t.Helper()
	info, err := os.Lstat(path)
	must(t, err)
	if got := info.Mode().Perm(); got != want {
		t.Errorf("%s has mode %04o, want %04o", filepath.Base(path), got, want)
	}
}

// TestK5ModesWhateverTheUmask: any umask → files 0600, directories 0700.
func TestK5ModesWhateverTheUmask(t *testing.T) {
	for _, mask := range []int{0, 0o022, 0o077, 0o277} {
		path := newPath(t)
		old := syscall.Umask(mask)
		s, err := OpenSQLite(t.Context(), path, Options{})
		if err == nil {
			err = s.Clients.AddClient(t.Context(), newClient("app", oauth.NewClientSecret()))
		}
		syscall.Umask(old)
		must(t, err)
		hasMode(t, filepath.Dir(path), 0o700)
		for _, suffix := range []string{"", "-wal", "-shm"} {
			hasMode(t, path+suffix, 0o600)
		}
		must(t, s.Close())
	}
}

// TestK5OpenFilesAreTightened: a database file or directory open to others → closed, with a warning.
func TestK5OpenFilesAreTightened(t *testing.T) {
	path := newPath(t)
	s := openAt(t, path)
	addClient(t, s, "app")
	names := []string{path, path + "-wal", path + "-shm"}
	content := make([][]byte, len(names))
	for i, name := range names {
		var err error
		content[i], err = os.ReadFile(name)
		must(t, err)
	}
	must(t, s.Close())
	for i, name := range names {
		must(t, os.WriteFile(name, content[i], 0o600))
		must(t, os.Chmod(name, 0o644))
	}
	must(t, os.Chmod(filepath.Dir(path), 0o755))

	var warnings []string
	s, err := OpenSQLite(t.Context(), path, Options{Warn: func(m string) { warnings = append(warnings, m) }})
	must(t, err)
	hasMode(t, filepath.Dir(path), 0o700)
	for _, name := range names {
		hasMode(t, name, 0o600)
	}
	if len(warnings) != 4 {
		t.Errorf("there are %d warnings, want 4: %q", len(warnings), warnings)
	}
	_, err = s.Clients.Client(t.Context(), "app")
	must(t, err)
	must(t, s.Close())
}

// TestK5SharedDirectory: a directory with other content is not changed. One that others can write to is refused, because they could
// replace the files of the database.
func TestK5SharedDirectory(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "gatehouse.db")
	must(t, os.WriteFile(filepath.Join(dir, "other"), nil, 0o600))
	must(t, os.Chmod(dir, 0o755))
	var warnings []string
	s, err := OpenSQLite(t.Context(), path, Options{Warn: func(m string) { warnings = append(warnings, m) }})
	must(t, err)
	must(t, s.Close())
	hasMode(t, dir, 0o755)
	hasMode(t, path, 0o600)
	if len(warnings) != 1 || !strings.Contains(warnings[0], "list the directory") {
		t.Errorf("the warnings are %q", warnings)
	}
	for _, mode := range []fs.FileMode{0o775, 0o757, 0o777 | fs.ModeSticky} {
		must(t, os.Chmod(dir, mode))
		refused(t, path, "others can write")
	}
}

// TestK5LinksAreRefused: a database path with a link → refused.
func TestK5LinksAreRefused(t *testing.T) {
	dir := t.TempDir()
	real := filepath.Join(dir, "real", "gatehouse.db")
	must(t, openAt(t, real).Close())
	linkedDir := filepath.Join(dir, "linked")
	must(t, os.Symlink(filepath.Dir(real), linkedDir))
	refused(t, filepath.Join(linkedDir, "gatehouse.db"), "symbolic link")

	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		other := filepath.Join(t.TempDir(), "data", "gatehouse.db")
		must(t, os.MkdirAll(filepath.Dir(other), 0o700))
		must(t, os.Symlink(real, other+suffix))
		refused(t, other, "symbolic link")
	}
}

// TestK5NoRegularFile puts other things than a regular file at the database's path.
func TestK5NoRegularFile(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o700))
	must(t, os.Mkdir(filepath.Join(dir, "directory"), 0o700))
	refused(t, filepath.Join(dir, "directory"), "not a regular file")
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	refused(t, filepath.Join(dir, "pipe"), "not a regular file")
	must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	refused(t, filepath.Join(dir, "file", "gatehouse.db"), "not a directory")
}
