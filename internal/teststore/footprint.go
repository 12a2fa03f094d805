package teststore

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Footprint adds records to a SQLite file by several callers at once, and returns the bytes that each of them takes in the file and in the heap
// of the process. begin gets the store before, and returns the function that adds record i.
func Footprint(tb testing.TB, count int, begin func(store.Store) (add func(i int) error)) (file, heap float64) {
	tb.Helper()
	must := func(err error) {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
	}
	path := filepath.Join(tb.TempDir(), "state", "oauth.db")
	open := func() *sqlstore.Store {
		s, err := sqlstore.OpenSQLite(context.Background(), path, sqlstore.Options{Warn: func(message string) { tb.Errorf("warning: %s", message) }})
		must(err)
		return s
	}
	size := func() float64 { // of a file that is closed, so that the log is in it
		info, err := os.Stat(path)
		must(err)
		return float64(info.Size())
	}
	must(open().Close())
	empty := size()
	s := open()
	add := begin(s.Store)
	before := heapBytes()
	const callers = 32 // whose steps are committed together
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			for i := caller; i < count; i += callers {
				if err := add(i); err != nil {
					tb.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	after := heapBytes()
	runtime.KeepAlive(s)
	must(s.Close())
	return (size() - empty) / float64(count), (after - before) / float64(count)
}

// heapBytes returns the size of the live heap after a collection.
func heapBytes() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
