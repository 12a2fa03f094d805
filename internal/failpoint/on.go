//go:build failpoint

package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Variable is the environment variable that arms a point.
const Variable = "GATEHOUSE_FAILPOINT"

// delay is how long the mode delay waits.
const delay = 2 * time.Second

// The armed point of this process; empty: none.
var (
	armed string
	act   func()
	// left is the number of hits that remain until it triggers.
	left atomic.Int64
)

func init() {
	setting := os.Getenv(Variable)
	if setting == "" {
		return
	}
	mode, rest, _ := strings.Cut(setting, " ")
	count, point, _ := strings.Cut(rest, " ")
	n, err := strconv.ParseInt(count, 10, 64)
	act = modes[mode]
	if err != nil || n < 1 || point == "" || act == nil {
		panic(fmt.Sprintf("%s: %q is not of the form %q", Variable, setting, "kill 1 after commit: redeeming code"))
	}
	armed = point
	left.Store(n)
}

var modes = map[string]func(){
	"kill":  func() { die(syscall.SIGKILL); select {} },
	"stop":  func() { die(syscall.SIGSTOP) },
	"delay": func() { time.Sleep(delay) },
}

func die(s syscall.Signal) {
	if err := syscall.Kill(os.Getpid(), s); err != nil {
		panic(err)
	}
}

// Is reports whether this is the armed point.
func Is(point, of string) bool { return armed != "" && armed == point+": "+of }

// Hit is called when the process reaches a point of its work on something.
func Hit(point, of string) {
	if Is(point, of) && left.Add(-1) == 0 {
		act()
	}
}
