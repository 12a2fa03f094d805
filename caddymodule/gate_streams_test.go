package caddymodule

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/identity"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Streams end with their token on both sides of the gate. Ordinary answers do not.

const streamProxy = "reverse_proxy UPSTREAM {\nflush_interval -1\nstream_close_delay 1h\n}"

var streamRoutes = handled("handle /keep/*", protect("streams keep"), streamProxy) +
	handled("handle", protect("cors https://spa.example", "token_from cookie app_token", "anonymous /pub/*"), streamProxy)

// wire is a connection with a streaming answer.
type wire struct {
	net.Conn
	reader *bufio.Reader
	status int
	header http.Header
}

// dial sends a request on its own connection and reads the head of the answer.
func (g *gateway) dial(t *testing.T, request string) *wire {
	t.Helper()
	connection, err := net.Dial("tcp", g.addr)
	check(t, err)
	t.Cleanup(func() { _ = connection.Close() })
	_ = connection.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(connection, request)
	w := &wire{Conn: connection, reader: bufio.NewReader(connection)}
	head, err := readHead(w.reader)
	if err != nil {
		t.Fatalf("%v after %q", err, head)
	}
	_, _ = fmt.Sscanf(head, "HTTP/1.1 %d", &w.status)
	w.header = spelled(head)
	return w
}

// echoes checks that the other side echoes what is sent.
func (w *wire) echoes(t *testing.T) {
	t.Helper()
	_, _ = io.WriteString(w, "ping")
	echo := make([]byte, 4)
	if _, err := io.ReadFull(w.reader, echo); err != nil || string(echo) != "ping" {
		t.Fatalf("%q %v", echo, err)
	}
}

// reads checks that the other side sends text next.
func (w *wire) reads(t *testing.T, text string) {
	t.Helper()
	var got strings.Builder
	for !strings.Contains(got.String(), text) {
		b, err := w.reader.ReadByte()
		if err != nil {
			t.Fatalf("%v after %q, want %q", err, got.String(), text)
		}
		got.WriteByte(b)
	}
}

// closed checks that the other side closes the connection, and returns what came before.
func (w *wire) closed(t *testing.T) string {
	t.Helper()
	rest, err := io.ReadAll(w.reader)
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		t.Fatal("the stream is still open")
	}
	return string(rest)
}

// streamUpstream echoes upgraded connections and answers any other request with a single event on a stream that stays open. It sends the
// target of each closed connection on ended.
type streamUpstream struct{ ended chan string }

func (u *streamUpstream) answer(connection net.Conn, r *recorded) {
	defer func() { u.ended <- r.Target }()
	if r.Header.Get("Upgrade") != "" {
		websocketUpstream(connection, r)
		return
	}
	_, _ = io.WriteString(connection, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: first\n\n")
	_, _ = io.Copy(io.Discard, connection)
}

// gone waits until the upstream's connection for a target is closed.
func (u *streamUpstream) gone(t *testing.T, target string) {
	t.Helper()
	select {
	case ended := <-u.ended:
		if ended != target {
			t.Errorf("%s ended, want %s", ended, target)
		}
	case <-time.After(patience):
		t.Fatalf("the upstream still serves %s", target)
	}
}

func (g *gateway) streams() *streamUpstream {
	u := &streamUpstream{ended: make(chan string, 16)}
	g.upstream.answer = u.answer
	return u
}

// streamKinds are the kinds of streams over HTTP/1.1: the header lines to request one, and a check that it runs.
var streamKinds = map[string]struct {
	lines []string
	runs  func(*wire, *testing.T)
}{
	"websocket":         {webSocket, (*wire).echoes},
	"events":            {[]string{"Accept: text/event-stream"}, func(w *wire, t *testing.T) { w.reads(t, "data: first") }},
	"an endless answer": {nil, func(w *wire, t *testing.T) { w.reads(t, "data: first") }},
}

// kill revokes a token.
func (g *gateway) kill(t *testing.T, token string) {
	t.Helper()
	g.revoke(t, g.claims(t, token), store.RevokeToken)
}

// streamEnds are the ways in which a token ends during a stream, with the reason in the audit log.
var streamEnds = map[string]struct {
	reason string
	how    func(g *gateway, t *testing.T, c *testClock, token string)
}{
	"expired": {"token_expired", func(_ *gateway, _ *testing.T, c *testClock, _ string) { c.advance(time.Minute + time.Second) }},
	"revoked": {"token_revoked", func(g *gateway, t *testing.T, _ *testClock, token string) { g.kill(t, token) }},
	"its key is": {"token_revoked", func(g *gateway, t *testing.T, _ *testClock, token string) {
		g.revoke(t, g.claims(t, token), store.RevokeKey)
	}},
	"revoked on another node": {"token_revoked", func(g *gateway, t *testing.T, _ *testClock, token string) { // the node learns of it from the feed
		claims := g.claims(t, token)
		check(t, g.app().node.Store().Revocations.Revoke(t.Context(), store.Revocation{Kind: store.RevokeToken, ID: claims.ID, ExpiresAt: claims.ExpiresAt}))
	}},
}

// TestG71StreamsEndWithTheirToken: a WebSocket or event stream whose token expires or is revoked, here or elsewhere → closed within a
// second.
func TestG71StreamsEndWithTheirToken(t *testing.T) {
	for name, end := range streamEnds {
		t.Run(name, func(t *testing.T) {
			c := setClock(t)
			g := watchedGate(t, startGatehouseAt(t, freeTLSAddr(t), speakingH2(siteWith("", streamRoutes))))
			u := g.streams()
			dies, lives := g.issuedFor(time.Minute), g.user("u-1", "acme", "member", "public")
			tokens := map[string]string{"/dies": dies, "/keep/x": dies, "/lives": lives}
			paths := []string{"/dies", "/keep/x", "/lives"}
			if name == "its key is" { // the key has signed the other token too
				paths = paths[:2]
			}
			var ended, refusedAgain []func()
			for kind, stream := range streamKinds {
				for _, path := range paths {
					w := g.dial(t, g.request("GET", path, append([]string{bearer(tokens[path])}, stream.lines...)...))
					stream.runs(w, t)
					ended = append(ended, func() {
						if path != "/dies" && kind == "websocket" {
							w.echoes(t)
						} else if path == "/dies" && strings.HasSuffix(w.closed(t), "0\r\n\r\n") {
							t.Errorf("%s: the answer looks complete", kind)
						}
					})
				}
			}
			for _, dial := range []func(*gateway, *testing.T) *h2Wire{(*gateway).dialH2, (*gateway).dialTLS} {
				w := dial(g, t)
				var streams []uint32
				for i, path := range paths {
					streams = append(streams, uint32(2*i+1))
					w.heads(streams[i], true, g.fields("GET", path, "authorization", "Bearer "+tokens[path]))
				}
				w.begun(t, streams...)
				ended = append(ended, func() {
					if answers := w.answers(1); len(answers) != 1 || answers[1] == nil || !answers[1].reset {
						t.Errorf("ended: %+v", answers)
					}
				})
				refusedAgain = append(refusedAgain, func() {
					w.heads(7, true, g.fields("GET", "/again", "authorization", "Bearer "+dies))
					if again := w.answers(1)[7]; again == nil || again.status != http.StatusUnauthorized {
						t.Errorf("the same connection with the same token: %+v", again)
					}
				})
			}
			w := g.dialH3(t, nil, nil)
			for _, path := range paths {
				s, err := w.opened(t.Context(), g.securely("GET", path, "accept", "text/event-stream", "authorization", "Bearer "+tokens[path]))
				check(t, err)
				_ = s.Close()
				if head := s.head(); head.status != http.StatusOK {
					t.Fatalf("%s: %+v", path, head)
				}
				if kind, data, err := s.frame(); err != nil || kind != h3Data || !strings.HasPrefix(string(data), "data: first") {
					t.Fatalf("%s: %q, %v", path, data, err)
				}
				ended = append(ended, func() {
					if path != "/dies" {
						_ = s.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
					}
					if answer := s.answer(); path == "/dies" && !answer.reset || path != "/dies" && (answer.ended || answer.code != 0) {
						t.Errorf("%s: %+v", path, answer)
					}
				})
			}
			refusedAgain = append(refusedAgain, func() {
				again, err := w.ask(t.Context(), g.securely("GET", "/again", "authorization", "Bearer "+dies), nil)
				if err != nil || again.status != http.StatusUnauthorized {
					t.Errorf("the same connection with the same token: %+v, %v", again, err)
				}
			})
			const died = 6 // three over HTTP/1.1, two over HTTP/2, one over HTTP/3
			g.audited()
			end.how(g, t, c, dies)
			for _, check := range ended {
				check()
			}
			for range died {
				u.gone(t, "/dies")
			}
			told := 0
			g.eventually("the audit log tells of each", func() bool {
				for _, line := range g.audited() {
					if told++; line["msg"] != "stream closed at the gate" || line["reason"] != end.reason || line["path"] != "/dies" {
						t.Errorf("audit line: %v", line)
					}
				}
				return told >= died
			})
			c.advance(store.Leeway)
			for _, check := range refusedAgain {
				check()
			}
			g.upstream.seen()
			g.because(t, g.request("GET", "/dies", bearer(dies), "Connection: close"), 401, end.reason)
		})
	}
}

// TestG71LeewayIsNoTimeToGoOnIn checks that the leeway admits a late request but does not extend a stream.
func TestG71LeewayIsNoTimeToGoOnIn(t *testing.T) {
	c := setClock(t)
	g := startGate(t, siteWith("", streamRoutes))
	g.streams()
	open := func(token string) *wire {
		w := g.dial(t, g.request("GET", "/dies", append([]string{bearer(token)}, webSocket...)...))
		w.echoes(t)
		return w
	}
	first, second := g.issuedFor(time.Minute), g.issuedFor(time.Minute+3*time.Second)
	early, long := open(first), open(second)
	c.advance(time.Minute + time.Second)
	early.closed(t)
	late := open(first)
	c.advance(3 * time.Second)
	long.closed(t) // the sweep has looked at all of them
	late.echoes(t)
	c.advance(2 * time.Second)
	late.closed(t)
}

// awaitAudit waits for an audit line with the message.
func (g *gateway) awaitAudit(t *testing.T, message string) map[string]any {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		for _, line := range g.audited() {
			if line["msg"] == message {
				return line
			}
		}
	}
	t.Fatalf("no audit line says %q", message)
	return nil
}

// TestG71AClientThatDoesNotRead checks that a stream ends with its token even if a write to its client blocks.
func TestG71AClientThatDoesNotRead(t *testing.T) {
	g := startGate(t, siteWith("", strings.ReplaceAll(streamRoutes, "flush_interval -1", "")))
	for name, head := range map[string]string{
		"events":    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n",
		"download":  "HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n",
		"websocket": "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			token := g.server("public")
			full, ended := make(chan struct{}), make(chan struct{})
			g.upstream.answer = func(connection net.Conn, _ *recorded) {
				defer close(ended)
				_, _ = io.WriteString(connection, head)
				chunk, err := bytes.Repeat([]byte("data: x\n\n"), 8192), error(nil)
				for err == nil {
					_ = connection.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
					_, err = connection.Write(chunk)
				}
				if errors.Is(err, os.ErrDeadlineExceeded) { // all buffers are full
					close(full)
				}
				_ = connection.SetWriteDeadline(time.Time{})
				for err = nil; err == nil; {
					_, err = connection.Write(chunk)
				}
			}
			lines := []string{bearer(token)}
			if name == "websocket" {
				lines = append(lines, webSocket...)
			}
			g.dial(t, g.request("GET", "/x", lines...))
			await(t, full, "the buffers to fill")
			g.kill(t, token)
			await(t, ended, "the upstream's connection to be closed")
			awaitNoSweep(t) // the gate has stopped waiting for the client, which has not read a byte
		})
	}
}

func await(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
	}
}

// TestG71AStreamThatHasNotBegun checks that a stream whose token ends before it begins is refused like any other request. A page of an
// allowed origin can read the reason.
func TestG71AStreamThatHasNotBegun(t *testing.T) {
	g := startGate(t, siteWith("", streamRoutes))
	for kind, lines := range map[string][]string{"websocket": webSocket, "events": {"Accept: text/event-stream"}} {
		t.Run(kind, func(t *testing.T) {
			token := g.server("public")
			asked, ended := make(chan struct{}), make(chan struct{})
			g.upstream.answer = func(connection net.Conn, _ *recorded) {
				close(asked)
				_, _ = io.Copy(io.Discard, connection)
				close(ended)
			}
			go func() {
				<-asked
				g.kill(t, token)
			}()
			w := g.dial(t, g.request("GET", "/x", append(lines, bearer(token), "Origin: "+spa)...))
			readableBy(t, w.header, spa, true)
			if w.status != http.StatusUnauthorized || !strings.Contains(w.header.Get("Www-Authenticate"), "The access token was revoked") {
				t.Errorf("%d %v", w.status, w.header)
			}
			await(t, ended, "the upstream's connection to be closed")
		})
	}
}

// TestG71AnOrdinaryAnswerIsNotCut checks that the answer to a request that was made with a valid token arrives, however slow it is. For
// example, an application may sign its user out by revoking the token.
func TestG71AnOrdinaryAnswerIsNotCut(t *testing.T) {
	g := startGate(t, siteWith("", streamRoutes))
	token, witness := g.server("public"), g.server("public")
	u := g.streams()
	stream := g.dial(t, g.request("GET", "/witness", append([]string{bearer(witness)}, webSocket...)...))
	stream.echoes(t)
	asked, goOn := make(chan struct{}), make(chan struct{})
	g.upstream.answer = func(connection net.Conn, _ *recorded) {
		close(asked)
		<-goOn
		_, _ = io.WriteString(connection, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\nConnection: close\r\n\r\nsigned out")
	}
	go func() {
		<-asked
		g.kill(t, token)
		g.kill(t, witness)
		stream.closed(t) // a sweep has seen both revocations by then
		close(goOn)
	}()
	status, _, body := g.raw(g.request("POST", "/sign-out", bearer(token), "Content-Length: 0"))
	if status != http.StatusOK || body != "signed out" {
		t.Errorf("%d %q", status, body)
	}
	u.gone(t, "/witness")
}

// TestG71StreamsSurviveAReload checks that streams survive a reload and still end with their token. A reload that replaces the issuer, here through
// another setting, ends those of the old one, whose revocations the gate does not read after that.
func TestG71StreamsSurviveAReload(t *testing.T) {
	configuration := siteWith("", streamRoutes)
	g := startGate(t, configuration)
	for kind, stream := range streamKinds {
		t.Run(kind, func(t *testing.T) {
			u := g.streams()
			token := g.server("public")
			w := g.dial(t, g.request("GET", "/x", append([]string{bearer(token)}, stream.lines...)...))
			stream.runs(w, t)
			for i := range 3 {
				check(t, g.tryReload(strings.Replace(configuration, "stream_close_delay 1h", "stream_close_delay "+itoa(i+1)+"h", 1)))
			}
			if kind == "websocket" {
				w.echoes(t)
			}
			g.kill(t, token)
			w.closed(t)
			u.gone(t, "/x")
		})
	}
	u := g.streams()
	w := g.dial(t, g.request("GET", "/x", append([]string{bearer(g.server("public"))}, webSocket...)...))
	w.echoes(t)
	check(t, g.tryReload(strings.Replace(configuration, "oauth {\n", "oauth {\n\t\trevocation {\n\t\t\tmax_staleness 1m\n\t\t}\n", 1)))
	w.closed(t)
	u.gone(t, "/x")
}

// TestG79StreamsEndWhenRevocationsAreTooOld checks that outdated revocation data ends streams, as it refuses new requests.
func TestG79StreamsEndWhenRevocationsAreTooOld(t *testing.T) {
	c := setClock(t)
	g := startGate(t, siteWith("", streamRoutes))
	g.streams()
	token := g.server("public")
	w := g.dial(t, g.request("GET", "/x", append([]string{bearer(token)}, webSocket...)...))
	w.echoes(t)
	g.silenceFeed()
	c.advance(5*time.Minute + 2*time.Second)
	w.closed(t)
	if line := g.awaitAudit(t, "stream closed at the gate"); line["reason"] != "revocations_stale" {
		t.Errorf("audit line: %v", line)
	}
}

// TestG71NothingRunsWithoutStreams checks that the sweep stops with the last stream and that a short answer never starts it.
func TestG71NothingRunsWithoutStreams(t *testing.T) {
	awaitNoSweep(t) // of another test
	g := startGate(t, siteWith("", strings.ReplaceAll(streamRoutes, "flush_interval -1", "")))
	token := g.server("public")
	for range 3 {
		g.passed(t, g.request("GET", "/x", bearer(token), "Connection: close"))
	}
	if isSweeping() {
		t.Error("a short answer was watched")
	}
	u := g.streams()
	w := g.dial(t, g.request("GET", "/x", append([]string{bearer(token)}, webSocket...)...))
	w.echoes(t)
	if n := gate.OpenStreams(); n != 1 || !isSweeping() {
		t.Errorf("%d streams, want 1, which is looked at: %v", n, isSweeping())
	}
	_ = w.Close()
	u.gone(t, "/x")
	awaitNoSweep(t)
}

func awaitNoSweep(t *testing.T) {
	t.Helper()
	eventually(t, "nobody looks at streams", func() bool { return !isSweeping() })
}

// isSweeping reports whether the goroutine that checks open streams runs.
func isSweeping() bool {
	stacks := make([]byte, 4<<20)
	return bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("/gate.(*openStreams).sweep"))
}

// TestG71G96ExtendedConnect checks WebSockets over HTTP/2 (RFC 8441) and HTTP/3 (RFC 9220).
func TestG71G96ExtendedConnect(t *testing.T) { overEachSocket(t, extendedConnect) }

func extendedConnect(t *testing.T, over socketKind) {
	c := setClock(t)
	g := watchedGate(t, startGatehouseAt(t, freeTLSAddr(t), siteWith("\t\tprotocols h1 h2c", streamRoutes)))
	u := g.streams()
	token := g.server("public")
	cookie := "app_token=" + token
	for name, test := range map[string]struct {
		fields []string
		want   string
	}{
		"no token":               {nil, "401"},
		"bad token":              {[]string{"authorization", "Bearer bad"}, "401"},
		"cookie alone":           {[]string{"cookie", cookie}, "403"},
		"cookie, foreign origin": {[]string{"cookie", cookie, "origin", "https://evil.test"}, "403"},
		"bad cookie":             {[]string{"cookie", "app_token=bad", "origin", "http://" + g.addr}, "401"},
		"two cookies":            {[]string{"cookie", cookie, "cookie", "app_token=bad", "origin", "http://" + g.addr}, "400"},
		"cookie, own origin":     {[]string{"cookie", cookie, "origin", "http://" + g.addr}, "200"},
		"cookie in crumbs":       {[]string{"cookie", "a=b", "cookie", cookie, "cookie", "c=d", "origin", "http://" + g.addr}, "200"},
		"header":                 {[]string{"authorization", "Bearer " + token}, "200"},
		"header, spoofed":        {[]string{"authorization", "Bearer " + token, "x-auth-subject", "admin", "x_auth_role", "admin"}, "200"},
	} {
		s := over.open(g, t, "websocket", test.fields...)
		if s.status != test.want {
			t.Errorf("%s: %s", name, s.status)
		}
		for _, seen := range g.upstream.seen() {
			if seen.has(t, identity.Subject, "conf"); test.want != "200" || seen.Method != http.MethodGet {
				t.Errorf("%s: the upstream was sent\n%s", name, seen.Raw)
			}
			seen.has(t, identity.Role).has(t, ":protocol")
		}
		if s.close(); test.want == "200" {
			u.gone(t, "/socket")
		}
	}
	for _, protocol := range []string{"h2c", "connect-udp", "WebSocket", "websocket, h2c", "tcp", "http"} { // G50
		for _, fields := range [][]string{nil, {"authorization", "Bearer " + token}, {"upgrade", "websocket"}} {
			s := over.open(g, t, protocol, fields...)
			// The server may refuse a field that the version does not have, or an invalid protocol, before any handler.
			isMalformed := len(fields) > 0 && fields[0] == "upgrade" || strings.Contains(protocol, ",")
			if s.status != "405" && (!isMalformed || s.status != "400" && s.status != "0") {
				t.Errorf("extended CONNECT to %s: %s", protocol, s.status)
			}
			s.close()
		}
	}
	g.upstream.none(t)
	short := g.issuedFor(time.Minute)
	for dies, end := range map[string]func(){
		token: func() { g.kill(t, token) }, short: func() { c.advance(time.Minute + time.Second) },
	} {
		s := over.open(g, t, "websocket", "authorization", "Bearer "+dies)
		s.echo(t, "ping")
		end()
		s.ends(t)
		u.gone(t, "/socket")
	}
}
