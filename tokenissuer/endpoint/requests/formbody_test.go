package requests

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// serve answers one connection with BoundBody and ParseForm behind net/http, in the synctest bubble's time.
func serve(t *testing.T) net.Conn {
	t.Helper()
	client, peer := net.Pipe()
	listener := &oneConn{conns: make(chan net.Conn, 1)}
	listener.conns <- peer
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		BoundBody(w, r)
		f, err := ParseForm(w, r)
		var refused Error
		switch {
		case errors.As(err, &refused):
			w.WriteHeader(refused.Status)
		case err != nil:
			w.WriteHeader(http.StatusBadRequest)
		}
		if wait, err := time.ParseDuration(f.Get("wait")); err == nil {
			select {
			case <-time.After(wait):
			case <-r.Context().Done():
				w.WriteHeader(http.StatusInternalServerError)
			}
		}
		_, _ = io.WriteString(w, oauth.AsError(err).Reason)
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() {
		_ = client.Close()
		_ = server.Close()
		time.Sleep(bodyTimeout) // goroutines that wait on the connection end too
	})
	return client
}

// oneConn is a listener that accepts the connections in its channel.
type oneConn struct{ conns chan net.Conn }

func (l *oneConn) Accept() (net.Conn, error) {
	if c, ok := <-l.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l *oneConn) Close() error { close(l.conns); return nil }

func (l *oneConn) Addr() net.Addr { return &net.UnixAddr{} }

func TestT42SlowBodyIsCut(t *testing.T) {
	send := func(t *testing.T, head string) net.Conn {
		conn := serve(t)
		_, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\n"+head+"\r\n")
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	answer := func(t *testing.T, conn net.Conn) *http.Response {
		r := bufio.NewReader(conn)
		response, err := http.ReadResponse(r, nil)
		if err == nil && response.StatusCode == http.StatusContinue {
			response, err = http.ReadResponse(r, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		return response
	}
	for name, head := range map[string]string{
		"never sent":      "Content-Length: 10\r\n",
		"expect continue": "Expect: 100-continue\r\nContent-Length: 10\r\n",
		"a byte each 5 s": "Content-Length: 1000\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn, start := send(t, head), time.Now()
				if name == "a byte each 5 s" {
					go func() {
						for _, err := conn.Write([]byte("a")); err == nil; _, err = conn.Write([]byte("a")) {
							time.Sleep(5 * time.Second)
						}
					}()
				}
				response := answer(t, conn)
				took := time.Since(start)
				if response.StatusCode != http.StatusBadRequest || !response.Close || took > bodyTimeout {
					t.Errorf("status %d, close %t, after %s", response.StatusCode, response.Close, took)
				}
				_ = conn.Close()
			})
		})
	}
	t.Run("refused before reading", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			conn, start := send(t, "Content-Type: text/plain\r\nContent-Length: 10\r\n"), time.Now()
			response := answer(t, conn)
			if took := time.Since(start); response.StatusCode != http.StatusBadRequest || took > bodyTimeout {
				t.Errorf("status %d after %s", response.StatusCode, took)
			}
			_ = conn.Close()
		})
	})
	t.Run("the deadline ends with the body", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			conn := send(t, "Content-Length: 8\r\n")
			_, _ = io.WriteString(conn, "wait=30s")
			if response := answer(t, conn); response.StatusCode != http.StatusOK || response.Close {
				t.Errorf("status %d, close %t", response.StatusCode, response.Close)
			}
			_ = conn.Close()
		})
	})
	t.Run("cut short", func(t *testing.T) {
		r := post(URLEncoded, "")
		r.Body = io.NopCloser(io.MultiReader(strings.NewReader("a=b"), readerFunc(func([]byte) (int, error) {
			return 0, io.ErrUnexpectedEOF
		})))
		_, err := ParseForm(httptest.NewRecorder(), r)
		wantRefusal(t, err, oauth.InvalidRequest, "body_incomplete")
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Error("the cause is lost")
		}
	})
}

// TestT42ABodyHasTenSeconds: tests with real connections tolerate a busy machine and would not notice a longer limit.
func TestT42ABodyHasTenSeconds(t *testing.T) {
	if bodyTimeout > 10*time.Second {
		t.Errorf("a body has %v", bodyTimeout)
	}
}
