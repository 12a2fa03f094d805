package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore/postgres"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/storetest"
)

func TestPostgres(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return openPostgres(t, sharedDatabase(t)).Store })
}

func TestPostgresDurable(t *testing.T) {
	storetest.RunDurable(t, func(t *testing.T) func() store.Store {
		dsn := sharedDatabase(t)
		return func() store.Store { return openPostgres(t, dsn).Store }
	})
}

// TestPostgresSettingsOfEveryConnection: durability does not depend on the settings of the database.
func TestPostgresSettingsOfEveryConnection(t *testing.T) {
	asANode(t)
	dsn := sharedDatabase(t)
	admin, err := sql.Open("pgx", dsn)
	must(t, err)
	t.Cleanup(func() { _ = admin.Close() })
	for set, want := range map[string]string{"off": "on", "local": "on", "remote_apply": "remote_apply"} {
		var name string
		must(t, admin.QueryRowContext(t.Context(), `SELECT current_database()`).Scan(&name))
		_, err = admin.ExecContext(t.Context(), fmt.Sprintf(`ALTER DATABASE %s SET synchronous_commit = '%s'`, name, set))
		must(t, err)
		s := openPostgres(t, dsn)
		for pool, db := range map[string]*sql.DB{"requests": s.db.write, "background": s.db.feed.db} {
			var got, idle string
			must(t, db.QueryRowContext(t.Context(), `SELECT current_setting('synchronous_commit'),
				current_setting('idle_in_transaction_session_timeout')`).Scan(&got, &idle))
			if got != want || idle != "5s" {
				t.Errorf("%s, %s: synchronous_commit is %s, idle transactions end after %s", set, pool, got, idle)
			}
		}
		must(t, s.Close())
	}
}

// TestManyNodesMigrateAtOnce: the nodes of a new cluster start together.
func TestManyNodesMigrateAtOnce(t *testing.T) {
	dsn := pgtest.Shared(t).Database(t)
	var nodes sync.WaitGroup
	for range 6 {
		nodes.Go(func() {
			s, err := OpenPostgres(unhurried(t), oauth.NewSecret(dsn+slowConnect), LeastPostgresPool, Options{})
			if err != nil {
				t.Error(err)
				return
			}
			_ = s.Close()
		})
	}
	nodes.Wait()
}

// later returns a migration of a later build.
func later(statement, declared string) fstest.MapFS {
	files := fstest.MapFS{"migrations/00999_later.sql": {Data: []byte(statement + ";\n" + declared)}}
	entries, _ := migrationFiles.ReadDir("migrations")
	for _, entry := range entries {
		name := "migrations/" + entry.Name()
		text, _ := migrationFiles.ReadFile(name)
		files[name] = &fstest.MapFile{Data: text}
	}
	return files
}

// TestF22OldAndNewBuildOnOneSchema: while the nodes of a cluster are upgraded one after the other, old ones start with a schema that is
// newer than they are, and after a rollback they continue to. An old build is refused only if it would damage the data.
func TestF22OldAndNewBuildOnOneSchema(t *testing.T) {
	const column = `ALTER TABLE clients ADD COLUMN colour TEXT NOT NULL DEFAULT 'blue'`
	for _, c := range []struct {
		name, declared string
		refused        bool
	}{
		{"a column more", `UPDATE counters SET position = 999 WHERE name = 'newest_schema';`, false},
		{"a change that old builds would damage", `UPDATE counters SET position = 999 WHERE name IN ('newest_schema', 'oldest_schema');`, true},
		{"a change of which nobody knows", ``, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dsn := sharedDatabase(t)
			old := openPostgres(t, dsn)
			must(t, old.db.migrateTo(t.Context(), later(column, c.declared)))
			addClient(t, old, "runs-on")
			again, err := OpenPostgres(unhurried(t), oauth.NewSecret(dsn+slowConnect), 8, Options{})
			if c.refused {
				if err == nil || !strings.Contains(err.Error(), "use a newer build") {
					t.Fatalf("got %v", err)
				}
				return
			}
			must(t, err)
			again.db.read.queue.timeout = time.Minute
			t.Cleanup(func() { must(t, again.Close()) })
			addClient(t, again, "started-later")
			must(t, again.Clients.RemoveClient(t.Context(), "runs-on", revocation("runs-on")))
		})
	}
}

// TestKeepSchema: a node that does not migrate reports a schema that is not up to date, and changes nothing.
func TestKeepSchema(t *testing.T) {
	dsn := pgtest.Shared(t).Database(t)
	open := func(keep bool) error {
		s, err := OpenPostgres(unhurried(t), oauth.NewSecret(dsn+slowConnect), 8, Options{KeepSchema: keep})
		if err == nil {
			_ = s.Close()
		}
		return err
	}
	if err := open(true); err == nil || !strings.Contains(err.Error(), "caddy oauth migrate") {
		t.Errorf("an empty database: %v", err)
	}
	admin, err := sql.Open("pgx", dsn)
	must(t, err)
	t.Cleanup(func() { _ = admin.Close() })
	var tables int
	must(t, admin.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM pg_tables WHERE schemaname = 'public'`).Scan(&tables))
	if tables != 0 {
		t.Errorf("%d tables were made", tables)
	}
	must(t, open(false))
	must(t, open(true))
}

// TestRolesThatMayNot: missing privileges of a role are reported with what to do, and not retried as an outage.
func TestRolesThatMayNot(t *testing.T) {
	dsn := pgtest.Shared(t).Database(t)
	admin, err := sql.Open("pgx", dsn)
	must(t, err)
	t.Cleanup(func() { _ = admin.Close() })
	do := func(statements ...string) {
		t.Helper()
		for _, statement := range statements {
			_, err := admin.ExecContext(t.Context(), statement)
			must(t, err)
		}
	}
	do(`CREATE ROLE node LOGIN PASSWORD 'node-password'`)
	t.Cleanup(func() {
		_, err := admin.ExecContext(context.Background(), `DROP OWNED BY node`)
		must(t, err)
		_, err = admin.ExecContext(context.Background(), `DROP ROLE node`)
		must(t, err)
	})
	as, err := url.Parse(dsn)
	must(t, err)
	as.User = url.UserPassword("node", "node-password")
	refused := func(want string) {
		t.Helper()
		s, err := OpenPostgres(unhurried(t), oauth.NewSecret(as.String()+slowConnect), 8, Options{})
		if err == nil {
			_ = s.Close()
			t.Fatal("opened")
		}
		if !strings.Contains(err.Error(), want) || postgres.IsUnreachable(err) {
			t.Errorf("got %v, unreachable: %t", err, postgres.IsUnreachable(err))
		}
	}
	refused("may not create tables")
	must(t, openPostgres(t, dsn).Close())
	refused("GRANT SELECT")
	do(`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO node`)
	must(t, openPostgres(t, as.String()).Ping(t.Context()))
}

// TestWatch: a node is notified of another's revocation.
func TestWatch(t *testing.T) {
	dsn := sharedDatabase(t)
	a, b := openPostgres(t, dsn), openPostgres(t, dsn)
	ctx, cancel := context.WithCancel(t.Context())
	heard, ended := make(chan struct{}, 100), make(chan struct{})
	go func() {
		defer close(ended)
		b.Watch(ctx, func() { heard <- struct{}{} })
	}()
	await := func(what string) {
		t.Helper()
		select {
		case <-heard:
		case <-time.After(time.Minute):
			t.Fatalf("%s: nothing heard", what)
		}
	}
	await("listening began")
	for _, c := range []struct {
		name string
		step func() error
	}{
		{"Revoke", func() error { return a.Revocations.Revoke(t.Context(), revocation("acme")) }},
		{"EndFamilies", func() error {
			_, err := a.Families.EndFamilies(t.Context(), store.FamilyFilter{ID: "none"}, store.Ending{At: time.Now(), Until: time.Now()})
			return err
		}},
	} {
		must(t, c.step())
		await(c.name)
	}
	cancel()
	<-ended
}

// TestF13TheQueueIsBounded: when the database is slow, requests for which there is no room are refused at once, and the others when their
// time is over. Queries that no request waits for have their own connections.
func TestF13TheQueueIsBounded(t *testing.T) {
	const room = 10
	s := openPostgres(t, sharedDatabase(t))
	addClient(t, s, "acme")
	s.db.read.queue.room = room
	release := holdPool(t, s)
	answers := make(chan error, room)
	for range room {
		go func() {
			_, err := s.Clients.Client(t.Context(), "acme")
			answers <- err
		}()
	}
	tokentest.Eventually(t, "the queue is full", func() bool { return s.db.read.queue.inside.Load() == room })
	if _, err := s.Clients.Client(t.Context(), "acme"); !errors.Is(err, errCrowded) {
		t.Errorf("who found no room got %v", err)
	}
	must(t, s.askFeed(t.Context()))
	release()
	for range room {
		must(t, <-answers)
	}
	s.db.read.queue.timeout = 100 * time.Millisecond
	release = holdPool(t, s)
	if _, err := s.Clients.Client(t.Context(), "acme"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("who lost patience got %v", err)
	}
	must(t, s.askFeed(t.Context()))
	release()
	s.db.read.queue.timeout = time.Minute
	if _, err := s.Clients.Client(t.Context(), "acme"); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// holdPool keeps every connection for requests busy until release is called.
func holdPool(t *testing.T, s *Store) (release func()) {
	t.Helper()
	held := make([]*sql.Tx, s.db.write.Stats().MaxOpenConnections)
	for i := range held {
		var err error
		held[i], err = s.db.write.BeginTx(t.Context(), nil)
		must(t, err)
	}
	return func() {
		for _, tx := range held {
			must(t, tx.Rollback())
		}
	}
}

// askFeed runs the query that the gate depends on.
func (s *Store) askFeed(ctx context.Context) error {
	_, _, err := s.Revocations.Revocations(ctx, store.FeedPosition{})
	return err
}

// TestF14ConflictsRunAgain: the database takes a step back because of another transaction → run again, three times at most.
func TestF14ConflictsRunAgain(t *testing.T) {
	s := openPostgres(t, sharedDatabase(t))
	conflict := `DO $$ BEGIN RAISE EXCEPTION 'conflict' USING ERRCODE = '40001'; END $$`
	for _, c := range []struct {
		name      string
		conflicts int
		ok        bool
	}{{"once", 1, true}, {"as often as it is tried again", maxRuns - 1, true}, {"always", maxRuns + 5, false}} {
		t.Run(c.name, func(t *testing.T) {
			runs := 0
			err := s.db.step(t.Context(), "trying", func(ctx context.Context, tx session) error {
				if runs++; runs <= c.conflicts {
					_, err := tx.ExecContext(ctx, conflict)
					return err
				}
				return nil
			})
			if (err == nil) != c.ok || runs != min(c.conflicts+1, maxRuns) {
				t.Errorf("%d runs: %v", runs, err)
			}
		})
	}
}

// TestMigrationThatTakesTooLong: a node without enough time for a migration names the command that has it.
func TestMigrationThatTakesTooLong(t *testing.T) {
	dsn := sharedDatabase(t)
	s, observer := openPostgres(t, dsn), openPostgres(t, dsn)
	ctx := deadline{Context: t.Context(), passed: make(chan struct{})}
	ended := make(chan error, 1)
	go func() { ended <- s.db.migrateTo(ctx, later("SELECT pg_sleep(600)", "")) }()
	tokentest.Eventually(t, "the migration is under way", func() bool {
		var running int
		must(t, observer.db.write.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%pg_sleep%'`).Scan(&running))
		return running > 0
	})
	close(ctx.passed)
	err := <-ended
	if err == nil || !strings.Contains(err.Error(), "caddy oauth migrate") || !postgres.IsUnreachable(err) {
		t.Errorf("got %v, tried again: %v", err, postgres.IsUnreachable(err))
	}
}

// deadline is a context that ends when the test says so.
type deadline struct {
	context.Context
	passed chan struct{}
}

func (d deadline) Done() <-chan struct{} { return d.passed }

func (d deadline) Err() error {
	select {
	case <-d.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}
