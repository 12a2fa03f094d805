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

// awaitOneListener waits until earlier configurations have closed their listeners for the site and the admin endpoint. Caddy closes them after
// Load has returned and resets connections that the kernel still gives them.
func (g *gatehouse) awaitOneListener() {
	g.t.Helper()
	for deadline := time.Now().Add(patience); listeners(g.addr) > 1; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			g.t.Errorf("%d listen at the port of %s", listeners(g.addr), g.addr)
			break
		}
	}
	// When configurations follow each other fast, the new admin server may also take over the earlier listener. Its connections are answered.
	for deadline := time.Now().Add(time.Second); listeners(g.admin) > 1 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
	}
}

// listeners counts the sockets of this process that listen at the port of addr, on any host.
func listeners(addr string) (count int) {
	_, text, _ := net.SplitHostPort(addr)
	port, _ := strconv.Atoi(text)
	own := ownSockets()
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		count += listenersIn(table, fmt.Sprintf(":%04X", port), own)
	}
	return count
}

// ownSockets returns the inodes of this process's sockets.
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

// listenersIn counts the listeners at port in one of the kernel's tables, which lists listeners first.
func listenersIn(table, port string, own map[string]bool) (count int) {
	sockets, err := os.Open(table)
	if err != nil {
		return 0 // no IPv6
	}
	defer func() { _ = sockets.Close() }()
	lines := bufio.NewScanner(sockets) //lint:ignore scannererr it stops before the end, since the kernel is slow to list connections
	for lines.Scan(); lines.Scan(); {  // the first line is the heading
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
