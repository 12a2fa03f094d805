package proc

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime reads the process's CPU-time clock. It is accurate to the nanosecond; /proc/PID/stat counts hundredths of a
// second.
func cpuTime(pid int) (time.Duration, error) {
	// The kernel encodes the clock's number from the inverted process id and from 2, for the scheduler's own
	// accounting (CPUCLOCK_SCHED); clock_getcpuclockid(3) does the same.
	clock := int32(^pid)<<3 | 2 //lint:ignore gosec process ids have 22 bits
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0, fmt.Errorf("the processor time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// allowed returns the processors that this process may use.
func allowed() (CPUs, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, err
	}
	var all CPUs
	for n := range 8 * len(set) * 8 {
		if set.IsSet(n) {
			all = append(all, n)
		}
	}
	return all, nil
}

func (c CPUs) set() *unix.CPUSet {
	var set unix.CPUSet
	for _, n := range c {
		set.Set(n)
	}
	return &set
}

// bindSelf binds all threads. A thread that starts meanwhile inherits the binding of the one that started it, so
// bindSelf repeats until it finds no new thread.
func bindSelf(cpus CPUs) error {
	bound := make(map[string]bool)
	for again := true; again; {
		again = false
		threads, err := filepath.Glob("/proc/self/task/*")
		if err != nil {
			return err
		}
		for _, thread := range threads {
			if bound[thread] {
				continue
			}
			id, err := strconv.Atoi(filepath.Base(thread))
			if err != nil {
				return err
			}
			if err := unix.SchedSetaffinity(id, cpus.set()); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("binding to processors %s: %w", cpus, err)
			}
			bound[thread], again = true, true
		}
	}
	return nil
}

// start starts a command on the processors. A child inherits the binding of the thread that starts it. This goroutine
// therefore locks a thread, binds it, and lets it end afterwards.
func (c CPUs) start(cmd *exec.Cmd) error {
	if len(c) == 0 {
		return cmd.Start()
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := unix.SchedSetaffinity(0, c.set())
		if err == nil {
			err = cmd.Start()
		}
		started <- err
	}()
	return <-started
}
