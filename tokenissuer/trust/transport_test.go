package trust

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
)

var errNotHere = errors.New("no test dials this")

// TestT205WhatATransportReaches: a transport dials what its reach has, whatever name leads there, and nothing else.
func TestT205WhatATransportReaches(t *testing.T) {
	p := newProvider(t)
	_, port, _ := net.SplitHostPort(p.Listener.Addr().String())
	const metadata = "169.254.169.254"
	for _, c := range []struct {
		name, url, address string
		reached            map[Reach]bool
	}{
		{"loopback by address", "http://127.0.0.1:" + port, "", map[Reach]bool{Loopback: true, PrivateNetwork: true}},
		{"a name of loopback", "http://app.example:" + port, "127.0.0.1", map[Reach]bool{Loopback: true, PrivateNetwork: true}},
		{"a name of loopback, https", "https://app.example:" + port, "127.0.0.1", map[Reach]bool{Loopback: true, PrivateNetwork: true}},
		{"localhost that is elsewhere", "https://app.example:" + port, "10.0.0.1", map[Reach]bool{PrivateNetwork: true}},
		{"a private address, http", "http://10.0.0.1:" + port, "", nil},
		{"the metadata of a cloud", "https://" + metadata, "", nil},
		{"a name of the metadata of a cloud", "https://app.example", metadata, nil},
		{"credentials", "https://user:word@app.example:" + port, "127.0.0.1", nil},
	} {
		for _, reach := range []Reach{Internet, Loopback, PrivateNetwork} {
			transport := NewTransport(reach)
			if c.address != "" {
				transport.dialer.Resolver = nameserver(t, c.address)
			}
			dialled := false
			transport.dialer.ControlContext = func(ctx context.Context, network, address string, c syscall.RawConn) error {
				err := transport.guard.control(ctx, network, address, c)
				dialled = dialled || err == nil
				if err == nil && !strings.HasPrefix(address, "127.") {
					err = errNotHere // the test leaves the machine alone
				}
				return err
			}
			u, err := url.Parse(c.url)
			if err != nil {
				t.Fatal(err)
			}
			response, err := transport.RoundTrip((&http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}}).WithContext(t.Context()))
			if err == nil {
				_ = response.Body.Close()
			}
			if dialled != c.reached[reach] {
				t.Errorf("%s, reach %d: dialled %t, %v", c.name, reach, dialled, err)
			}
			if !dialled && !errors.Is(err, errAddress) && !strings.Contains(err.Error(), "must be https") && !strings.Contains(err.Error(), "no URL") {
				t.Errorf("%s, reach %d: not our error: %v", c.name, reach, err)
			}
			transport.CloseIdleConnections()
		}
	}
	if NewTransport(Internet).transport.Proxy != nil {
		t.Error("a proxy would dial for us")
	}
}
