package pgtest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// childEnv is the environment variable that says how a child process of the test ends.
const childEnv = "GATEHOUSE_PGTEST_CHILD"

func TestMain(m *testing.M) {
	if how := os.Getenv(childEnv); how != "" {
		endLikeThis(how)
	}
	os.Exit(m.Run())
}

// endLikeThis starts a server, prints where, and ends this process without stopping the server.
func endLikeThis(how string) {
	s, err := create(nil, onDisk)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(s.host.root, s.process.command.Process.Pid)
	switch how {
	case "panic":
		panic("as a test's timeout does")
	case "killed":
		time.Sleep(time.Hour)
	case "killed amid Kill":
		if err := s.process.freeze(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("frozen")
		time.Sleep(time.Hour)
	}
	os.Exit(0)
}

// TestNoServerOutlivesItsTests: neither the postmaster nor its children nor the directory outlive the test process.
func TestNoServerOutlivesItsTests(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	for _, how := range []string{"exit", "panic", "killed", "killed amid Kill"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			child := exec.CommandContext(t.Context(), self)
			child.Env = append(os.Environ(), childEnv+"="+how)
			var complaints strings.Builder
			child.Stderr = &complaints
			output, err := child.StdoutPipe()
			must(t, err)
			must(t, child.Start())
			t.Cleanup(func() {
				_ = child.Process.Kill()
				_ = child.Wait() // after this its output is complete
				if t.Failed() {
					t.Logf("the child complains: %s", &complaints)
				}
			})
			lines := bufio.NewScanner(output)
			lines.Scan()
			root, number, ok := strings.Cut(lines.Text(), " ")
			if !ok {
				t.Fatalf("the child says %q", lines.Text())
			}
			postmaster, err := strconv.Atoi(number)
			must(t, err)
			if how == "killed amid Kill" && (!lines.Scan() || lines.Text() != "frozen") {
				t.Fatalf("the child says %q", lines.Text())
			}
			family := append(childrenOf(t, postmaster, how), postmaster)
			if strings.HasPrefix(how, "killed") {
				must(t, child.Process.Kill())
			}
			_ = child.Wait() // it fails on purpose
			must(t, eventually("end of the server", func() (bool, error) {
				for _, pid := range family {
					if _, state, err := stat(pid); err == nil && state != "Z" {
						return false, nil
					}
				}
				return !exists(root), nil
			}))
		})
	}
}

// childrenOf lists the backends of a server whose process still exists.
func childrenOf(t *testing.T, postmaster int, how string) []int {
	t.Helper()
	if !strings.HasPrefix(how, "killed") {
		return nil
	}
	parent, err := os.FindProcess(postmaster)
	must(t, err)
	p := &process{command: &exec.Cmd{Process: parent}}
	children, err := p.signalChildren(0)
	must(t, err)
	if len(children) == 0 {
		t.Error("the server has no children")
	}
	return children
}
