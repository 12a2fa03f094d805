//go:build !linux

package proc

import (
	"errors"
	"os/exec"
	"time"
)

var errLinux = errors.New("the benchmark measures on Linux only")

func cpuTime(int) (time.Duration, error)     { return 0, errLinux }
func allowed() (CPUs, error)                 { return nil, errLinux }
func bindSelf(CPUs) error                    { return errLinux }
func (c CPUs) start(command *exec.Cmd) error { return command.Start() }
