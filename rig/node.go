//go:build linux

package rig

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard" // the standard modules of Caddy

	_ "github.com/gatehouse-auth/gatehouse/caddymodule" // the plugin
	"github.com/gatehouse-auth/gatehouse/internal/loopback"
	"github.com/gatehouse-auth/gatehouse/internal/machine"
)

// asNode is the environment variable that makes the test binary a node.
const asNode = "GATEHOUSE_RIG_NODE"

// patience is how long something may take on a busy machine. It only ends tests that hang.
const patience = 3 * time.Minute

// Main is the TestMain of a package that starts nodes.
func Main(m *testing.M) {
	if os.Getenv(asNode) != "" {
		caddycmd.Main()
		return
	}
	machine.Watch()
	os.Exit(m.Run())
}

// Node is a Caddy with Gatehouse in a process of its own. It keeps its directory and its addresses while it is down. Its methods may be
// called from any goroutine.
type Node struct {
	// URL is the node's own, without a trailing slash. Addr is its host and port, and Admin those of the admin endpoint. Issuer is the
	// URL of the issuer that clients use.
	URL, Addr, Admin, Issuer string
	// Dir contains all files that the node writes.
	Dir string

	t     testing.TB
	setup Setup

	mu      sync.Mutex
	process *process
}

// process is one run of a node.
type process struct {
	command *exec.Cmd
	gone    chan struct{} // closed when it has ended
	err     error         // how it ended, once gone is closed
}

// New prepares a node and writes its configuration, without starting it. It ends with the test.
func New(t testing.TB, setup Setup) *Node {
	t.Helper()
	n := &Node{t: t, Dir: t.TempDir(), setup: setup}
	n.Addr, n.Admin = reserve(t), reserve(t)
	n.URL = "http://" + n.Addr
	n.Issuer = setup.Issuer
	if n.Issuer == "" {
		n.Issuer = n.URL
	}
	n.Configure(setup)
	t.Cleanup(func() {
		if t.Failed() {
			n.Kill() // what the test has left open would delay Stop
		}
		n.Stop()
		for _, report := range reportsIn(n.Log()) {
			t.Errorf("the node at %s has reported:\n%s", n.Addr, report)
		}
		if t.Failed() {
			t.Logf("the log of the node at %s ends with:\n%s", n.Addr, n.lastWords())
		}
	})
	return n
}

// knownRace is the function of Caddy's reverse_proxy that sets a timer in its Handler at a reload with an open stream, while methods of
// requests in progress copy the Handler. Nothing reads the timer in a copy.
const knownRace = "reverseproxy.(*Handler).cleanupConnections()"

// reportsIn returns the reports of Go's runtime and its race detector in a log, each with the text that follows it.
func reportsIn(log string) (reports []string) {
	for _, sign := range []string{"panic", "fatal error: ", raceSign} {
		for rest := log; ; {
			at := strings.Index(rest, sign)
			if at < 0 {
				break
			}
			report := rest[at:]
			rest = report[len(sign):]
			if sign == raceSign {
				report, _, _ = strings.Cut(report, "\n==================")
				if strings.Contains(report, knownRace) {
					continue
				}
			}
			reports = append(reports, report[:min(len(report), 4096)])
			break
		}
	}
	return reports
}

// raceSign begins a report of the race detector.
const raceSign = "WARNING: DATA RACE"

// Start prepares and starts a node, and waits until it serves.
func Start(t testing.TB, setup Setup) *Node {
	t.Helper()
	n := New(t, setup)
	n.Restart()
	return n
}

// reserve reserves a port until the test ends.
func reserve(t testing.TB) string {
	t.Helper()
	port, err := loopback.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = port.Close() })
	return port.Addr()
}

// Configure writes another Caddyfile for the next start. The addresses and the directory do not change.
func (n *Node) Configure(setup Setup) {
	n.t.Helper()
	n.setup = setup
	if err := os.WriteFile(n.caddyfile(), []byte(n.configuration()), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

func (n *Node) caddyfile() string { return filepath.Join(n.Dir, "Caddyfile") }
func (n *Node) logFile() string   { return filepath.Join(n.Dir, "log") }

// Restart starts a node, after ending it by SIGTERM if it is running, and waits until it serves. It returns how long that took from the
// start of the process.
func (n *Node) Restart(environment ...string) time.Duration {
	n.t.Helper()
	n.Stop()
	if err := n.Launch(environment...); err != nil {
		n.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	took, err := n.AwaitServing(ctx)
	if err != nil {
		n.t.Fatalf("%v; its log ends with:\n%s", err, n.lastWords())
	}
	return took
}

// Launch starts the process without waiting. The environment, NAME=VALUE, applies to this run alone.
func (n *Node) Launch(environment ...string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process.alive() {
		return fmt.Errorf("the node at %s is running", n.Addr)
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	output, err := os.OpenFile(n.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = output.Close() }()
	command := exec.Command(program, "run", "--config", n.caddyfile(), "--adapter", "caddyfile") //lint:ignore gosec this program
	command.Dir, command.Stdout, command.Stderr = n.Dir, output, output
	command.Env = append(os.Environ(), asNode+"=1", "GORACE=exitcode=0 atexit_sleep_ms=50", "HOME="+n.Dir,
		"XDG_DATA_HOME="+filepath.Join(n.Dir, "data"), "XDG_CONFIG_HOME="+filepath.Join(n.Dir, "config"))
	command.Env = slices.Concat(command.Env, n.setup.Environment, environment)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
	p := &process{command: command, gone: make(chan struct{})}
	if err := launch(command); err != nil {
		return fmt.Errorf("starting a node: %w", err)
	}
	go func() {
		p.err = command.Wait()
		close(p.gone)
	}()
	n.process = p
	return nil
}

// launcher starts all nodes from one thread that never ends, because a child dies with the thread that started it.
var launcher = sync.OnceValue(func() chan<- func() {
	queue := make(chan func())
	go func() {
		runtime.LockOSThread()
		for start := range queue {
			start()
		}
	}()
	return queue
})

func launch(command *exec.Cmd) error {
	started := make(chan error)
	launcher() <- func() { started <- command.Start() }
	return <-started
}

// alive reports whether the process exists.
func (p *process) alive() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.gone:
		return false
	default:
		return true
	}
}

// life returns the latest run, or nil.
func (n *Node) life() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.process
}

// Alive reports whether the process exists.
func (n *Node) Alive() bool { return n.life().alive() }

// Gone returns a channel that is closed when the process has ended.
func (n *Node) Gone() <-chan struct{} {
	if p := n.life(); p != nil {
		return p.gone
	}
	gone := make(chan struct{})
	close(gone)
	return gone
}

// errEnded: the process ended before it served.
var errEnded = errors.New("the node ended while it was starting")

// AwaitServing waits until the node answers for the issuer and reports that it is ready, which it does when it has its store, its keys
// and the revocations. It returns how long that took from the call.
func (n *Node) AwaitServing(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	ctx = AtOnce(ctx)
	for {
		answer := Send(ctx, http.MethodGet, n.URL+"/oauth/jwks", "")
		if answer.Status == http.StatusOK {
			answer = Send(ctx, http.MethodGet, "http://"+n.Admin+"/oauth/ready", "")
		}
		switch {
		case answer.Status == http.StatusOK:
			return time.Since(began), nil
		case !n.Alive():
			return 0, errEnded
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("the node at %s does not serve: %w (last: %s)", n.Addr, ctx.Err(), answer)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// Signal sends a signal. It does nothing if the node has ended.
func (n *Node) Signal(s syscall.Signal) {
	n.t.Helper()
	p := n.life()
	if !p.alive() {
		return
	}
	if err := p.command.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		n.t.Errorf("signal to the node at %s: %v", n.Addr, err)
	}
}

// Kill ends the node by SIGKILL and waits for its end. It does nothing if the node is down.
func (n *Node) Kill() {
	n.t.Helper()
	n.end(syscall.SIGKILL)
}

// Stop ends the node by SIGTERM and waits for its end, which must be orderly, with status 0. It does nothing if the node is down. Reports
// of the race detector fail the test at its end.
func (n *Node) Stop() {
	n.t.Helper()
	last := n.life()
	if !last.alive() {
		return
	}
	n.end(syscall.SIGTERM)
	if !last.alive() && last.err != nil {
		n.t.Errorf("the node at %s ended with %v after SIGTERM", n.Addr, last.err)
	}
}

func (n *Node) end(s syscall.Signal) {
	n.t.Helper()
	n.Signal(s)
	select {
	case <-n.Gone():
	case <-time.After(patience):
		n.t.Errorf("the node at %s does not end after signal %d", n.Addr, s)
		n.Signal(syscall.SIGKILL)
	}
}

// Pause stops the process with SIGSTOP: the kernel still accepts connections, and none is answered.
func (n *Node) Pause() { n.Signal(syscall.SIGSTOP) }

// Unpause continues a paused node.
func (n *Node) Unpause() { n.Signal(syscall.SIGCONT) }

// Log returns the log of all runs of the node: one JSON object per line, from level DEBUG.
func (n *Node) Log() string {
	n.t.Helper()
	text, err := os.ReadFile(n.logFile())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		n.t.Error(err)
	}
	return string(text)
}

// lastWords returns the end of the log.
func (n *Node) lastWords() string {
	text := n.Log()
	return strings.TrimSpace(text[max(0, len(text)-4096):])
}
