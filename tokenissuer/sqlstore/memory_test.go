package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/storetest"
)

// openMemory opens a database in memory.
func openMemory(tb testing.TB) *Store {
	tb.Helper()
	s, err := OpenMemory(context.Background(), Options{Warn: func(message string) { tb.Errorf("warning: %s", message) }})
	must(tb, err)
	tb.Cleanup(func() { must(tb, s.Close()) })
	return s
}

// TestMemory covers each step on one connection, where a step that queries outside its transaction waits forever. Concurrent steps queue
// for that connection as they queue for the one writer of a file (groupcommit.go), where queries run beside them too: TestSQLite.
func TestMemory(t *testing.T) {
	storetest.RunSequential(t, func(t *testing.T) store.Store { return openMemory(t).Store })
}

// TestMemoryLastsAsLongAsItsStore: the connection is the database. It survives callers that cancel queries and an idle pool, no other
// store sees it, and Close leaves nothing of it.
func TestMemoryLastsAsLongAsItsStore(t *testing.T) { synctest.Test(t, memoryLastsAsLongAsItsStore) }

func memoryLastsAsLongAsItsStore(t *testing.T) {
	s, other := openMemory(t), openMemory(t)
	addClient(t, s, "app")
	if _, err := other.Clients.Client(t.Context(), "app"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("another store in memory reads the client: %v", err)
	}
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		err := ask(ctx, s.db.text(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n`), nil, func(rows *sql.Rows) error {
			for n := 0; rows.Next(); n++ {
				if n == 3 {
					cancel()
				}
			}
			return rows.Err()
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("a query without an end gave %v", err)
		}
	}
	time.Sleep(100 * 365 * 24 * time.Hour)
	if _, err := s.Clients.Client(t.Context(), "app"); err != nil {
		t.Errorf("after queries that were broken off: %v", err)
	}
	must(t, s.Close())
	if _, err := s.Clients.Client(t.Context(), "app"); err == nil || errors.Is(err, store.ErrNotFound) {
		t.Errorf("a closed store says %v", err)
	}
	if _, err := openMemory(t).Clients.Client(t.Context(), "app"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a new store in memory says %v", err)
	}
}

// TestMemoryHasNoBackup: a database in memory is not durable. A backup of it would only store the keys unencrypted.
func TestMemoryHasNoBackup(t *testing.T) {
	path := filepath.Join(t.TempDir(), "copy.db")
	if err := openMemory(t).Backup(t.Context(), path); !errors.As(err, new(NoBackup)) {
		t.Errorf("a backup gave %v", err)
	}
}

func BenchmarkOpenMemory(b *testing.B) {
	for b.Loop() {
		s, err := OpenMemory(b.Context(), Options{})
		must(b, err)
		must(b, s.Close())
	}
}
