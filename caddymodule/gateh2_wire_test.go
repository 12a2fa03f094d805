package caddymodule

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2Wire is a connection on which a test speaks HTTP/2 frame by frame.
type h2Wire struct {
	net.Conn
	framer  *http2.Framer
	encoder *hpack.Encoder
	block   bytes.Buffer
}

// dialH2 opens a connection without TLS, with prior knowledge. The server must speak h2c.
func (g *gateway) dialH2(t *testing.T) *h2Wire {
	t.Helper()
	connection, err := net.Dial("tcp", g.addr)
	check(t, err)
	return speakH2(t, connection)
}

// dialTLS opens a connection with TLS.
func (g *gateway) dialTLS(t *testing.T) *h2Wire {
	t.Helper()
	config := clientTLS()
	config.NextProtos = []string{http2.NextProtoTLS}
	connection, err := tls.Dial("tcp", g.tlsAddr, config)
	check(t, err)
	if spoken := connection.ConnectionState().NegotiatedProtocol; spoken != http2.NextProtoTLS {
		t.Fatalf("the server speaks %q", spoken)
	}
	return speakH2(t, connection)
}

// speakH2 sends the connection preface.
func speakH2(t *testing.T, connection net.Conn) *h2Wire {
	t.Helper()
	t.Cleanup(func() { _ = connection.Close() })
	_ = connection.SetDeadline(time.Now().Add(patience))
	w := &h2Wire{Conn: connection, framer: http2.NewFramer(connection, connection)}
	w.encoder = hpack.NewEncoder(&w.block)
	w.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_, _ = io.WriteString(connection, http2.ClientPreface)
	_ = w.framer.WriteSettings()
	return w
}

// encoded returns a field block with the given fields in their order, unchanged.
func (w *h2Wire) encoded(fields [][2]string) []byte {
	w.block.Reset()
	for _, field := range fields {
		_ = w.encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
	}
	return w.block.Bytes()
}

// heads sends the head of a request or its trailers.
func (w *h2Wire) heads(stream uint32, last bool, fields [][2]string) {
	_ = w.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: w.encoded(fields), EndHeaders: true, EndStream: last})
}

// h2Answer is the answer on a stream. Its status is 0 if the stream was reset before a head.
type h2Answer struct {
	status int
	header http.Header // of all heads and trailers
	body   string
	reset  bool
	ended  bool
}

// answers reads until the given number of streams, or the connection, has ended.
func (w *h2Wire) answers(streams int) map[uint32]*h2Answer {
	found := make(map[uint32]*h2Answer)
	on := func(stream uint32) *h2Answer {
		if found[stream] == nil {
			found[stream] = &h2Answer{header: make(http.Header)}
		}
		return found[stream]
	}
	for left := streams; left > 0; {
		frame, err := w.framer.ReadFrame()
		if err != nil {
			return found
		}
		last := false
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = w.framer.WriteSettingsAck()
			}
		case *http2.MetaHeadersFrame:
			answer := on(f.StreamID)
			for _, field := range f.Fields {
				if field.Name == ":status" {
					answer.status, _ = strconv.Atoi(field.Value)
				}
				answer.header.Add(field.Name, field.Value)
			}
			last = f.StreamEnded()
		case *http2.DataFrame:
			on(f.StreamID).body += string(f.Data())
			last = f.StreamEnded()
			if f.Length > 0 { // otherwise the server stops after 64 KiB
				_ = w.framer.WriteWindowUpdate(0, f.Length)
			}
		case *http2.RSTStreamFrame:
			answer := on(f.StreamID)
			last, answer.reset = !answer.ended, true
		case *http2.GoAwayFrame:
			if f.ErrCode != http2.ErrCodeNo {
				return found
			}
		}
		if last {
			on(frame.Header().StreamID).ended = true
			left--
		}
	}
	return found
}

// h2 sends one request on its own connection without TLS. Each data is a frame, except that `trailer name: value` at the end are trailers.
func (g *gateway) h2(t *testing.T, fields [][2]string, data ...string) (int, http.Header, string) {
	t.Helper()
	return g.dialH2(t).ask(fields, data)
}

// h2TLS is like h2 with TLS.
func (g *gateway) h2TLS(t *testing.T, fields [][2]string, data ...string) (int, http.Header, string) {
	t.Helper()
	return g.dialTLS(t).ask(fields, data)
}

func (w *h2Wire) ask(fields [][2]string, data []string) (int, http.Header, string) {
	defer func() { _ = w.Close() }()
	w.heads(1, len(data) == 0, fields)
	var trailers [][2]string
	for i, text := range data {
		name, value, found := strings.Cut(strings.TrimPrefix(text, "trailer "), ": ")
		if !found || !strings.HasPrefix(text, "trailer ") {
			_ = w.framer.WriteData(1, i == len(data)-1, []byte(text))
			continue
		}
		trailers = append(trailers, [2]string{name, value})
	}
	if trailers != nil {
		w.heads(1, true, trailers)
	}
	if answer := w.answers(1)[1]; answer != nil {
		return answer.status, answer.header, answer.body
	}
	return 0, make(http.Header), ""
}

// fields returns the fields of a request over HTTP/2, with further ones as name, value, ….
func (g *gateway) fields(method, path string, further ...string) [][2]string {
	list := [][2]string{{":method", method}, {":scheme", "http"}, {":authority", g.addr}, {":path", path}}
	for pair := range slices.Chunk(further, 2) {
		list = append(list, [2]string{pair[0], pair[1]})
	}
	return list
}
