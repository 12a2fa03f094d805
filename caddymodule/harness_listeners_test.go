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
	for _, addr := range []string{g.addr, g.admin} {
		for deadline := time.Now().Add(patience); listeners(addr) > 1; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				g.t.Errorf("%d listen at the port of %s", listeners(addr), addr)
				break
			}
		}
	}
}

// listeners is how many sockets listen at the port of an address, whatever the host.
func listeners(addr string) (count int) {
	_, text, _ := net.SplitHostPort(addr)
	port, _ := strconv.Atoi(text)
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		count += listenersIn(table, fmt.Sprintf(":%04X", port))
	}
	return count
}

// listenersIn reads one of the kernel's tables as far as it lists listeners: they come first.
func listenersIn(table, port string) (count int) {
	sockets, err := os.Open(table)
	if err != nil {
		return 0 // the machine has no such table
	}
	defer func() { _ = sockets.Close() }()
	lines := bufio.NewScanner(sockets)
	for lines.Scan(); lines.Scan(); { // the first line is the heading
		// The fields are a number, the local and the remote address, and the state.
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || fields[3] != "0A" {
			break
		}
		if strings.HasSuffix(fields[1], port) {
			count++
		}
	}
	return count
}
