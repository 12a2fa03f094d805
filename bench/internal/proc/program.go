package proc

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// Program is a program that runs in its own directory, which also holds its log.
type Program struct {
	Path, Dir string
	// CPUs are the processors that it is bound to; none: all.
	CPUs CPUs
	// Procs and GOGC are its GOMAXPROCS and GOGC.
	Procs, GOGC int
}

// Start starts the program and waits until it listens at addr. If that fails, the error includes the end of its log.
func (p Program) Start(ctx context.Context, addr string, arguments ...string) (*Process, error) {
	log, err := os.OpenFile(p.log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()        // the child has its own handle
	cmd := exec.Command(p.Path, arguments...) //lint:ignore gosec named by a flag, or built here
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(p.Procs), "GOGC="+strconv.Itoa(p.GOGC), "HOME="+p.Dir,
		"XDG_DATA_HOME="+filepath.Join(p.Dir, "data"), "XDG_CONFIG_HOME="+filepath.Join(p.Dir, "config"))
	process, err := Start(ctx, cmd, addr, p.CPUs)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w%s", p.Path, err, p.LastLines())
	}
	return process, nil
}

func (p Program) log() string { return filepath.Join(p.Dir, "log") }

// LastLines returns the end of its log, beginning on a new line.
func (p Program) LastLines() string {
	text, err := os.ReadFile(p.log())
	if err != nil || len(text) == 0 {
		return ""
	}
	return "\n" + string(text[max(0, len(text)-2000):])
}
