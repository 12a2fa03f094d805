package caddymodule

import (
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

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
