package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// fault is a way in which a disk fails: an error code for each kind of operation. Other kinds succeed.
type fault struct {
	name  string
	codes map[operationKind]int32
	lasts bool // until it is repaired; otherwise one operation fails
}

var faults = []fault{
	{"full", map[operationKind]int32{written: sqlite3.SQLITE_FULL}, true},
	{"broken", map[operationKind]int32{
		written: sqlite3.SQLITE_IOERR_WRITE, truncated: sqlite3.SQLITE_IOERR_TRUNCATE, synced: sqlite3.SQLITE_IOERR_FSYNC,
	}, true},
	{"broken for a moment", map[operationKind]int32{
		written: sqlite3.SQLITE_IOERR_WRITE, truncated: sqlite3.SQLITE_IOERR_TRUNCATE, synced: sqlite3.SQLITE_IOERR_FSYNC,
	}, false},
	{"read-only", map[operationKind]int32{written: sqlite3.SQLITE_READONLY, truncated: sqlite3.SQLITE_READONLY}, true},
}

// after returns a function that fails the operations that the fault affects, once count of them have succeeded. It counts the failures in
// hit.
func (f fault) after(count int, hit *int) func(operation) int32 {
	return func(o operation) int32 {
		code := f.codes[o.kind]
		if count--; code == sqlite3.SQLITE_OK || count >= 0 || *hit > 0 && !f.lasts {
			return sqlite3.SQLITE_OK
		}
		*hit++
		return code
	}
}

// TestF4F5EveryWriteFails: the disk fails at any operation of a family's life: when the log grows, is moved into the database or is
// synced → steps fail, nothing acknowledged is lost, nothing is half done. Reads continue, and writes too as soon as the disk is
// repaired.
func TestF4F5EveryWriteFails(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			path := newPath(t)
			d := watchDisk(t, filepath.Dir(path))
			var warnings sync.Map
			s, err := OpenSQLite(t.Context(), path, Options{Warn: func(text string) { warnings.Store(text, true) }})
			must(t, err)
			known := newBooks()
			recent := known
			w := scribe{store: s, note: func(note any) { known.enter(note.(entry)); recent.enter(note.(entry)) }}
			refused := 0
			for count := 0; ; count++ {
				hit := 0
				recent = newBooks()
				d.refuseBy(f.after(count, &hit))
				err := lifeWithCheckpoint(t, w, fmt.Sprint("family ", count))
				reading := recent.audit(t.Context(), s)
				d.refuseBy(nil)
				if reading != nil {
					t.Fatalf("operation %d refused: reading meanwhile: %v", count, reading)
				}
				if err != nil {
					refused++
				} else if hit == 0 {
					break // the whole life ended before that operation
				}
				must(t, s.Ping(t.Context()))
				must(t, w.live(t.Context(), fmt.Sprint("after ", count), 0, false))
				if err := recent.audit(t.Context(), s); err != nil {
					t.Fatalf("operation %d refused: %v", count, err)
				}
			}
			if refused < 10 {
				t.Errorf("%d steps failed: the test tries nothing", refused)
			}
			warnings.Range(func(text, _ any) bool {
				if !strings.Contains(text.(string), "stay in the database's files") {
					t.Errorf("warning: %s", text)
				}
				return true
			})
			must(t, s.Close())
			s, err = OpenSQLite(t.Context(), path, Options{})
			must(t, err)
			must(t, errors.Join(known.audit(t.Context(), s), s.Close(), inspect(t.Context(), path)))
			t.Logf("%d steps failed", refused)
		})
	}
}

// lifeWithCheckpoint runs a family through its life and moves the log into the database.
func lifeWithCheckpoint(t *testing.T, w scribe, id string) error {
	return errors.Join(w.seal(t.Context(), "key of "+id), w.live(t.Context(), id, 1, true))
}

// TestF5FailsWhileItOpens fails disk operations of the first and of a later opening. The opening returns an error. Once the disk is
// repaired it succeeds, and nothing is lost.
func TestF5FailsWhileItOpens(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			first := tryOpenings(t, f, func() string { return newPath(t) })
			path := newPath(t)
			s, err := OpenSQLite(t.Context(), path, Options{})
			must(t, err)
			must(t, errors.Join(s.Clients.AddClient(t.Context(), newClient("app", oauth.NewClientSecret())), s.Close()))
			later := tryOpenings(t, f, func() string { return path })
			if first < 5 || later < 1 {
				t.Errorf("%d first and %d later openings failed: the test tries too little", first, later)
			}
			s, err = OpenSQLite(t.Context(), path, Options{})
			must(t, err)
			_, err = s.Clients.Client(t.Context(), "app")
			must(t, errors.Join(err, s.Close()))
		})
	}
}

// tryOpenings opens, writes and closes with one operation failing, each time a later one until there are none left, and each time again
// with a sound disk. It returns how often that failed.
func tryOpenings(t *testing.T, f fault, next func() string) (refused int) {
	for count, hit := 0, 1; hit > 0; count += 1 + count/3 {
		path := next()
		d := watchDisk(t, filepath.Dir(path))
		hit = 0
		// When the table of versions cannot be created the library retries three times, a second apart.
		ctx, cancel := context.WithCancel(t.Context())
		refuse := f.after(count, &hit)
		d.refuseBy(func(o operation) int32 {
			code := refuse(o)
			if hit == 1 && f.lasts {
				time.AfterFunc(100*time.Millisecond, cancel)
			}
			return code
		})
		s, err := OpenSQLite(ctx, path, Options{})
		if err == nil {
			err = errors.Join(s.Revocations.Revoke(t.Context(), revocation("app")), s.Close())
		}
		d.refuseBy(nil)
		cancel()
		if err != nil {
			refused++
		}
		s, err = OpenSQLite(t.Context(), path, Options{})
		must(t, err)
		must(t, errors.Join(s.Ping(t.Context()), s.Close(), inspect(t.Context(), path)))
	}
	return refused
}
