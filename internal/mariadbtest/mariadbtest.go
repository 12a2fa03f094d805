// Package mariadbtest starts a MariaDB server for a test from Debian's package mariadb-server, in a directory of its own and on a socket
// there. It keeps nothing safe, because it is only read from.
//
// A test fails when the programs are missing. With -short, which `make quick` uses, it is skipped.
package mariadbtest

import (
	"context"
	"database/sql"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver mysql
)

// patience is how long the server may take to start on a busy machine.
const patience = 2 * time.Minute

// Start starts a server with an empty database, and returns the database and its URL, mysql://….
func Start(t testing.TB) (db *sql.DB, from string) {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts MariaDB")
	}
	dir, err := os.MkdirTemp("", "gatehouse-mariadb-") // the path of t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	data, socket := filepath.Join(dir, "data"), filepath.Join(dir, "socket")
	install := exec.Command("mariadb-install-db", "--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db", "--datadir="+data, "--user="+userName()) //lint:ignore gosec our own arguments
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("MariaDB: %v\n%s", err, out)
	}
	server := exec.Command("/usr/sbin/mariadbd", //lint:ignore gosec our own arguments
		"--no-defaults", "--datadir="+data, "--socket="+socket, "--skip-networking", "--user="+userName(),
		"--innodb-buffer-pool-size=16M", "--innodb-flush-log-at-trx-commit=0", "--skip-log-bin", "--pid-file="+filepath.Join(dir, "pid"))
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := server.Start(); err != nil {
		t.Fatalf("MariaDB: %v", err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	if db, err = sql.Open("mysql", "root@unix("+socket+")/?multiStatements=true"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	awaitServer(t, db)
	if _, err := db.ExecContext(t.Context(), "CREATE DATABASE old"); err != nil {
		t.Fatal(err)
	}
	_ = db.Close()
	if db, err = sql.Open("mysql", "root@unix("+socket+")/old?multiStatements=true"); err != nil {
		t.Fatal(err)
	}
	return db, "mysql://root@/old?" + url.Values{"socket": {socket}}.Encode()
}

// awaitServer waits until the server answers.
func awaitServer(t testing.TB, db *sql.DB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		err := db.PingContext(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("MariaDB does not answer: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// userName returns the user that the server runs as. As root it would refuse to start otherwise.
func userName() string {
	if os.Getuid() == 0 {
		return "root"
	}
	return os.Getenv("USER")
}
