//go:build linux

package rig

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// mebibyte is the unit in which memory is reported.
const mebibyte = 1 << 20

// proc reads a file of the node in /proc.
func (n *Node) proc(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(n.life().command.Process.Pid), name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// resident returns the memory that the node holds, in bytes. Memory that the kernel could reclaim at once counts too.
func (n *Node) resident(t *testing.T) int64 {
	t.Helper()
	for line := range bytes.Lines(n.proc(t, "status")) {
		if rest, ok := bytes.CutPrefix(line, []byte("VmRSS:")); ok {
			kibibytes, err := strconv.ParseInt(string(bytes.Fields(rest)[0]), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kibibytes << 10
		}
	}
	t.Fatal("the kernel does not say how much memory the node holds")
	return 0
}

// files returns how many files the node has open, including connections.
func (n *Node) files(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(n.life().command.Process.Pid), "fd"))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// goroutines returns the number of the node's goroutines.
func (n *Node) goroutines(t *testing.T) (count int) {
	t.Helper()
	profile := n.profile(t, "goroutine?debug=1")
	if _, err := fmt.Sscanf(profile, "goroutine profile: total %d", &count); err != nil {
		t.Fatalf("%v: %s", err, profile)
	}
	return count
}

// live returns the size of the node's live objects, in bytes, without the memory of the race detector.
func (n *Node) live(t *testing.T) (bytes int64) {
	t.Helper()
	n.profile(t, "heap?gc=1") // objects in pools are freed at the second collection
	profile := n.profile(t, "heap?gc=1&debug=1")
	_, rest, _ := strings.Cut(profile, "\n# HeapAlloc = ")
	if _, err := fmt.Sscanf(rest, "%d", &bytes); err != nil {
		t.Fatalf("%v: %s", err, profile[:min(len(profile), 1000)])
	}
	return bytes
}

// profile returns a profile of the node's runtime.
func (n *Node) profile(t *testing.T, name string) string {
	t.Helper()
	return uncut(t, func() Answer {
		return Send(t.Context(), http.MethodGet, "http://"+n.Admin+"/debug/pprof/"+name, "")
	}).Body
}

// settles waits until the node holds no more than before of what can leak, apart from what serving occasionally needs, and the 32
// connections that reverse_proxy keeps to an upstream.
func (n *Node) settles(t *testing.T, goroutines, files int) {
	t.Helper()
	soon(t, "the node to let go of what it held", func() bool {
		return n.files(t) <= files+50 && n.goroutines(t) <= goroutines+100
	})
}
