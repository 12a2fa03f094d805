package pgtest

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// oldest is the oldest major version that Gatehouse supports.
const oldest = 15

// host is what the servers of one test process share.
type host struct {
	bin  string // the directory of the programs of PostgreSQL
	root string // the directory of all servers, reachable for their user
	// credential is the user of the servers when the tests run as root, because PostgreSQL refuses root.
	credential *syscall.Credential
	// janitor ends with this process and then cleans up. Nothing is written to it; the field keeps it open.
	janitor io.WriteCloser
}

// onDisk is the host of servers that sync to the disk. inMemory is the host of the shared server: no test kills it, and creating and
// dropping a database takes a tenth of the time there.
var (
	onDisk   = sync.OnceValues(func() (*host, error) { return newHost("") })
	inMemory = sync.OnceValues(func() (*host, error) { return newHost(memory()) })
)

// memory returns a directory in memory, or "" if the machine has too little memory for the databases of tests.
func memory() string {
	const dir, room = "/dev/shm", 2 << 30
	var free syscall.Statfs_t
	//lint:ignore gosec the size of a block is positive
	if err := syscall.Statfs(dir, &free); err != nil || free.Bavail*uint64(free.Bsize) < room {
		return ""
	}
	return dir
}

// newHost finds the programs and creates a directory in that one, or in the directory for temporary files if it is empty.
func newHost(in string) (*host, error) {
	bin, err := findPrograms("/usr/lib/postgresql/*/bin/initdb")
	if err != nil {
		return nil, err
	}
	h := &host{bin: bin}
	if h.root, err = os.MkdirTemp(in, "gatehouse-pg-"); err != nil {
		return nil, err
	}
	if err := h.startJanitor(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(h.root))
	}
	if os.Geteuid() != 0 {
		return h, nil
	}
	return h, h.giveUpRoot()
}

// findPrograms returns the newest of Debian's versions.
func findPrograms(pattern string) (string, error) {
	found, err := filepath.Glob(pattern)
	if err != nil {
		return "", err
	}
	newest, bin := 0, ""
	for _, initdb := range found {
		dir := filepath.Dir(initdb)
		version, err := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
		if err == nil && version > newest {
			newest, bin = version, dir
		}
	}
	if newest < oldest {
		return "", fmt.Errorf("no PostgreSQL %d or newer at %s: install Debian's package postgresql (make test does)", oldest, pattern)
	}
	return bin, nil
}

//go:embed janitor.sh
var janitorScript string

// startJanitor starts a process that notices the end of this one, even by SIGKILL or the test binary's own timeout, and then kills every
// server and removes the directory. PR_SET_PDEATHSIG would not reach the children of a paused server.
func (h *host) startJanitor() error {
	command := exec.Command("sh", "-c", janitorScript)
	command.Dir = "/"
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	input, err := command.StdinPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("starting the janitor: %w", err)
	}
	h.janitor = input
	_, err = fmt.Fprintln(input, h.root)
	return err
}

// giveUpRoot makes the user of Debian's package the owner of the directory and of all programs that run in it.
func (h *host) giveUpRoot() error {
	owner, err := user.Lookup("postgres")
	if err != nil {
		return fmt.Errorf("PostgreSQL does not run as root: %w: install Debian's package postgresql", err)
	}
	uid, err := strconv.ParseUint(owner.Uid, 10, 32)
	if err != nil {
		return err
	}
	gid, err := strconv.ParseUint(owner.Gid, 10, 32)
	if err != nil {
		return err
	}
	h.credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return os.Chown(h.root, int(uid), int(gid))
}

// program prepares a program of PostgreSQL, or another, to run as the user of the servers. It removes PostgreSQL's environment variables,
// which are meant for other servers.
func (h *host) program(name string, arguments ...string) *exec.Cmd {
	if inside := filepath.Join(h.bin, name); exists(inside) {
		name = inside
	}
	command := exec.Command(name, arguments...)
	command.Dir = h.root
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "TZ=UTC", "HOME=" + h.root}
	// Its own session: Ctrl-C in a terminal must reach the tests and not their servers.
	command.SysProcAttr = &syscall.SysProcAttr{Credential: h.credential, Setsid: true}
	return command
}

// run runs a program and waits for it.
func (h *host) run(name string, arguments ...string) error {
	command := h.program(name, arguments...)
	watchdog := time.AfterFunc(patience, func() { _ = command.Process.Kill() })
	defer watchdog.Stop()
	output, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, output)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// write creates a file that only the user of the servers can read.
func (h *host) write(path, content string) error {
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil || h.credential == nil {
		return err
	}
	return os.Chown(path, int(h.credential.Uid), int(h.credential.Gid))
}

// mkdir creates a directory that the user of the servers owns.
func (h *host) mkdir(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil || h.credential == nil {
		return err
	}
	return os.Chown(path, int(h.credential.Uid), int(h.credential.Gid))
}

// template is the directory of a fresh database cluster, created once and copied for each server.
var template = sync.OnceValues(func() (string, error) {
	h, err := inMemory()
	if err != nil {
		return "", err
	}
	dir, secret := filepath.Join(h.root, "template"), filepath.Join(h.root, "password")
	if err := h.write(secret, password+"\n"); err != nil {
		return "", err
	}
	// The template is deleted with the tests, and need not be synced. A server syncs its own copy. SCRAM derives a key for each
	// connection, which took an eighth of the tests' CPU time with the race detector.
	return dir, h.run("initdb", "-D"+dir, "--no-sync", "--locale=C.UTF-8", "--encoding=UTF8",
		"--auth=md5", "--username="+superuser, "--pwfile="+secret)
})
