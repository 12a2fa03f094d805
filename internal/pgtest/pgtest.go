// Package pgtest starts PostgreSQL servers for tests from the programs of Debian's package, each in its own directory and on a port of
// 127.0.0.1 that stays reserved while it is down. All but the shared one sync to the disk as in production, because many tests are about
// what survives a crash.
//
//	server := pgtest.Shared(t)              // one for all tests of a package that do not disturb it
//	dsn := server.Database(t)               // empty, and dropped after the test
//	server := pgtest.Start(t)               // one to stop and to kill
//
// A test fails when the programs are missing. With -short, which `make quick` uses, it is skipped. No server outlives the test process,
// however that ends; see janitor.sh. The package requires Linux's /proc.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/loopback"
)

const (
	superuser = "gatehouse"
	password  = "open-sesame-for-tests"
	// patience is how long a step may take on a busy machine.
	patience = 2 * time.Minute
)

// Server is a PostgreSQL server. Its methods may be called from any goroutine of the test that started it. Their errors fail that test.
type Server struct {
	t    testing.TB
	host *host
	dir  string
	port *loopback.Port
	// name is the application_name of a standby.
	name string

	mu      sync.Mutex
	process *process
}

// serial numbers the directories and the databases of the process.
var serial atomic.Int64

// Start starts a server with a fresh cluster.
func Start(t testing.TB) *Server {
	t.Helper()
	notInShort(t)
	s, err := create(t, onDisk)
	if err != nil {
		t.Fatalf("PostgreSQL: %v", err)
	}
	t.Cleanup(s.remove)
	return s
}

var shared struct {
	sync.Mutex
	server *Server
}

// Shared returns the server that the tests of one binary share. The first call starts it, and it ends with the process. Its disk is in
// memory if the machine has room. A test that disturbs it disturbs the others.
func Shared(t testing.TB) *Server {
	t.Helper()
	notInShort(t)
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		s, err := create(t, inMemory)
		if err != nil {
			t.Fatalf("PostgreSQL: %v", err)
		}
		shared.server = s
	}
	return shared.server
}

// notInShort skips a test with -short.
func notInShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("PostgreSQL is not started with -short")
	}
}

// create copies the template and starts a server on the copy.
func create(t testing.TB, on func() (*host, error)) (*Server, error) {
	from, err := template()
	if err != nil {
		return nil, err
	}
	s, err := newServer(t, on)
	if err != nil {
		return nil, err
	}
	for _, step := range []func() error{func() error { return s.host.run("cp", "-a", from, s.data()) }, s.configure, s.start} {
		if err := step(); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// newServer creates an empty directory and reserves a port.
func newServer(t testing.TB, on func() (*host, error)) (*Server, error) {
	h, err := on()
	if err != nil {
		return nil, err
	}
	name := strconv.FormatInt(serial.Add(1), 10)
	s := &Server{t: t, host: h, dir: filepath.Join(h.root, name), name: "standby" + name}
	if err := h.mkdir(s.dir); err != nil {
		return nil, err
	}
	s.port, err = loopback.Reserve()
	return s, err
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }
func (s *Server) log() string  { return filepath.Join(s.dir, "log") }

// configure writes the settings of this server into a separate file. ALTER SYSTEM takes precedence over it.
func (s *Server) configure() error {
	lines := []string{
		"listen_addresses = '127.0.0.1'",
		fmt.Sprintf("port = %d", s.port.Number()),
		fmt.Sprintf("unix_socket_directories = '%s'", s.dir),
		// What a killed server leaves of it is deleted with its directory.
		"dynamic_shared_memory_type = mmap",
		"log_line_prefix = '%m [%p] %q%u@%d '", "",
	}
	if err := s.host.write(filepath.Join(s.data(), "pgtest.conf"), strings.Join(lines, "\n")); err != nil {
		return err
	}
	return s.host.write(filepath.Join(s.data(), "postgresql.conf"), "include 'pgtest.conf'\ninclude_if_exists 'standby.conf'\n")
}

// start starts the postmaster and waits until it accepts connections, which after a crash is after the recovery.
func (s *Server) start() error {
	p, err := launch(s.host, s.data(), s.log())
	if err != nil {
		return err
	}
	s.process = p
	err = eventually("server to accept connections", func() (bool, error) {
		if !p.alive() {
			return false, errors.New("the server ended while it was starting")
		}
		return accepts(s.DSN(maintenance)), nil
	})
	if err != nil {
		return fmt.Errorf("%w; its log ends with:\n%s", err, s.lastWords())
	}
	return nil
}

// lastWords returns the end of the server's log.
func (s *Server) lastWords() string {
	text, err := os.ReadFile(s.log())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4096):])
}

// remove ends the server at the end of its test.
func (s *Server) remove() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.t.Failed() {
		s.t.Logf("the log of PostgreSQL at %s ends with:\n%s", s.Addr(), s.lastWords())
	}
	if err := s.Close(); err != nil {
		s.t.Errorf("removing PostgreSQL: %v", err)
	}
}

// Close stops a server of ForProgram and removes its files.
func (s *Server) Close() error {
	var err error
	if s.process != nil && s.process.alive() {
		err = s.process.quit()
	}
	return errors.Join(err, s.freeMemory(), s.port.Close(), os.RemoveAll(s.dir))
}

// freeMemory frees the segment of System V shared memory that a killed server left and that its successor would have taken over. The
// kernel has room for a few thousand of them.
func (s *Server) freeMemory() error {
	text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if errors.Is(err, os.ErrNotExist) {
		return nil // it ended by itself, or never began
	}
	const line = 6 // the key and the id
	lines := strings.Split(string(text), "\n")
	if err != nil || len(lines) <= line {
		return err
	}
	segment := strings.Fields(lines[line])
	if len(segment) != 2 {
		return nil
	}
	return s.host.run("ipcrm", "--shmem-id", segment[1])
}

// Addr returns the host and port of the server, which do not change while it is down.
func (s *Server) Addr() string { return s.port.Addr() }

// DSN returns the URL of a database of this server, whether it exists or not. After a promotion it leads to the primary's former database
// of that name.
func (s *Server) DSN(database string) string {
	return fmt.Sprintf("postgres://%s:%s@%s/%s?sslmode=disable", superuser, password, s.Addr(), database)
}

// Via returns the DSN with another host and port, such as those of a proxy.
func Via(dsn, addr string) string {
	u, err := url.Parse(dsn)
	if err != nil {
		panic(err) // it does not come from DSN
	}
	u.Host = addr
	return u.String()
}

// Stop stops the server, which aborts all transactions, and waits for its end.
func (s *Server) Stop() {
	s.t.Helper()
	s.change("stopping", func(p *process) error { return errors.Join(p.signal(syscall.SIGINT), p.await()) })
}

// Kill kills all processes of the server with SIGKILL, like a power failure. Resume recovers.
func (s *Server) Kill() {
	s.t.Helper()
	s.change("killing", (*process).kill)
}

// change ends a running server.
func (s *Server) change(what string, do func(*process) error) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.process.alive() {
		s.t.Errorf("%s PostgreSQL: it is not running", what)
	} else if err := do(s.process); err != nil {
		s.t.Errorf("%s PostgreSQL: %v", what, err)
	}
}

// Resume starts the server again after Stop or Kill, at its old address, and waits until it accepts connections.
func (s *Server) Resume() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process.alive() {
		s.t.Error("resuming PostgreSQL: it is running")
		return
	}
	// All processes of this server are gone, and the process id in the file may be another server's by now.
	if err := os.RemoveAll(filepath.Join(s.data(), "postmaster.pid")); err != nil {
		s.t.Errorf("resuming PostgreSQL: %v", err)
	} else if err := s.start(); err != nil {
		s.t.Errorf("resuming PostgreSQL: %v", err)
	}
}

// soon returns a context that bounds a statement of the package itself.
func soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}
