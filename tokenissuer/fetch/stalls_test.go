package fetch

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestV8EachByteOfAnAnswer: a server that closes, falls silent or goes on for ever at any byte of its answer costs no more than the timeout,
// and no part of an answer is taken for the whole.
func TestV8EachByteOfAnAnswer(t *testing.T) {
	const timeout = 300 * time.Millisecond
	answers := map[string]string{
		"with a length":    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{\"keys\":[]}",
		"in pieces":        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"key\r\n6\r\ns\":[]}\r\n0\r\n\r\n",
		"after 1xx":        "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
		"after a redirect": "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n",
	}
	endless := map[string][2]string{
		"a status line":  {"HTTP/1.1 200 ", "O"},
		"a header":       {"HTTP/1.1 200 OK\r\nX-Long: ", "a"},
		"headers":        {"HTTP/1.1 200 OK\r\n", "X-Many: a\r\n"},
		"1xx answers":    {"", "HTTP/1.1 103 Early Hints\r\n\r\n"},
		"a body":         {"HTTP/1.1 200 OK\r\n\r\n", "a"},
		"chunks":         {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\na\r\n"},
		"a chunk's size": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "0"},
		"trailers":       {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "X-Many: a\r\n"},
	}
	var running sync.WaitGroup
	turns := make(chan struct{}, 16)
	ask := func(name string, whole bool, serve func(net.Conn)) {
		turns <- struct{}{}
		running.Go(func() {
			defer func() { <-turns }()
			address, stop := rawServer(t, serve)
			defer stop()
			c := NewClient(Limits{Reach: PrivateNetwork, Redirects: Redirects, Timeout: timeout})
			defer c.CloseIdleConnections()
			begun := time.Now()
			_, err := c.Get(t.Context(), "http://"+address+"/keys", "")
			if took := time.Since(begun); took > 20*time.Second {
				t.Errorf("%s: it took %s", name, took)
			}
			if err == nil && !whole {
				t.Errorf("%s: it was taken for an answer", name)
			}
		})
	}
	for name, answer := range answers {
		for n := range len(answer) {
			ask(fmt.Sprintf("%s: silent after %d bytes", name, n), false, func(conn net.Conn) { _, _ = conn.Write([]byte(answer[:n])) })
			ask(fmt.Sprintf("%s: closed after %d bytes", name, n), false, func(conn net.Conn) {
				_, _ = conn.Write([]byte(answer[:n]))
				_ = conn.Close()
			})
		}
	}
	for name, parts := range endless {
		ask("endless "+name, false, func(conn net.Conn) {
			piece := bytes.Repeat([]byte(parts[1]), 1000)
			for _, err := conn.Write([]byte(parts[0])); err == nil; _, err = conn.Write(piece) {
			}
		})
		ask("slow "+name, false, func(conn net.Conn) {
			for _, err := conn.Write([]byte(parts[0])); err == nil; _, err = conn.Write([]byte(parts[1])) {
				time.Sleep(10 * time.Millisecond) // this is the attack
			}
		})
	}
	running.Wait()
}

// rawServer calls serve with each connection that has sent a request, and closes all when it is stopped.
func rawServer(t *testing.T, serve func(net.Conn)) (address string, stop func()) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Error(err)
		return "", func() {}
	}
	var serving sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			serving.Go(func() {
				var request strings.Builder
				for buffer := make([]byte, 4096); !strings.Contains(request.String(), "\r\n\r\n"); {
					n, err := conn.Read(buffer)
					if err != nil {
						return
					}
					request.Write(buffer[:n])
				}
				serve(conn)
			})
		}
	})
	return listener.Addr().String(), func() {
		_ = listener.Close()
		mu.Lock()
		for _, conn := range conns {
			_ = conn.Close()
		}
		mu.Unlock()
		serving.Wait()
	}
}
