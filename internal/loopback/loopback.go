// Package loopback reserves TCP ports for test servers that stop and restart at the same address of this machine.
package loopback

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// Port is a reserved port. A socket that is bound and never listens holds it. Until a server listens there, clients are refused, and the
// kernel does not assign the number to another program. A server that asks for the number and sets SO_REUSEADDR, as Go and PostgreSQL do,
// gets it any number of times. The socket is bound at every address of the machine: a server that listens at all of them, as Caddy does
// at `:1234`, would otherwise conflict with an outgoing connection from another address of the machine with that port number.
type Port struct {
	number, socket int
}

// Reserve takes a port that is free at every address, including IPv6 if the machine has it.
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
	// The lock prevents a child that is being started from inheriting the socket before it is marked close-on-exec.
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

// Addr returns 127.0.0.1 and the port, in the form of net.Listen and net.Dial.
func (p *Port) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.number)) }

// Number returns the port alone.
func (p *Port) Number() int { return p.number }

// Close releases the port. A listener on it is unaffected.
func (p *Port) Close() error { return syscall.Close(p.socket) }
