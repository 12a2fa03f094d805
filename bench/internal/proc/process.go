// Package proc starts the processes of the benchmark and reads their processor time, memory and allocations. It needs
// Linux.
package proc

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/loopback"
)

const (
	startTimeout = time.Minute
	stopTimeout  = 10 * time.Second
)

// Process is a child process that listens.
type Process struct {
	// Addr is its address.
	Addr   string
	cmd    *exec.Cmd
	exited chan struct{}
}

// Start starts the command on the given processors (none: any) and waits until it listens at addr.
func Start(ctx context.Context, cmd *exec.Cmd, addr string, cpus CPUs) (*Process, error) {
	p := &Process{Addr: addr, cmd: cmd, exited: make(chan struct{})}
	if err := cpus.start(cmd); err != nil {
		return nil, err
	}
	go func() {
		_ = cmd.Wait()
		close(p.exited)
	}()
	if err := p.awaitListening(ctx); err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

func (p *Process) awaitListening(ctx context.Context) error {
	return p.Await(ctx, func() error {
		c, err := net.Dial("tcp", p.Addr)
		if err != nil {
			return err
		}
		return c.Close()
	})
}

// Await calls try until it succeeds or the process has ended. After a minute it returns the last error.
func (p *Process) Await(ctx context.Context, try func() error) error {
	for deadline := time.After(startTimeout); ; {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("the process ended: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline:
			return err
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// Stop ends the process and waits until it has ended.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}

// CPU returns the processor time of the process so far, its own and the kernel's for it.
func (p *Process) CPU() (time.Duration, error) { return cpuTime(p.cmd.Process.Pid) }

// SelfCPU returns the same for this process.
func SelfCPU() (time.Duration, error) { return cpuTime(os.Getpid()) }

// Resident returns the resident memory of the process, in bytes.
func (p *Process) Resident() (int64, error) { return statusBytes(p.cmd.Process.Pid, "VmRSS:") }

// PeakResident returns the highest resident memory so far, in bytes.
func (p *Process) PeakResident() (int64, error) { return statusBytes(p.cmd.Process.Pid, "VmHWM:") }

// statusBytes returns a size from /proc/PID/status, in bytes.
func statusBytes(pid int, name string) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
			kilobytes, err := strconv.ParseInt(string(bytes.Fields(rest)[0]), 10, 64)
			return kilobytes << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/PID/status has no %s", name)
}

// FreeAddress returns a loopback address for a server that is started next. It returns each address once in the life
// of this process.
func FreeAddress() (string, error) {
	port, err := loopback.Reserve()
	if err != nil {
		return "", err
	}
	return port.Addr(), nil
}
