//go:build linux

package rig

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// streamPath is where streams are behind the gate.
const streamPath = "/api/stream"

// streamingUpstream answers upgrades with an echo, and other requests for a stream with an event and then silence. It returns
// its address.
func streamingUpstream(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != streamPath {
			_, _ = io.WriteString(w, "ok")
			return
		}
		control := http.NewResponseController(w)
		if r.Header.Get("Upgrade") == "" {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: first\n\n")
			_ = control.Flush()
			<-r.Context().Done()
			return
		}
		connection, buffered, err := control.Hijack()
		if err != nil {
			return
		}
		defer connection.Close()
		_, _ = io.WriteString(connection, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(connection, buffered)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.Listener.Addr().String()
}

// multiplexing lets nodes speak HTTP/2 without TLS, and WebSockets over it (RFC 8441), which Go's server does when it is told so
// as its process begins. Such a WebSocket is a body to Caddy, which ends one that sends nothing for a minute unless it is told otherwise.
func multiplexing(setup Setup) Setup {
	setup.Global += "servers {\n\t\tprotocols h1 h2c\n\t\ttimeouts {\n\t\t\tread_body_idle 1h\n\t\t}\n\t}"
	setup.Environment = append(setup.Environment, "GODEBUG=http2xconnect=1")
	return setup
}

// stream is an answer that goes on and on.
type stream struct {
	reader *bufio.Reader
	writer io.Writer // nil: it takes nothing
	close  func() error
	ended  chan time.Time // told once, when somebody watches
	watch  sync.Once
}

// streamKinds are how a stream is asked for. Those of one turn after the other are of all kinds.
var streamKinds = []struct {
	name string
	open func(ctx context.Context, n *Node, token string) (*stream, error)
}{
	{"WebSocket", openWebSocket},
	{"events", openEvents},
	{"WebSocket over HTTP/2", openWebSocketInHTTP2},
	{"events over HTTP/2", openEventsInHTTP2},
}

// mustOpen opens a stream through a node's gate, of each kind in turn, and sees it run. The node must be multiplexing.
func mustOpen(t *testing.T, n *Node, token string, turn int) *stream {
	t.Helper()
	s, err := tryOpen(t, n, token, turn)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// tryOpen is mustOpen for who can go on without.
func tryOpen(t *testing.T, n *Node, token string, turn int) (*stream, error) {
	t.Helper()
	kind := streamKinds[turn%len(streamKinds)]
	s, err := kind.open(t.Context(), n, token)
	if err == nil {
		t.Cleanup(func() { _ = s.close() })
		err = s.runs()
	}
	if err != nil {
		return nil, fmt.Errorf("opening a stream: %s: %w", kind.name, err)
	}
	return s, nil
}

func openWebSocket(ctx context.Context, n *Node, token string) (*stream, error) {
	return openRaw(ctx, n, token, "Connection: Upgrade\r\nUpgrade: websocket\r\n", " 101 ")
}

func openEvents(ctx context.Context, n *Node, token string) (*stream, error) {
	return openRaw(ctx, n, token, "Accept: text/event-stream\r\n", " 200 ")
}

// openRaw asks for a stream on a connection of its own.
func openRaw(ctx context.Context, n *Node, token, lines, status string) (*stream, error) {
	connection, err := new(net.Dialer).DialContext(ctx, "tcp", n.Addr)
	if err != nil {
		return nil, err
	}
	s := &stream{reader: bufio.NewReader(connection), close: connection.Close, ended: make(chan time.Time, 1)}
	if status == " 101 " {
		s.writer = connection
	}
	_, _ = fmt.Fprintf(connection, "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n%s\r\n", streamPath, n.Addr, token, lines)
	if err := errors.Join(s.reads(status), s.reads("\r\n\r\n")); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// multiplexer has many streams on one connection, as browsers do.
//
//nolint:staticcheck // that of net/http does not send an extended CONNECT
var multiplexer http.RoundTripper = &http2.Transport{
	AllowHTTP: true,
	DialTLSContext: func(ctx context.Context, network, address string, _ *tls.Config) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	},
}

func openWebSocketInHTTP2(ctx context.Context, n *Node, token string) (*stream, error) {
	body, writer := io.Pipe()
	request, err := http.NewRequest(http.MethodConnect, n.URL+streamPath, body)
	if err != nil {
		return nil, err
	}
	request.Header[":protocol"] = []string{"websocket"}
	request.Header.Set("Sec-WebSocket-Version", "13")
	s, err := multiplex(ctx, request, token)
	if err == nil {
		s.writer = writer
	}
	return s, err
}

func openEventsInHTTP2(ctx context.Context, n *Node, token string) (*stream, error) {
	request, err := http.NewRequest(http.MethodGet, n.URL+streamPath, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "text/event-stream")
	return multiplex(ctx, request, token)
}

// multiplex asks for a stream beside others.
func multiplex(ctx context.Context, request *http.Request, token string) (*stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := multiplexer.RoundTrip(request.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	s := &stream{reader: bufio.NewReader(response.Body), ended: make(chan time.Time, 1), close: func() error {
		cancel()
		return response.Body.Close()
	}}
	if response.StatusCode != http.StatusOK {
		return nil, errors.Join(errors.New(response.Status), s.close())
	}
	return s, nil
}

// runs sees that the stream gives what it should.
func (s *stream) runs() error {
	if s.writer == nil {
		return s.reads("data: first")
	}
	return s.echo()
}

// reads reads until text has come.
func (s *stream) reads(text string) error {
	impatient := time.AfterFunc(patience, func() { _ = s.close() })
	defer impatient.Stop()
	var got strings.Builder
	for !strings.HasSuffix(got.String(), text) {
		b, err := s.reader.ReadByte()
		if err != nil {
			return fmt.Errorf("%w after %q", err, got.String())
		}
		got.WriteByte(b)
	}
	return nil
}

// echo sends something through a WebSocket and sees it come back.
func (s *stream) echo() error {
	if _, err := io.WriteString(s.writer, "ping"); err != nil {
		return err
	}
	return s.reads("ping")
}

// watchEnd reads to the end. Nobody else may read then.
func (s *stream) watchEnd() {
	s.watch.Do(func() {
		go func() {
			_, _ = io.Copy(io.Discard, s.reader)
			s.ended <- time.Now()
		}()
	})
}

// watchSilent watches a stream that cannot be asked whether it goes on.
func (s *stream) watchSilent() {
	if s.writer == nil {
		s.watchEnd()
	}
}

// goesOn returns an error if the stream has ended. One that cannot be asked must have been watched.
func (s *stream) goesOn() error {
	if s.writer != nil {
		return s.echo()
	}
	select {
	case <-s.ended:
		return errors.New("it has ended")
	default:
		return nil
	}
}

// awaitEnds waits for the ends of streams, and measures them from a moment on.
func awaitEnds(t *testing.T, all []*stream, from time.Time, spread *times) {
	t.Helper()
	for _, s := range all {
		s.watchEnd()
	}
	for _, s := range all {
		select {
		case end := <-s.ended:
			spread.add(max(0, end.Sub(from)))
		case <-time.After(patience):
			t.Error("a stream goes on")
			return
		}
	}
}
