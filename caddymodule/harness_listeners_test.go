package caddymodule

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// awaitOneListener waits until the listeners of other configurations are closed, of the site and of the admin endpoint. Caddy
// closes them after Load has returned, and a connection that the kernel gives to one of them just then is reset.
func (g *gatehouse) awaitOneListener() {
	g.t.Helper()
	for deadline := time.Now().Add(patience); listeners(g.addr) > 1; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			g.t.Errorf("%d listen at the port of %s", listeners(g.addr), g.addr)
			break
		}
	}
	// Caddy may have the new admin server take connections from the listener of the one before, too, when configurations follow each other
	// fast. They are answered then.
	for deadline := time.Now().Add(time.Second); listeners(g.admin) > 1 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
	}
}

// listeners is how many sockets of this process listen at the port of an address, whatever the host. Another process may have the same port
// of another host.
func listeners(addr string) (count int) {
	_, text, _ := net.SplitHostPort(addr)
	port, _ := strconv.Atoi(text)
	own := ownSockets()
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		count += listenersIn(table, fmt.Sprintf(":%04X", port), own)
	}
	return count
}

// ownSockets are the inodes of the sockets of this process.
func ownSockets() map[string]bool {
	own := map[string]bool{}
	files, _ := os.ReadDir("/proc/self/fd")
	for _, file := range files {
		target, _ := os.Readlink("/proc/self/fd/" + file.Name())
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			own[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return own
}

// listenersIn reads one of the kernel's tables as far as it lists listeners: they come first.
func listenersIn(table, port string, own map[string]bool) (count int) {
	sockets, err := os.Open(table)
	if err != nil {
		return 0 // the machine has no such table
	}
	defer func() { _ = sockets.Close() }()
	lines := bufio.NewScanner(sockets)
	for lines.Scan(); lines.Scan(); { // the first line is the heading
		// The fields are a number, the local and the remote address, the state, and later the inode.
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || fields[3] != "0A" {
			break
		}
		if strings.HasSuffix(fields[1], port) && own[fields[9]] {
			count++
		}
	}
	return count
}
