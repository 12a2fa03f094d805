package loopback

import (
	"errors"
	"net"
	"strconv"
	"syscall"
	"testing"
)

// TestAServerComesBackAtItsPort restarts a server with connected clients, which leaves the port in TIME_WAIT.
func TestAServerComesBackAtItsPort(t *testing.T) {
	p, err := Reserve()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	for range 3 {
		if _, err := net.Dial("tcp4", p.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("without a server: %v, want a refusal", err)
		}
		listener, err := net.Listen("tcp4", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		client, err := net.Dial("tcp4", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		served, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		for _, end := range []func() error{served.Close, client.Close, listener.Close} {
			if err := end(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestNobodyElseIsGivenThePort: a program that does not ask for the port by number and with SO_REUSEADDR gets another one, at any address
// of the machine. Otherwise a server at all addresses would conflict with it.
func TestNobodyElseIsGivenThePort(t *testing.T) {
	p, err := Reserve()
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range [][4]byte{{127, 0, 0, 1}, {127, 0, 0, 2}, {}} {
		other, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = syscall.Close(other) }()
		if err := syscall.Bind(other, &syscall.SockaddrInet4{Addr: host, Port: p.Number()}); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("at %v while it is reserved: %v, want that it is in use", host, err)
		}
	}
	everywhere, err := net.Listen("tcp", ":"+strconv.Itoa(p.Number()))
	if err != nil {
		t.Fatalf("a server that asks for it by name: %v", err)
	}
	if err := everywhere.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	other, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(other) }()
	if err := syscall.Bind(other, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: p.Number()}); err != nil {
		t.Errorf("after it was given back: %v", err)
	}
}
