package caddymodule

import (
	"errors"
	"net"
	"strconv"
	"testing"

	"golang.org/x/net/http2"
)

// socketKind is a version of HTTP that has the extended CONNECT.
type socketKind struct {
	name string
	open func(g *gate, t *testing.T, protocol string, fields ...string) *socketOver
}

var socketKinds = []socketKind{
	{"HTTP/2", func(g *gate, t *testing.T, protocol string, fields ...string) *socketOver {
		return socketInH2(t, g.dialH2(t), g.connecting("http", protocol, fields))
	}},
	{"HTTP/2 with TLS", func(g *gate, t *testing.T, protocol string, fields ...string) *socketOver {
		return socketInH2(t, g.dialTLS(t), g.connecting("https", protocol, fields))
	}},
	{"HTTP/3", socketInH3},
}

// connecting are the fields of an extended CONNECT (RFC 8441, RFC 9220).
func (g *gate) connecting(scheme, protocol string, further []string) [][2]string {
	fields := g.fields("CONNECT", "/socket", append([]string{":protocol", protocol, "sec-websocket-version", "13"}, further...)...)
	fields[1][1] = scheme
	return fields
}

// socketOver is what an extended CONNECT was answered with.
type socketOver struct {
	status string
	write  func(text string)
	read   func(t *testing.T) (text string, ended bool)
	close  func()
}

// echo sends a text and wants it back.
func (u *socketOver) echo(t *testing.T, text string) {
	t.Helper()
	u.write(text)
	if got, ended := u.read(t); got != text || ended {
		t.Fatalf("the echo of %q is %q, and it has ended: %t", text, got, ended)
	}
}

// ends waits for the end.
func (u *socketOver) ends(t *testing.T) {
	t.Helper()
	if got, ended := u.read(t); got != "" || !ended {
		t.Errorf("data: %q", got)
	}
}

func socketInH2(t *testing.T, w *h2Wire, fields [][2]string) *socketOver {
	t.Helper()
	s := &h2Stream{w}
	if _, ok := s.frame(t).(*http2.SettingsFrame); !ok { // not before the server has said that it speaks RFC 8441
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

// h2Stream is one stream on a connection of its own.
type h2Stream struct{ *h2Wire }

func (s *h2Stream) frame(t *testing.T) http2.Frame {
	t.Helper()
	frame, err := s.framer.ReadFrame()
	if err != nil {
		t.Fatal(err)
	}
	return frame
}

// next returns the next frame that is the stream's own.
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

func socketInH3(g *gate, t *testing.T, protocol string, fields ...string) *socketOver {
	t.Helper()
	w := g.dialH3(t, nil, nil)
	s, err := w.opened(t.Context(), g.connecting("https", protocol, fields))
	if err != nil {
		t.Fatal(err)
	}
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
