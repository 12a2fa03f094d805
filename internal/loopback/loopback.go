// Package loopback keeps TCP ports of 127.0.0.1 for test servers that go down and come back at the same address.
package loopback

import (
	"fmt"
	"net/netip"
	"syscall"
)

// Port is a port that no other program is given. It is held by a socket that is bound and never listens: until a server
// listens there a client is refused, and the kernel hands the number to nobody else, while a server that asks for it by
// name and sets SO_REUSEADDR, as Go and PostgreSQL do, gets it as often as it likes.
type Port struct {
	addr   netip.AddrPort
	socket int
}

// Reserve takes a free port.
func Reserve() (*Port, error) {
	// The lock keeps a child that is being started from inheriting the socket before it is marked.
	syscall.ForkLock.RLock()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(socket)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, fmt.Errorf("reserving a port: %w", err)
	}
	p := &Port{socket: socket}
	if err := p.bind(); err != nil {
		_ = p.Close()
		return nil, fmt.Errorf("reserving a port: %w", err)
	}
	return p, nil
}

func (p *Port) bind() error {
	if err := syscall.SetsockoptInt(p.socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return err
	}
	host := [4]byte{127, 0, 0, 1}
	if err := syscall.Bind(p.socket, &syscall.SockaddrInet4{Addr: host}); err != nil {
		return err
	}
	name, err := syscall.Getsockname(p.socket)
	if err != nil {
		return err
	}
	bound, ok := name.(*syscall.SockaddrInet4)
	if !ok {
		return fmt.Errorf("bound to a %T", name)
	}
	p.addr = netip.AddrPortFrom(netip.AddrFrom4(host), uint16(bound.Port)) //nolint:gosec // a port has 16 bits
	return nil
}

// Addr is the host and the port, as net.Listen and net.Dial take them.
func (p *Port) Addr() string { return p.addr.String() }

// Number is the port alone.
func (p *Port) Number() int { return int(p.addr.Port()) }

// Close gives the port back. Whoever listens on it stays.
func (p *Port) Close() error { return syscall.Close(p.socket) }
