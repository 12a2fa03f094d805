//go:build linux

package rig

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// passing is a client whose tokens live for moments.
const (
	passing     = "passing"
	passingLife = 2 * time.Second
	// leeway is how long after its end a token is still taken.
	leeway = 5 * time.Second
)

var passingSetup = Setup{OAuth: fmt.Sprintf(`client %s %s {
			grants client_credentials
			tokens {
				client_credentials %v
			}
		}`, passing, Secret(passing), passingLife)}

// TestG71StreamsEndOnAllNodes: WebSockets and event streams end when their token is revoked at another node, and when it expires.
func TestG71StreamsEndOnAllNodes(t *testing.T) {
	setup := passingSetup
	setup.Upstream = streamingUpstream(t)
	c := StartCluster(t, 3, setup)
	const each = 10 // streams of one token
	tokens := either(2, 100)

	var expiring []*stream
	brief, err := ReadTokens(Application{c.URL, passing}.ForItself(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 * each {
		expiring = append(expiring, mustOpen(t, c.Nodes[i%len(c.Nodes)], brief.AccessToken, i))
	}

	application, browser := Application{c.URL, Console}, NewBrowser(Ada)
	families, open := make([]Tokens, tokens), make([][]*stream, tokens)
	for i := range families {
		families[i] = mustObtain(t, browser, application)
		for n := range each { // on the nodes that the revocation is not asked of
			open[i] = append(open[i], mustOpen(t, c.Nodes[1+n%2], families[i].AccessToken, n/2))
		}
	}
	kept := mustOpen(t, c.Nodes[1], mustObtain(t, browser, application).AccessToken, 0)

	revoked := new(times)
	concurrently(4, func(i int) {
		for n := range share(tokens, 4, i) {
			family := n*4 + i
			asked := time.Now()
			if err := mustBe(application.at(c.Nodes[0]).Revoke(t.Context(), families[family].RefreshToken), http.StatusOK, "", "revoking"); err != nil {
				t.Error(err)
				return
			}
			awaitEnds(t, open[family], asked, revoked)
		}
	})
	measured(t, "G71: from a revocation until the streams on the other nodes end", "%v", revoked)
	revoked.within(t, "a stream of a revoked token", 10*time.Second)

	expired := new(times)
	awaitEnds(t, expiring, time.Unix(brief.CreatedAt+int64(brief.ExpiresIn), 0).Add(leeway), expired)
	measured(t, "G71: from the end of a token's life, leeway included, until its streams end", "%v", expired)
	expired.within(t, "a stream of an expired token", 10*time.Second)
	if err := kept.echo(); err != nil {
		t.Errorf("a stream with a good token: %v", err)
	}
}

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

// stream is an answer that goes on and on.
type stream struct {
	net.Conn
	reader *bufio.Reader
	socket bool
	ended  chan time.Time
}

// mustOpen opens a stream through a node's gate, a WebSocket or one of events in turn, and sees it run.
func mustOpen(t *testing.T, n *Node, token string, turn int) *stream {
	t.Helper()
	s, err := openStream(t.Context(), n, token, turn%2 == 0)
	if err != nil {
		t.Fatalf("opening a stream: %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func openStream(ctx context.Context, n *Node, token string, socket bool) (*stream, error) {
	connection, err := new(net.Dialer).DialContext(ctx, "tcp", n.Addr)
	if err != nil {
		return nil, err
	}
	lines, want := "Accept: text/event-stream\r\n", "data: first"
	if socket {
		lines, want = "Connection: Upgrade\r\nUpgrade: websocket\r\n", " 101 "
	}
	_, _ = fmt.Fprintf(connection, "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n%s\r\n", streamPath, n.Addr, token, lines)
	s := &stream{Conn: connection, reader: bufio.NewReader(connection), socket: socket, ended: make(chan time.Time, 1)}
	if err := s.reads(want); err != nil {
		return nil, errors.Join(err, connection.Close())
	}
	if socket {
		err = errors.Join(s.reads("\r\n\r\n"), s.echo())
	}
	return s, err
}

// reads reads until text has come.
func (s *stream) reads(text string) error {
	_ = s.SetReadDeadline(time.Now().Add(patience))
	defer func() { _ = s.SetReadDeadline(time.Time{}) }()
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
	if _, err := io.WriteString(s, "ping"); err != nil {
		return err
	}
	return s.reads("ping")
}

// awaitEnds waits for the ends of streams, and measures them from a moment on.
func awaitEnds(t *testing.T, all []*stream, from time.Time, spread *times) {
	for _, s := range all {
		go func() {
			_, _ = io.Copy(io.Discard, s.reader)
			s.ended <- time.Now()
		}()
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
