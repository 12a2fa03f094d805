package sqlstore

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/faultproxy"
	"github.com/gatehouse-auth/gatehouse/internal/machine"
	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore/postgres"
)

// sharedDatabase returns an empty database of the shared server with the schema of this build: a copy of one that was migrated once.
// Other tests cover migrations.
func sharedDatabase(t testing.TB) string {
	t.Helper()
	server := pgtest.Shared(t)
	migrated.Lock()
	if migrated.dsn == "" {
		dsn, err := server.NewDatabase()
		must(t, err)
		s, err := OpenPostgres(unhurried(t), oauth.NewSecret(dsn+slowConnect), LeastPostgresPool, Options{})
		must(t, err)
		must(t, s.Close())
		migrated.dsn = dsn
	}
	migrated.Unlock()
	return server.Copy(t, migrated.dsn)
}

var migrated struct {
	sync.Mutex
	dsn string
}

// openPostgres opens a database of pgtest. Any warning fails the test. It has longer timeouts than a node, because the contract is not
// about the speed of a busy machine.
func openPostgres(t testing.TB, dsn string) *Store {
	t.Helper()
	return openPostgresWith(t, dsn, 8)
}

// openPostgresWith is openPostgres with a pool of that size.
func openPostgresWith(t testing.TB, dsn string, pool int) *Store {
	t.Helper()
	s, err := tryOpening(t, dsn+slowConnect, pool)
	must(t, err)
	s.db.read.queue.timeout = time.Minute
	return s
}

// slowConnect, appended to a connection string of pgtest, allows a connection more time than a node has.
const slowConnect = "&connect_timeout=60"

// openHasty opens a database as a node does, which retries after a timeout. Any warning fails the test.
func openHasty(t testing.TB, dsn string) (s *Store) {
	t.Helper()
	inTime(t, "opening", func() (err error) {
		if s, err = tryOpening(t, dsn, 8); !postgres.IsUnreachable(err) {
			must(t, err)
		}
		return err
	})
	return s
}

// openThrough opens a database of the shared server through a proxy.
func openThrough(t *testing.T) (*Store, *faultproxy.Proxy) {
	t.Helper()
	server := pgtest.Shared(t)
	proxy := faultproxy.Start(t, server.Addr())
	return openPostgres(t, pgtest.Via(sharedDatabase(t), proxy.Addr())), proxy
}

func tryOpening(t testing.TB, dsn string, pool int) (*Store, error) {
	t.Helper()
	s, err := OpenPostgres(unhurried(t), oauth.NewSecret(dsn), pool, Options{Warn: func(message string) { t.Errorf("warning: %s", message) }})
	if err == nil {
		t.Cleanup(func() { must(t, s.Close()) })
	}
	return s, err
}

// inTime runs something that succeeds at the first try, within a node's timeouts, on a machine that is not busy. A failed try fails the
// test, unless the machine had too many runnable threads meanwhile. Then most of some more tries have to succeed.
func inTime(t testing.TB, what string, try func() error) {
	t.Helper()
	const tooMany = 2 // threads per processor
	succeeded := 0
	for failed := 0; failed < 3; {
		began := time.Now()
		err := try()
		took := time.Since(began)
		switch share := float64(took) / float64(machine.Fair(took)); {
		case err == nil && failed == 0:
			return
		case err == nil:
			if succeeded++; succeeded == 3 {
				return
			}
		case share < tooMany:
			t.Fatalf("%s: %v", what, err)
		default:
			failed++
			t.Logf("%s, with %.1f threads for each processor: %v", what, share, err)
		}
	}
	t.Fatalf("%s: 3 times in vain, %d times not", what, succeeded)
}

// unhurried returns a context for openings. Its deadline gives their steps more time than those of requests.
func unhurried(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// onEach calls do once on each connection of a pool, which it fills.
func onEach(t testing.TB, db *sql.DB, do func() error) {
	t.Helper()
	for range db.Stats().MaxOpenConnections {
		must(t, do())
		used, err := db.Conn(t.Context()) // the one that became free last
		must(t, err)
		defer func() { must(t, used.Close()) }() // with the others, because it must not be used again before
	}
}
