package caddymodule

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// upstream is a server that records requests as sent and answers "ok".
type upstream struct {
	addr     string
	answer   func(net.Conn, *recorded) // nil: 200 ok
	mu       sync.Mutex
	requests []*recorded
}

// recorded is a request as sent over the wire.
type recorded struct {
	Target  string
	Method  string
	Header  http.Header // spelled as sent, not canonicalised
	Body    string
	Trailer http.Header
	Raw     string // request line and header lines
}

// startUpstream listens on a free port until the test ends.
func startUpstream(t *testing.T) *upstream {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &upstream{addr: listener.Addr().String()}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go u.serve(connection)
		}
	}()
	return u
}

func (u *upstream) serve(connection net.Conn) {
	defer func() { _ = connection.Close() }()
	reader := bufio.NewReader(connection)
	head, err := readHead(reader)
	if err != nil {
		return
	}
	request, err := http.ReadRequest(bufio.NewReader(io.MultiReader(strings.NewReader(head), reader)))
	if err != nil {
		return
	}
	r := &recorded{Target: request.RequestURI, Method: request.Method, Header: spelled(head), Raw: head}
	body, _ := io.ReadAll(request.Body)
	r.Body, r.Trailer = string(body), request.Trailer
	u.mu.Lock()
	u.requests = append(u.requests, r)
	u.mu.Unlock()
	if u.answer != nil {
		u.answer(connection, r)
		return
	}
	_, _ = fmt.Fprintf(connection, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
}

// readHead reads a request line and header lines, with the empty line that ends them.
func readHead(reader *bufio.Reader) (string, error) {
	var head bytes.Buffer
	for {
		line, err := reader.ReadString('\n')
		head.WriteString(line)
		if err != nil {
			return "", err
		}
		if line == "\r\n" {
			return head.String(), nil
		}
	}
}

// spelled returns header lines under the names as sent, not canonicalized.
func spelled(head string) http.Header {
	header := make(http.Header)
	for line := range strings.SplitSeq(head, "\r\n") {
		if name, value, ok := strings.Cut(line, ": "); ok {
			header[name] = append(header[name], value)
		}
	}
	return header
}

// seen returns the requests since the last call.
func (u *upstream) seen() []*recorded {
	u.mu.Lock()
	defer u.mu.Unlock()
	requests := u.requests
	u.requests = nil
	return requests
}

// one returns the only request since the last call.
func (u *upstream) one(t *testing.T) *recorded {
	t.Helper()
	requests := u.seen()
	if len(requests) != 1 {
		t.Fatalf("the upstream saw %d requests, want 1", len(requests))
	}
	return requests[0]
}

// none fails the test for each request since the last call.
func (u *upstream) none(t *testing.T) {
	t.Helper()
	for _, r := range u.seen() {
		t.Errorf("the upstream saw %s %s", r.Method, r.Target)
	}
}
