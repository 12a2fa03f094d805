//go:build failpoint

package failpoint

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asChild is the environment variable that makes the test binary a process with points.
const asChild = "GATEHOUSE_TEST_FAILPOINT_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(asChild) == "" {
		os.Exit(m.Run())
	}
	for n := range 3 {
		Hit("after", "another step")
		Hit("after", "step")
		fmt.Println(n + 1)
	}
}

// child runs the process with a setting.
func child(t *testing.T, setting string) (*exec.Cmd, *strings.Builder) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var output strings.Builder
	command := exec.CommandContext(t.Context(), program)
	command.Env = append(os.Environ(), asChild+"=1", Variable+"="+setting)
	command.Stdout, command.Stderr = &output, &output
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	return command, &output
}

// TestThePointThatIsArmed: the process ends at the requested hit and nowhere else.
func TestThePointThatIsArmed(t *testing.T) {
	for setting, want := range map[string]struct {
		output string
		signal syscall.Signal // 0: it exits by itself
	}{
		"":                         {"1\n2\n3\n", 0},
		"kill 1 after: step":       {"", syscall.SIGKILL},
		"kill 3 after: step":       {"1\n2\n", syscall.SIGKILL},
		"kill 4 after: step":       {"1\n2\n3\n", 0},
		"kill 1 before: step":      {"1\n2\n3\n", 0},
		"delay 1 after: step":      {"1\n2\n3\n", 0},
		"kill 2 after: other step": {"1\n2\n3\n", 0},
	} {
		t.Run(setting, func(t *testing.T) {
			began := time.Now()
			command, output := child(t, setting)
			err := command.Wait()
			var failed *exec.ExitError
			got := syscall.Signal(0)
			if errors.As(err, &failed) {
				got = failed.Sys().(syscall.WaitStatus).Signal()
			}
			if output.String() != want.output || got != want.signal {
				t.Errorf("signal %d after %q, want %d after %q", got, output, want.signal, want.output)
			}
			if took := time.Since(began); strings.HasPrefix(setting, "delay") && took < delay {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// TestAProcessThatStopsGoesOn: stop sends SIGSTOP, and the process can be continued.
func TestAProcessThatStopsGoesOn(t *testing.T) {
	command, output := child(t, "stop 2 after: step")
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(command.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("the process has not stopped: %v, status %x", err, status)
	}
	if err := command.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err != nil || output.String() != "1\n2\n3\n" {
		t.Errorf("%v after %q", err, output)
	}
}

// TestASettingThatMeansNothing: a misspelt setting must not look like a run in which nothing was hit.
func TestASettingThatMeansNothing(t *testing.T) {
	for _, setting := range []string{"kill", "kill 1", "kill 0 after: step", "kill x after: step", "maim 1 after: step"} {
		command, output := child(t, setting)
		if err := command.Wait(); err == nil || !strings.Contains(output.String(), Variable) {
			t.Errorf("%q: %v, %s", setting, err, output)
		}
	}
}
