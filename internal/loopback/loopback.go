// Package loopback keeps TCP ports for test servers that go down and come back at the same address of this machine.
package loopback

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// Port is a port that no other program is given. It is held by a socket that is bound and never listens: until a server
// listens there a client is refused, and the kernel hands the number to nobody else, while a server that asks for it by
// name and sets SO_REUSEADDR, as Go and PostgreSQL do, gets it as often as it likes. The socket is bound at every
// address of the machine: a server that listens at all of them, as Caddy does at `:1234`, would otherwise meet a
// connection that left from the machine's other address and that number.
type Port struct {
	number, socket int
}

// Reserve takes a port that is free at every address, of IPv6 too where the machine has it.
func Reserve() (*Port, error) {
	p, err := reserve(syscall.AF_INET6, &syscall.SockaddrInet6{})
	if errors.Is(err, syscall.EAFNOSUPPORT) || errors.Is(err, syscall.EADDRNOTAVAIL) {
		p, err = reserve(syscall.AF_INET, &syscall.SockaddrInet4{})
	}
	if err != nil {
		return nil, fmt.Errorf("reserving a port: %w", err)
	}
	return p, nil
}

func reserve(family int, everywhere syscall.Sockaddr) (*Port, error) {
	// The lock keeps a child that is being started from inheriting the socket before it is marked.
	syscall.ForkLock.RLock()
	socket, err := syscall.Socket(family, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(socket)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, err
	}
	p := &Port{socket: socket}
	if err := p.bind(family, everywhere); err != nil {
		_ = p.Close()
		return nil, err
	}
	return p, nil
}

func (p *Port) bind(family int, everywhere syscall.Sockaddr) error {
	if err := syscall.SetsockoptInt(p.socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return err
	}
	if family == syscall.AF_INET6 {
		if err := syscall.SetsockoptInt(p.socket, syscall.IPPROTO_IPV6, syscall.IPV6_V6ONLY, 0); err != nil {
			return err
		}
	}
	if err := syscall.Bind(p.socket, everywhere); err != nil {
		return err
	}
	name, err := syscall.Getsockname(p.socket)
	if err != nil {
		return err
	}
	switch bound := name.(type) {
	case *syscall.SockaddrInet6:
		p.number = bound.Port
	case *syscall.SockaddrInet4:
		p.number = bound.Port
	default:
		return fmt.Errorf("bound to a %T", name)
	}
	return nil
}

// Addr is 127.0.0.1 and the port, as net.Listen and net.Dial take them.
func (p *Port) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.number)) }

// Number is the port alone.
func (p *Port) Number() int { return p.number }

// Close releases the port. A listener on it is unaffected.
func (p *Port) Close() error { return syscall.Close(p.socket) }
