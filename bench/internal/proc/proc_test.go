//go:build linux

package proc

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/loopback"
)

// childEnv names the environment variable with the address at which the test binary, as a child, listens.
const childEnv = "BENCH_PROC_CHILD"

func TestMain(m *testing.M) {
	if addr := os.Getenv(childEnv); addr != "" {
		serveChild(addr)
	}
	os.Exit(m.Run())
}

// serveChild uses processor time for every request, and answers with the processors it may use.
func serveChild(addr string) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		panic(err)
	}
	panic(http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for end := worked() + 50*time.Millisecond; worked() < end; {
		}
		status, _ := os.ReadFile("/proc/self/status")
		_, _ = w.Write(status)
	})))
}

// reserved returns an address that no other program can take before the child listens there.
func reserved(t *testing.T) string {
	t.Helper()
	port, err := loopback.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = port.Close() })
	return port.Addr()
}

// worked returns the processor time of this process. On a busy machine it grows slower than the clock.
func worked() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func TestAProcess(t *testing.T) {
	all, err := allowed()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	addr := reserved(t)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"="+addr)
	last := all[len(all)-1:]
	p, err := Start(t.Context(), cmd, addr, last)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	before, err := p.CPU()
	if err != nil {
		t.Fatal(err)
	}
	status := ask(t, addr)
	after, err := p.CPU()
	if err != nil || after-before < 30*time.Millisecond {
		t.Errorf("%v of processor time, %v: it has worked for 50 ms", after-before, err)
	}
	if want := fmt.Sprintf("Cpus_allowed_list:\t%d\n", last[0]); !strings.Contains(status, want) {
		t.Errorf("want %q in %s", want, status)
	}
	resident, err := p.Resident()
	peak, peakErr := p.PeakResident()
	if err != nil || peakErr != nil || resident < 1<<20 || peak < resident {
		t.Errorf("%d bytes, %d at most; %v, %v", resident, peak, err, peakErr)
	}
	p.Stop()
	select {
	case <-p.exited:
	default:
		t.Error("it has not ended")
	}
}

func ask(t *testing.T, addr string) (body string) {
	t.Helper()
	err := Admin(t.Context(), addr, "/", func(r io.Reader) error {
		text, err := io.ReadAll(r)
		body = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestAProcessThatEnds(t *testing.T) {
	addr := reserved(t)
	if _, err := Start(t.Context(), exec.Command("true"), addr, nil); err == nil || !strings.HasPrefix(err.Error(), "the process ended") {
		t.Errorf("%v", err)
	}
}

func TestHalves(t *testing.T) {
	all, err := allowed()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Halves(len(all)); err == nil {
		t.Error("all processors are the servers', and the load has some")
	}
	if len(all) < 2 {
		return
	}
	servers, load, err := Halves(1)
	if err != nil || len(servers) != 1 || len(load) != len(all)-1 || servers[0] == load[0] {
		t.Errorf("servers on %s, load on %s, %v", servers, load, err)
	}
}
