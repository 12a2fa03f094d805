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

// streamPath is the path of the streams behind the gate.
const streamPath = "/api/stream"

// streamingUpstream answers upgrades with an echo, and other requests for a stream with an event and then silence. It returns its
// address.
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
		defer func() { _ = connection.Close() }()
		_, _ = io.WriteString(connection, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(connection, buffered)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.Listener.Addr().String()
}

// multiplexing enables HTTP/2 without TLS in nodes, and WebSockets over it (RFC 8441), which Go's server enables by the environment at
// the start of the process. To Caddy such a WebSocket is a body, and Caddy ends a body without data for a minute unless configured
// otherwise.
func multiplexing(setup Setup) Setup {
	setup.Global += "servers {\n\t\tprotocols h1 h2c\n\t\ttimeouts {\n\t\t\tread_body_idle 1h\n\t\t}\n\t}"
	setup.Environment = append(setup.Environment, "GODEBUG=http2xconnect=1")
	return setup
}

// stream is an answer that does not end by itself.
type stream struct {
	reader *bufio.Reader
	writer io.Writer // nil: it takes no input
	close  func() error
	ended  chan time.Time // gets one value, if the stream is watched
	watch  sync.Once
}

// streamKinds are the ways to request a stream. Consecutive turns use all kinds.
var streamKinds = []struct {
	name string
	open func(ctx context.Context, n *Node, token string) (*stream, error)
}{
	{"WebSocket", openWebSocket},
	{"events", openEvents},
	{"WebSocket over HTTP/2", openWebSocketInHTTP2},
	{"events over HTTP/2", openEventsInHTTP2},
}

// mustOpen opens a stream through a node's gate, of each kind in turn, and checks that it works. The node must be multiplexing.
func mustOpen(t *testing.T, n *Node, token string, turn int) *stream {
	t.Helper()
	s, err := tryOpen(t, n, token, turn)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// tryOpen is mustOpen for callers that can continue without the stream.
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

// openRaw requests a stream on its own connection.
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
//lint:ignore SA1019 that of net/http does not send an extended CONNECT
var multiplexer http.RoundTripper = &http2.Transport{AllowHTTP: true, DialTLSContext: dialPlain}

func dialPlain(ctx context.Context, network, address string, _ *tls.Config) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, address)
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

// multiplex requests a stream on a shared connection.
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

// runs checks that the stream yields what it should.
func (s *stream) runs() error {
	if s.writer == nil {
		return s.reads("data: first")
	}
	return s.echo()
}

// reads reads until text has arrived.
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

// echo sends something through a WebSocket and waits for it to come back.
func (s *stream) echo() error {
	if _, err := io.WriteString(s.writer, "ping"); err != nil {
		return err
	}
	return s.reads("ping")
}

// watchEnd reads to the end. No other goroutine may read then.
func (s *stream) watchEnd() {
	s.watch.Do(func() {
		go func() {
			_, _ = io.Copy(io.Discard, s.reader)
			s.ended <- time.Now()
		}()
	})
}

// watchSilent watches a stream that cannot be probed.
func (s *stream) watchSilent() {
	if s.writer == nil {
		s.watchEnd()
	}
}

// goesOn returns an error if the stream has ended. A stream that cannot be probed must have been watched.
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
