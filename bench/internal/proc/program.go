package proc

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// Program is a program that runs in a directory of its own, which has its log too.
type Program struct {
	Path, Dir string
	// CPUs are the processors that it is kept to; none: all.
	CPUs CPUs
	// Procs and GOGC are its GOMAXPROCS and GOGC.
	Procs, GOGC int
}

// Start starts it and waits until it listens at addr. The error of a process that did not start has the end of its log.
func (p Program) Start(ctx context.Context, addr string, arguments ...string) (*Process, error) {
	log, err := os.OpenFile(p.log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()        // the child has its own handle
	cmd := exec.Command(p.Path, arguments...) //nolint:gosec // what the flag names, or what was built here
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

// LastLines is the end of its log, on lines of its own.
func (p Program) LastLines() string {
	text, err := os.ReadFile(p.log())
	if err != nil || len(text) == 0 {
		return ""
	}
	return "\n" + string(text[max(0, len(text)-2000):])
}
