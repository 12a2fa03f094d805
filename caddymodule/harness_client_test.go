package caddymodule

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// oneShot returns a transport that opens a connection for each request and reads an answer that comes before the whole request was sent. A server
// that refuses a body closes the connection soon after its answer, and net/http drops the unread part: "use of closed network connection".
func oneShot(dialer *net.Dialer) *http.Transport {
	return &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if host, port, _ := net.SplitHostPort(addr); strings.HasSuffix(host, ".localhost") { // as browsers and curl do
			addr = net.JoinHostPort("127.0.0.1", port)
		}
		connection, err := dialer.DialContext(ctx, network, addr)
		return answerFirst{connection}, err
	}}
}

// answerFirst is a connection on which only reading fails, so that what the peer sent before it closed can still be read.
type answerFirst struct{ net.Conn }

// Write never fails; the error shows when the answer is read.
func (c answerFirst) Write(p []byte) (int, error) {
	_, _ = c.Conn.Write(p)
	return len(p), nil
}

type answer struct {
	status int
	header http.Header
	body   string
}

// answerOf returns what a request returned as an answer.
func answerOf(status int, header http.Header, body string) answer {
	return answer{status, header, body}
}

// location returns the URL of the Location header.
func (a answer) location() *url.URL {
	u, _ := url.Parse(a.header.Get("Location"))
	return u
}

// is checks the status of an answer. The words say of which one.
func (a answer) is(t *testing.T, status int, words ...any) {
	t.Helper()
	if a.status != status {
		t.Errorf("%s: %d, want %d: %v %s", fmt.Sprint(words...), a.status, status, a.header, a.body)
	}
}

// leads checks the status of an answer and where it leads; an empty address: nowhere.
func (a answer) leads(t *testing.T, status int, to string, words ...any) {
	t.Helper()
	a.is(t, status, words...)
	if got := a.header.Get("Location"); got != to {
		t.Errorf("%s: leads to %q, want %q", fmt.Sprint(words...), got, to)
	}
}

// stays is a CheckRedirect that follows no redirect.
func stays(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// sentBy sends a request and reads the answer; headers are name, value, name, value, …
func sentBy(t *testing.T, client *http.Client, method, target, body string, headers ...string) answer {
	t.Helper()
	request, err := http.NewRequest(method, target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for pair := range slices.Chunk(headers, 2) {
		request.Header.Add(pair[0], pair[1])
	}
	return answerTo(t, client, request)
}

// answerTo sends request and reads the answer.
func answerTo(t *testing.T, client *http.Client, request *http.Request) answer {
	t.Helper()
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	return read(t, response)
}

// read reads the whole of an answer.
func read(t *testing.T, response *http.Response) answer {
	t.Helper()
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(text)}
}

// TestAnAnswerBeforeTheEndOfTheRequestIsRead resets the connection in the middle of the body.
func TestAnAnswerBeforeTheEndOfTheRequestIsRead(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = connection.Read(make([]byte, 1))
			_, _ = io.WriteString(connection, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 5\r\nConnection: close\r\n\r\n")
			_, _ = io.WriteString(connection, "large")
			_ = connection.(*net.TCPConn).SetLinger(0)
			_ = connection.Close()
		}
	}()
	client := &http.Client{Transport: oneShot(new(net.Dialer)), Timeout: patience}
	for range 20 {
		response, err := client.Post("http://"+listener.Addr().String(), urlEncoded, strings.NewReader(strings.Repeat("x", 4<<20)))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond) // while the body is being written
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != http.StatusRequestEntityTooLarge || string(body) != "large" {
			t.Fatalf("%d %q, %v", response.StatusCode, body, err)
		}
	}
}
