package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is one run of a server, from its start to its end.
type process struct {
	command *exec.Cmd
	gone    chan struct{} // closed when the postmaster has ended
}

// launch starts the postmaster and appends its output to a log.
func launch(h *host, data, log string) (*process, error) {
	output, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = output.Close() }()
	p := &process{command: h.program("postgres", "-D"+data), gone: make(chan struct{})}
	p.command.Stdout, p.command.Stderr = output, output
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.command.Wait() // the log says how it ended
		close(p.gone)
	}()
	return p, nil
}

func (p *process) alive() bool {
	select {
	case <-p.gone:
		return false
	default:
		return true
	}
}

// await waits for the end of the postmaster.
func (p *process) await() error {
	select {
	case <-p.gone:
		return nil
	case <-time.After(patience):
		return errors.New("the server did not end in time")
	}
}

// signal sends a signal to the postmaster. It does nothing if the postmaster has ended.
func (p *process) signal(s syscall.Signal) error {
	if err := p.command.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// freeze stops the postmaster, which then starts no new children.
func (p *process) freeze() error {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return eventually("postmaster to stand still", func() (bool, error) {
		_, state, err := stat(p.command.Process.Pid)
		return err == nil && state == "T" || !p.alive(), nil
	})
}

// kill ends all processes of the server like a power failure. It returns when none is left, because a postmaster refuses to start while a
// backend of its predecessor lives.
func (p *process) kill() error {
	if err := p.freeze(); err != nil || !p.alive() {
		return err
	}
	children, err := p.signalChildren(syscall.SIGKILL)
	if err := errors.Join(err, p.signal(syscall.SIGKILL), p.await()); err != nil {
		return err
	}
	return eventually("end of the backends", func() (bool, error) {
		for _, child := range children {
			if _, state, err := stat(child); err == nil && state != "Z" {
				return false, nil
			}
		}
		return true, nil
	})
}

// quit ends a server that will not be resumed. Unlike kill it frees the shared memory.
func (p *process) quit() error { return errors.Join(p.signal(syscall.SIGQUIT), p.await()) }

// signalChildren sends a signal to the children of the postmaster and returns their process ids.
func (p *process) signalChildren(s syscall.Signal) ([]int, error) {
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var children []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(filepath.Base(entry))
		if err != nil {
			return nil, err
		}
		parent, _, err := stat(pid)
		if err != nil || parent != p.command.Process.Pid {
			continue // it may have ended since it was listed
		}
		if err := syscall.Kill(pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
			return nil, fmt.Errorf("signal to backend %d: %w", pid, err)
		}
		children = append(children, pid)
	}
	return children, nil
}

// stat reads the parent and the state of a process from /proc. The name before them is in parentheses and may itself contain parentheses.
func stat(pid int) (parent int, state string, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, "", err
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 2 {
		return 0, "", fmt.Errorf("/proc/%d/stat: %q", pid, text)
	}
	parent, err = strconv.Atoi(fields[1])
	return parent, fields[0], err
}

// eventually calls ask until it returns true or an error, or patience is over.
func eventually(what string, ask func() (bool, error)) error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if yes, err := ask(); yes || err != nil {
			return err
		}
	}
	return fmt.Errorf("waited in vain for the %s", what)
}
