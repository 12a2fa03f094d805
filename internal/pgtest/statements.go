package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// maintenance is the database for the package's own statements.
const maintenance = "postgres"

// Database creates a database and returns its DSN. The end of the test drops it, with all connections to it.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	return s.database(t, "template1")
}

// Copy is Database with the content of another database, which must have no connections.
func (s *Server) Copy(t testing.TB, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return s.database(t, strings.TrimPrefix(u.Path, "/"))
}

func (s *Server) database(t testing.TB, template string) string {
	t.Helper()
	name := fmt.Sprintf("test%d", serial.Add(1))
	if err := s.execute("CREATE DATABASE " + name + " TEMPLATE " + template + " STRATEGY FILE_COPY"); err != nil {
		t.Fatalf("PostgreSQL: %v", err)
	}
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.process.alive() {
			return // the test left the server down; the database goes with it
		}
		// Do not wait for a standby: the test may have left it down.
		if err := s.execute("SET synchronous_commit = local", "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("PostgreSQL: %v", err)
		}
	})
	return s.DSN(name)
}

// NewDatabase creates an empty database, which exists as long as the server, and returns its DSN.
func (s *Server) NewDatabase() (string, error) {
	name := fmt.Sprintf("test%d", serial.Add(1))
	return s.DSN(name), s.execute("CREATE DATABASE " + name + " TEMPLATE template1")
}

// execute runs statements one after the other, each in its own transaction, as CREATE DATABASE requires.
func (s *Server) execute(statements ...string) error {
	ctx, cancel := soon()
	defer cancel()
	connection, err := pgx.Connect(ctx, s.DSN(maintenance))
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close(ctx) }()
	for _, statement := range statements {
		if _, err := connection.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// holds reports whether a query about the state of the server returns true. It returns an error only if the server cannot be queried.
func (s *Server) holds(query string, arguments ...any) (bool, error) {
	ctx, cancel := soon()
	defer cancel()
	connection, err := pgx.Connect(ctx, s.DSN(maintenance))
	if err != nil {
		return false, err
	}
	defer func() { _ = connection.Close(ctx) }()
	var yes bool
	err = connection.QueryRow(ctx, query, arguments...).Scan(&yes)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return yes, err
}

// accepts reports whether a server accepts clients, also when all its connections are taken.
func accepts(dsn string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	connection, err := pgx.Connect(ctx, dsn)
	if err != nil {
		var refused *pgconn.PgError
		const tooManyConnections = "53300"
		return errors.As(err, &refused) && refused.Code == tooManyConnections
	}
	_ = connection.Close(ctx)
	return true
}

// Standby starts a second server that follows this one by synchronous streaming replication, and waits until it does. No commit is
// acknowledged before the standby has it on its disk, and none while the standby is away.
func (s *Server) Standby(t testing.TB) *Server {
	t.Helper()
	standby, err := newServer(t, onDisk)
	if err != nil {
		t.Fatalf("PostgreSQL: %v", err)
	}
	t.Cleanup(standby.remove)
	if err := s.copyTo(standby); err != nil {
		t.Fatalf("copying PostgreSQL: %v", err)
	}
	if err := standby.start(); err != nil {
		t.Fatalf("starting a standby: %v", err)
	}
	if err := s.follow(standby); err != nil {
		t.Fatalf("replicating to a standby: %v", err)
	}
	return standby
}

// copyTo creates the directory of a standby. The replication slot keeps what the standby has not read while it is down.
func (s *Server) copyTo(standby *Server) error {
	primary := fmt.Sprintf("host=127.0.0.1 port=%d user=%s password=%s application_name=%s sslmode=disable",
		s.port.Number(), superuser, password, standby.name)
	err := s.host.run("pg_basebackup", "-D"+standby.data(), "-d", primary, "--no-sync",
		"--checkpoint=fast", "--wal-method=stream", "--create-slot", "--slot="+standby.name)
	if err != nil {
		return err
	}
	settings := fmt.Sprintf("port = %d\nunix_socket_directories = '%s'\nprimary_conninfo = '%s'\nprimary_slot_name = '%s'\n"+
		"synchronous_standby_names = ''\n", standby.port.Number(), standby.dir, primary, standby.name)
	// Settings of ALTER SYSTEM belong to the primary.
	return errors.Join(
		s.host.write(filepath.Join(standby.data(), "standby.conf"), settings),
		s.host.write(filepath.Join(standby.data(), "postgresql.auto.conf"), ""),
		s.host.write(filepath.Join(standby.data(), "standby.signal"), ""))
}

// follow makes a standby synchronous and waits until it streams.
func (s *Server) follow(standby *Server) error {
	err := s.execute("ALTER SYSTEM SET synchronous_standby_names = '"+standby.name+"'", "SELECT pg_reload_conf()")
	if err != nil {
		return err
	}
	return eventually("standby to follow", func() (bool, error) {
		return s.holds("SELECT state = 'streaming' AND sync_state = 'sync' FROM pg_stat_replication WHERE application_name = $1", standby.name)
	})
}

// Promote turns a standby into a primary and returns when it accepts writes.
func (s *Server) Promote() {
	s.t.Helper()
	if promoted, err := s.holds("SELECT pg_promote(true, $1)", int(patience.Seconds())); err != nil || !promoted {
		s.t.Errorf("promoting a standby: promoted is %t, error is %v", promoted, err)
	}
}
