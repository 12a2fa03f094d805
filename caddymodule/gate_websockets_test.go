package caddymodule

import (
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// socketKind is a version of HTTP with extended CONNECT.
type socketKind struct {
	name string
	open func(g *gateway, t *testing.T, protocol string, fields ...string) *socketOver
}

var socketKinds = []socketKind{
	{"HTTP/2", func(g *gateway, t *testing.T, protocol string, fields ...string) *socketOver {
		return socketInH2(t, g.dialH2(t), g.connecting("http", protocol, fields))
	}},
	{"HTTP/2 with TLS", func(g *gateway, t *testing.T, protocol string, fields ...string) *socketOver {
		return socketInH2(t, g.dialTLS(t), g.connecting("https", protocol, fields))
	}},
	{"HTTP/3", socketInH3},
}

// overEachSocket runs a test over each version of HTTP with extended CONNECT. Go's server enables it over HTTP/2 by a setting that is read
// when a process starts, so overEachSocket starts another process.
func overEachSocket(t *testing.T, test func(*testing.T, socketKind)) {
	const setting = "http2xconnect=1"
	if !strings.Contains(os.Getenv("GODEBUG"), setting) {
		again := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		again.Env = append(os.Environ(), "GODEBUG="+setting)
		if out, err := again.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	for _, over := range socketKinds {
		t.Run(over.name, func(t *testing.T) { test(t, over) })
	}
}

// TestG147ErrorRoutesSeeTheGetOfAWebSocket: an unreachable WebSocket upstream with `handle_errors` → the error route for GET, no tunnel.
// Previously `handle_errors` saw the method CONNECT, where a WebSocket over HTTP/1.1 is a GET. Over HTTP/3 a `reverse_proxy` there opened a
// tunnel.
func TestG147ErrorRoutesSeeTheGetOfAWebSocket(t *testing.T) { overEachSocket(t, failingSocket) }

func failingSocket(t *testing.T, over socketKind) {
	g := watchedGate(t, startGatehouseAt(t, freeTLSAddr(t), siteWith("\t\tprotocols h1 h2c", gatedDown("")+handled("handle_errors", "@get method GET",
		"handle @get {\nreverse_proxy UPSTREAM {\nheader_up X-Caller {http.auth.user.id}\n}\n}", `respond "{err.status_code} of {method}" 500`))))
	g.upstream.answer = websocketUpstream
	s := over.open(g, t, "websocket", "authorization", "Bearer "+g.server("public"))
	defer s.close()
	if s.status != "200" {
		t.Fatalf("status %s: not the answer of the error route for GET", s.status)
	}
	seen := g.upstream.one(t)
	if seen.Method != http.MethodGet {
		t.Errorf("the error route got %s", seen.Method)
	}
	seen.has(t, "Upgrade").has(t, "Authorization")
	seen.has(t, "X-Caller", "conf") // as for every error behind the gate
	g.eventually("the log says why", func() bool { return strings.Contains(g.logs(), "connection refused") })
}

// connecting returns the fields of an extended CONNECT (RFC 8441, RFC 9220).
func (g *gateway) connecting(scheme, protocol string, further []string) [][2]string {
	fields := g.fields("CONNECT", "/socket", append([]string{":protocol", protocol, "sec-websocket-version", "13"}, further...)...)
	fields[1][1] = scheme
	return fields
}

// socketOver is the answer to an extended CONNECT.
type socketOver struct {
	status string
	write  func(text string)
	read   func(t *testing.T) (text string, ended bool)
	close  func()
}

// echo sends a text and expects it back.
func (u *socketOver) echo(t *testing.T, text string) {
	t.Helper()
	u.write(text)
	if got, ended := u.read(t); got != text || ended {
		t.Fatalf("the echo of %q is %q, and it has ended: %t", text, got, ended)
	}
}

// ends waits for the end of the stream.
func (u *socketOver) ends(t *testing.T) {
	t.Helper()
	if got, ended := u.read(t); got != "" || !ended {
		t.Errorf("data: %q", got)
	}
}

func socketInH2(t *testing.T, w *h2Wire, fields [][2]string) *socketOver {
	t.Helper()
	s := &h2Stream{w}
	if _, ok := s.frame(t).(*http2.SettingsFrame); !ok { // the server must announce RFC 8441 first
		t.Fatal("no settings")
	}
	s.heads(1, false, fields)
	head, ok := s.next(t).(*http2.MetaHeadersFrame)
	if !ok {
		t.Fatal("no head")
	}
	return &socketOver{
		status: head.PseudoValue("status"),
		write:  func(text string) { _ = s.framer.WriteData(1, false, []byte(text)) },
		read: func(t *testing.T) (string, bool) {
			t.Helper()
			switch f := s.next(t).(type) {
			case *http2.RSTStreamFrame:
				return "", true
			case *http2.DataFrame:
				return string(f.Data()), f.StreamEnded()
			default:
				t.Errorf("%v", f)
				return "", false
			}
		},
		close: func() { _ = s.Close() },
	}
}

// h2Stream is one stream on its own connection.
type h2Stream struct{ *h2Wire }

func (s *h2Stream) frame(t *testing.T) http2.Frame {
	t.Helper()
	frame, err := s.framer.ReadFrame()
	check(t, err)
	return frame
}

// next returns the next frame of the stream.
func (s *h2Stream) next(t *testing.T) http2.Frame {
	t.Helper()
	for {
		switch f := s.frame(t).(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = s.framer.WriteSettingsAck()
			}
		case *http2.WindowUpdateFrame, *http2.PingFrame:
		default:
			return f
		}
	}
}

func socketInH3(g *gateway, t *testing.T, protocol string, fields ...string) *socketOver {
	t.Helper()
	w := g.dialH3(t, nil, nil)
	s, err := w.opened(t.Context(), g.connecting("https", protocol, fields))
	check(t, err)
	head := s.head()
	return &socketOver{
		status: strconv.Itoa(head.status),
		write:  func(text string) { _, _ = s.Write(h3Frame(nil, h3Data, []byte(text))) },
		read: func(t *testing.T) (string, bool) {
			t.Helper()
			_, payload, err := s.frame()
			if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
				t.Fatal("nothing comes")
			}
			return string(payload), err != nil
		},
		close: func() { _ = w.CloseWithError(0, "") },
	}
}

// TestV10ConnectAtToolRules: an extended CONNECT at a route with `tool` rules → 403.
func TestV10ConnectAtToolRules(t *testing.T) { overEachSocket(t, connectAtToolRules) }

func connectAtToolRules(t *testing.T, over socketKind) {
	g := watchedGate(t, startGatehouseAt(t, freeTLSAddr(t), siteWith("\t\tprotocols h1 h2c", gated("/socket*", "mcp", "resource http://ADDR/socket", "tool purge {\ndeny\n}"))))
	g.upstream.answer = websocketUpstream
	for _, protocol := range []string{"websocket", "WebSocket", "connect-udp"} {
		s := over.open(g, t, protocol, "authorization", "Bearer "+g.tokenForResources(t, g.url+"/socket"))
		if want := map[bool]string{true: "403", false: "405"}[protocol == "websocket"]; s.status != want {
			t.Errorf("%s: %s, want %s", protocol, s.status, want)
		}
		s.close()
	}
	g.upstream.none(t)
}
