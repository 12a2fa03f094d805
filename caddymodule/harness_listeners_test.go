package caddymodule

import (
	"net"
	"os"
	"strconv"
	"syscall"
	"time"
)

// awaitOneListener waits until earlier configurations have closed their listeners for the site and the admin endpoint. Caddy closes them after
// Load has returned and resets connections that the kernel still gives them.
func (g *gatehouse) awaitOneListener() {
	g.t.Helper()
	for _, addr := range []string{g.addr, g.tlsAddr} {
		for deadline := time.Now().Add(patience); addr != "" && listeners(addr) > 1; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				g.t.Errorf("%d listen at the port of %s", listeners(addr), addr)
				break
			}
		}
	}
	// When configurations follow each other fast, the new admin server may also take over the earlier listener. Its connections are answered.
	for deadline := time.Now().Add(time.Second); listeners(g.admin) > 1 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
	}
}

// listeners counts the sockets of this process that listen at the port of addr, on any host.
func listeners(addr string) (count int) {
	_, port, _ := net.SplitHostPort(addr)
	files, _ := os.ReadDir("/proc/self/fd")
	for _, file := range files {
		descriptor, _ := strconv.Atoi(file.Name())
		if listens, err := syscall.GetsockoptInt(descriptor, syscall.SOL_SOCKET, syscall.SO_ACCEPTCONN); err == nil && listens == 1 {
			number := 0
			switch name, _ := syscall.Getsockname(descriptor); name := name.(type) {
			case *syscall.SockaddrInet4:
				number = name.Port
			case *syscall.SockaddrInet6:
				number = name.Port
			}
			if strconv.Itoa(number) == port {
				count++
			}
		}
	}
	return count
}
