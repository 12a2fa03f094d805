package caddymodule

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/qpack"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/quicvarint"
)

// h3Wire is a connection on which a test speaks HTTP/3 frame by frame (RFC 9114). No client library changes what is sent.
type h3Wire struct {
	*quic.Conn
}

// Frame and stream types (RFC 9114 §6.2.1 and §7.2).
const (
	h3Data     = 0x00
	h3Headers  = 0x01
	h3Settings = 0x04
	h3Control  = 0x00 // a stream type
)

// h3Client returns the TLS configuration of a client for the TLS listener. With sessions, they are resumed with early data.
func h3Client(sessions tls.ClientSessionCache) *tls.Config {
	config := clientTLS()
	config.NextProtos, config.ClientSessionCache = []string{http3.NextProtoH3}, sessions
	return config
}

// dialH3 opens a connection and its control stream. The connection is closed when the test ends. dialH3 does not wait for the end of the
// handshake. A non-nil wrap wraps the client's socket.
func (g *gateway) dialH3(t *testing.T, sessions tls.ClientSessionCache, wrap func(net.PacketConn) net.PacketConn) *h3Wire {
	t.Helper()
	address, err := net.ResolveUDPAddr("udp", g.tlsAddr)
	check(t, err)
	socket, err := net.ListenPacket("udp", ":0")
	check(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	client := &quic.Transport{Conn: orderedSocket{socket}}
	if wrap != nil {
		client.Conn = wrap(client.Conn)
	}
	t.Cleanup(func() { _ = client.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	connection, err := client.DialEarly(ctx, address, h3Client(sessions), &quic.Config{HandshakeIdleTimeout: patience, MaxIdleTimeout: patience})
	check(t, err)
	w := &h3Wire{connection}
	t.Cleanup(func() { _ = w.CloseWithError(0, "") })
	w.begin()
	return w
}

// begin opens the control stream.
func (w *h3Wire) begin() {
	if control, err := w.OpenUniStream(); err == nil { // otherwise the first request fails
		_, _ = control.Write(h3Frame([]byte{h3Control}, h3Settings, nil))
	}
}

// h3Frame appends a frame.
func h3Frame(to []byte, kind uint64, payload []byte) []byte {
	return append(quicvarint.Append(quicvarint.Append(to, kind), uint64(len(payload))), payload...)
}

// h3Fields returns a frame of fields, unchanged and in their order.
func h3Fields(fields [][2]string) []byte {
	var block bytes.Buffer
	encoder := qpack.NewEncoder(&block)
	for _, field := range fields {
		_ = encoder.WriteField(qpack.HeaderField{Name: field[0], Value: field[1]})
	}
	return h3Frame(nil, h3Headers, block.Bytes())
}

// opened sends the beginning of a request on its own stream.
func (w *h3Wire) opened(ctx context.Context, fields [][2]string) (*h3Stream, error) {
	stream, err := w.OpenStreamSync(ctx)
	if err != nil {
		return nil, err
	}
	_ = stream.SetDeadline(time.Now().Add(patience))
	_, _ = stream.Write(h3Fields(fields)) // the server may refuse the rest
	return &h3Stream{stream, quicvarint.NewReader(stream)}, nil
}

// h3Stream is one request and its answer.
type h3Stream struct {
	*quic.Stream
	reader quicvarint.Reader
}

// frame reads the next frame of a known type.
func (s *h3Stream) frame() (kind uint64, payload []byte, err error) {
	if kind, err = quicvarint.Read(s.reader); err != nil {
		return 0, nil, err
	}
	length, err := quicvarint.Read(s.reader)
	if err != nil {
		return 0, nil, err
	}
	payload = make([]byte, length)
	_, err = io.ReadFull(s.reader, payload)
	return kind, payload, err
}

// h3Answer is the answer on a stream. Its status is 0 if the stream was reset before a head.
type h3Answer struct {
	h2Answer
	code http3.ErrCode // of the reset
}

// reads adds the fields of a head or of trailers.
func (a *h3Answer) reads(block []byte) {
	decode := qpack.NewDecoder().Decode(block)
	for field, err := decode(); err == nil; field, err = decode() {
		if field.Name == ":status" {
			a.status, _ = strconv.Atoi(field.Value)
		}
		a.header.Add(field.Name, field.Value)
	}
}

// head reads the head of an answer that continues. Its status is 0 if there is none.
func (s *h3Stream) head() *h3Answer {
	answer := &h3Answer{h2Answer: h2Answer{header: make(http.Header)}}
	if kind, payload, err := s.frame(); err == nil && kind == h3Headers {
		answer.reads(payload)
	}
	return answer
}

// answer reads to the end of the stream.
func (s *h3Stream) answer() *h3Answer {
	answer := &h3Answer{h2Answer: h2Answer{header: make(http.Header)}}
	for {
		kind, payload, err := s.frame()
		switch {
		case errors.Is(err, io.EOF):
			answer.ended = true
			return answer
		case err != nil:
			answer.reset = true
			if reset, ok := errors.AsType[*quic.StreamError](err); ok {
				answer.code = http3.ErrCode(reset.ErrorCode)
			}
			return answer
		case kind == h3Data:
			answer.body += string(payload)
		case kind == h3Headers:
			answer.reads(payload)
		}
	}
}

// h3 sends one request on its own stream. Each data is a frame, except that `trailer name: value` at the end are trailers. The connection
// is reused until the server closes it, as it does after a reload and after some malformed requests.
func (g *gateway) h3(t *testing.T, fields [][2]string, data ...string) (int, http.Header, string) {
	t.Helper()
	if w := g.keptH3; w != nil && w.Context().Err() == nil {
		if answer, err := w.ask(t.Context(), fields, data); err == nil && answer.code != http3.ErrCodeRequestRejected {
			return answer.status, answer.header, answer.body
		}
	}
	w := g.dialH3(t, nil, nil)
	g.keptH3 = w
	answer, err := w.ask(t.Context(), fields, data)
	check(t, err)
	return answer.status, answer.header, answer.body
}

func (w *h3Wire) ask(ctx context.Context, fields [][2]string, data []string) (*h3Answer, error) {
	stream, err := w.opened(ctx, fields)
	if err != nil {
		return nil, err
	}
	var trailers [][2]string
	for _, text := range data {
		if name, value, found := strings.Cut(strings.TrimPrefix(text, "trailer "), ": "); found && strings.HasPrefix(text, "trailer ") {
			trailers = append(trailers, [2]string{name, value})
			continue
		}
		_, _ = stream.Write(h3Frame(nil, h3Data, []byte(text)))
	}
	if trailers != nil {
		_, _ = stream.Write(h3Fields(trailers))
	}
	_ = stream.Close()
	return stream.answer(), nil
}

// heldSocket is a client's socket that receives nothing until it is released. Until then the handshake cannot continue, and what the client
// sends is early data.
type heldSocket struct {
	net.PacketConn
	released chan struct{}
}

func (s *heldSocket) ReadFrom(p []byte) (int, net.Addr, error) {
	<-s.released
	return s.PacketConn.ReadFrom(p)
}

// early resumes a session and sends a request as early data (RFC 9001 §4.6). The server gets it before the handshake is complete. The
// returned release lets the handshake continue.
func (g *gateway) early(t *testing.T, sessions tls.ClientSessionCache, fields [][2]string, body string) (w *h3Wire, stream *h3Stream, release func()) {
	t.Helper()
	held := make(chan struct{})
	release = sync.OnceFunc(func() { close(held) })
	w = g.dialH3(t, sessions, func(socket net.PacketConn) net.PacketConn { return &heldSocket{socket, held} })
	t.Cleanup(release)
	stream, err := w.opened(t.Context(), fields)
	check(t, err)
	if body != "" {
		_, _ = stream.Write(h3Frame(nil, h3Data, []byte(body)))
	}
	_ = stream.Close()
	return w, stream, release
}

// session returns a session that can be resumed.
func (g *gateway) session(t *testing.T) tls.ClientSessionCache {
	t.Helper()
	sessions := tls.NewLRUClientSessionCache(1)
	w := g.dialH3(t, sessions, nil)
	if answer, err := w.ask(t.Context(), g.securely("GET", "/nowhere"), nil); err != nil || answer.status != http.StatusNotFound {
		t.Fatalf("%+v, %v", answer, err)
	}
	g.eventually("the server gives a ticket", func() bool { _, ok := sessions.Get("localhost"); return ok })
	_ = w.CloseWithError(0, "")
	return sessions
}

// securely is like fields for a transport with TLS.
func (g *gateway) securely(method, path string, further ...string) [][2]string {
	fields := g.fields(method, path, further...)
	fields[1][1] = "https"
	return fields
}

// TestG86T45EarlyDataOfAHandshake checks that the gate and the issuer's endpoints accept early data of TLS 1.3, over HTTP/3, only if the
// request changes nothing. Otherwise the answer is 425. After the handshake the same connection may repeat the request.
func TestG86T45EarlyDataOfAHandshake(t *testing.T) {
	g := watchedGate(t, startGatehouseAt(t, freeTLSAddr(t), site))
	token := "Bearer " + g.server("public")
	form := "grant_type=client_credentials&client_id=conf&client_secret=" + confSecret
	for name, c := range map[string]struct {
		fields [][2]string
		body   string
		logged string // in the log once the server has decided
		want   int
		later  int // status of the repeated request after the handshake
	}{
		"POST at the gate":           {g.securely("POST", "/any/x", "authorization", token), "x", `"reason":"early_data"`, 425, 200},
		"DELETE at the gate":         {g.securely("DELETE", "/any/x", "authorization", token), "", `"reason":"early_data"`, 425, 200},
		"POST at an anonymous route": {g.securely("POST", "/mixed/pub/x"), "x", `"reason":"early_data"`, 425, 200},
		"POST without a token":       {g.securely("POST", "/any/x"), "x", `"status":4`, 425, 401},
		"GET at the gate":            {g.securely("GET", "/any/x", "authorization", token), "", "request passed the gate", 200, 200},
		"GET without a token":        {g.securely("GET", "/any/x"), "", `"status":401`, 401, 401},
		"token":                      {g.securely("POST", "/oauth/token", "content-type", urlEncoded), form, `"reason":"early_data"`, 425, 200},
		"revoke":                     {g.securely("POST", "/oauth/revoke", "content-type", urlEncoded), form + "&token=x", `"reason":"early_data"`, 425, 200},
	} {
		t.Run(name, func(t *testing.T) {
			sessions := g.session(t)
			before := len(g.logs())
			w, stream, release := g.early(t, sessions, c.fields, c.body)
			select {
			case <-w.HandshakeComplete():
				t.Fatal("the handshake is complete before the server has decided")
			default:
			}
			g.eventually("the server has decided", func() bool { return strings.Contains(g.logs()[before:], c.logged) })
			release()
			if answer := stream.answer(); answer.status != c.want {
				t.Errorf("in early data: %d %s, want %d", answer.status, answer.body, c.want)
			}
			if !w.ConnectionState().Used0RTT {
				t.Error("the server has taken no early data")
			}
			select {
			case <-w.HandshakeComplete():
			case <-time.After(patience):
				t.Fatal("the handshake does not end")
			}
			if seen := g.upstream.seen(); (len(seen) == 1) != (c.want == http.StatusOK) {
				t.Errorf("the upstream saw %d requests", len(seen))
			}
			if later, err := w.ask(t.Context(), c.fields, []string{c.body}); err != nil || later.status != c.later {
				t.Errorf("after the handshake: %+v, %v, want %d", later, err, c.later)
			}
			g.upstream.seen()
		})
	}
}
