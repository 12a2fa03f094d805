package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestBackup: a backup made while clients are added contains all that were acknowledged before it began, and opens like any database.
func TestBackup(t *testing.T) {
	s := openAt(t, newPath(t))
	to := filepath.Join(t.TempDir(), "backup.db")
	for n := range 20 {
		addClient(t, s, fmt.Sprint("before-", n))
	}
	ctx, stop := context.WithCancel(t.Context())
	var beside sync.WaitGroup
	beside.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			if err := s.Clients.AddClient(t.Context(), newClient(fmt.Sprint("beside-", n), oauth.NewClientSecret())); err != nil {
				t.Error(err)
				return
			}
		}
	})
	must(t, s.Backup(t.Context(), to))
	stop()
	beside.Wait()
	if info, err := os.Stat(to); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the file: %v, %v", info, err)
	}
	restored := filepath.Join(t.TempDir(), "data", "gatehouse.db")
	must(t, os.Mkdir(filepath.Dir(restored), 0o700))
	must(t, os.Rename(to, restored))
	copied := openAt(t, restored)
	for n := range 20 {
		if _, err := copied.Clients.Client(t.Context(), fmt.Sprint("before-", n)); err != nil {
			t.Errorf("client %d: %v", n, err)
		}
	}
}

// TestBackupRefuses: a backup overwrites nothing, and a failed backup leaves no incomplete copy.
func TestBackupRefuses(t *testing.T) {
	s := openAt(t, newPath(t))
	taken := filepath.Join(t.TempDir(), "taken")
	must(t, os.WriteFile(taken, []byte("precious"), 0o600))
	if err := s.Backup(t.Context(), taken); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a file that exists: %v", err)
	}
	if text, _ := os.ReadFile(taken); string(text) != "precious" {
		t.Errorf("it holds %q now", text)
	}
	if err := s.Backup(t.Context(), "relative.db"); err == nil {
		t.Error("a relative path was taken: relative to what?")
	}
	ctx, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	half := filepath.Join(t.TempDir(), "half")
	if err := s.Backup(ctx, half); err == nil {
		t.Error("a backup without time succeeded")
	}
	if _, err := os.Stat(half); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what failed left a file: %v", err)
	}
	server := openPostgres(t, sharedDatabase(t))
	if err := server.Backup(t.Context(), half); !errors.As(err, new(NoBackup)) {
		t.Errorf("PostgreSQL: %v", err)
	}
}
