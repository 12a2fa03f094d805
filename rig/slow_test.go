//go:build linux

package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// slowTimeouts are Caddy's settings against slow clients (docs/operations.md). Only Caddy can cut a head that does not end, because no
// module sees it. Gatehouse cuts bodies for the issuer without settings.
const slowTimeouts = `servers {
		timeouts {
			read_header 10s
			read_body_idle 10s 128
			write_idle 10s
		}
	}`

// slowKind is a way for a client to hold resources with little effort.
type slowKind struct {
	name string
	// begin is what the client sends at once: the method and the path, and lines of the head.
	begin string
	// shows: the head has a valid token.
	shows bool
	// unfinished: the head does not end.
	unfinished bool
	// reads: the client has sent everything, and reads a byte at a time.
	reads bool
	// rests: the client has received its answer, and leaves the connection idle. That is allowed for a while.
	rests bool
}

// slowKinds are the kinds, by name. The bare ones bypass the gate: their cost is Caddy's own.
var slowKinds = map[string]slowKind{
	"head":          {begin: "POST /oauth/token HTTP/1.1\r\nX-Slow: ", unfinished: true},
	"body":          {begin: "POST /oauth/token HTTP/1.1\r\nContent-Type: " + formType + "\r\nContent-Length: 60000\r\n"},
	"upload":        {begin: "POST /api/upload HTTP/1.1\r\nContent-Length: 60000\r\n", shows: true},
	"download":      {begin: "GET /api/download HTTP/1.1\r\n", shows: true, reads: true},
	"idle":          {begin: "GET /api/orders HTTP/1.1\r\n", shows: true, rests: true},
	"bare idle":     {begin: "GET /bare/orders HTTP/1.1\r\n", rests: true},
	"bare upload":   {begin: "POST /bare/upload HTTP/1.1\r\nContent-Length: 60000\r\n"},
	"bare download": {begin: "GET /bare/download HTTP/1.1\r\n", reads: true},
}

// crowd is clients that are slow on purpose. A client that is cut off reconnects at once.
type crowd struct {
	node  *Node
	token string
	pace  time.Duration // between two bytes
	clients
	// waiting is how many clients have never been cut off, and open how many are connected.
	waiting, open atomic.Int64
	readers       int               // how many read slowly
	lasted        map[string]*times // the time until they were cut off, by kind

	mu      sync.Mutex
	refused error // why a client could not connect
}

func newCrowd(t *testing.T, n *Node, token string, pace time.Duration) *crowd {
	c := &crowd{node: n, token: token, pace: pace, lasted: make(map[string]*times)}
	c.begin(t)
	return c
}

// gather starts clients of a kind, and waits until all of them are connected.
func (c *crowd) gather(t *testing.T, name string, count int) {
	t.Helper()
	kind := slowKinds[name]
	kind.name = name
	if c.lasted[name] == nil {
		c.lasted[name] = new(times)
	}
	switch {
	case kind.reads:
		c.readers += count
	case !kind.rests:
		c.waiting.Add(int64(count))
	}
	door := make(chan struct{}, 64) // the kernel's accept queue is short
	before := c.open.Load()
	for range count {
		c.running.Go(func() { c.client(kind, door) })
	}
	soon(t, "the slow clients to connect", func() bool { return c.open.Load() >= before+int64(count)*9/10 })
}

// client connects again and again.
func (c *crowd) client(kind slowKind, door chan struct{}) {
	for first := true; c.life.Err() == nil; {
		door <- struct{}{}
		connection, err := c.connect(kind)
		<-door
		if err != nil {
			c.turnedAway(err)
			continue
		}
		c.open.Add(1)
		began := time.Now()
		c.linger(kind, connection)
		c.open.Add(-1)
		_ = connection.Close()
		if c.life.Err() == nil && !kind.reads {
			c.lasted[kind.name].add(time.Since(began))
			if first && !kind.rests {
				c.waiting.Add(-1)
			}
			first = false
		}
	}
}

func (c *crowd) turnedAway(err error) {
	if c.life.Err() != nil {
		return
	}
	c.mu.Lock()
	c.refused = err
	c.mu.Unlock()
	select {
	case <-c.life.Done():
	case <-time.After(100 * time.Millisecond):
	}
}

// connect begins a request. A slow reader announces a small window from the start.
func (c *crowd) connect(kind slowKind) (net.Conn, error) {
	var dialer net.Dialer
	if kind.reads {
		dialer.Control = func(_, _ string, raw syscall.RawConn) error {
			var err error
			return errors.Join(raw.Control(func(fd uintptr) {
				err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096)
			}), err)
		}
	}
	connection, err := dialer.DialContext(c.life, "tcp", c.node.Addr)
	if err != nil {
		return nil, err
	}
	first, rest, _ := strings.Cut(kind.begin, "\r\n")
	head := first + "\r\nHost: " + c.node.Addr + "\r\n"
	if kind.shows {
		head += "Authorization: Bearer " + c.token + "\r\n"
	}
	if head += rest; !kind.unfinished {
		head += "\r\n"
	}
	if _, err = io.WriteString(connection, head); err == nil && kind.rests {
		_, err = connection.Read(make([]byte, 1024))
	}
	if err != nil {
		return nil, errors.Join(err, connection.Close())
	}
	return connection, nil
}

// linger stays until the connection is cut off.
func (c *crowd) linger(kind slowKind, connection net.Conn) {
	home := context.AfterFunc(c.life, func() { _ = connection.Close() })
	defer home()
	answer := make([]byte, 1)
	for c.life.Err() == nil {
		if kind.reads {
			if _, err := connection.Read(answer); err != nil {
				return
			}
			select {
			case <-c.life.Done():
			case <-time.After(c.pace):
			}
			continue
		}
		_ = connection.SetReadDeadline(time.Now().Add(c.pace))
		switch _, err := connection.Read(answer); {
		case err == nil && kind.rests: // the rest of its answer
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return // it was cut off, or answered before it was read completely
		case !kind.rests:
			_, _ = io.WriteString(connection, "a")
		}
	}
}

// endlessUpstream accepts uploads and sends downloads without end, and records how long each download lasted.
func endlessUpstream(t *testing.T) (address string, downloads *times) {
	t.Helper()
	downloads = new(times)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path.Base(r.URL.Path) {
		case "upload":
			_, _ = io.Copy(io.Discard, r.Body)
		case "download":
			began := time.Now()
			for chunk := make([]byte, 16<<10); r.Context().Err() == nil; {
				if _, err := w.Write(chunk); err != nil {
					break
				}
			}
			downloads.add(time.Since(began))
		default:
			_, _ = io.WriteString(w, "ok")
		}
	}))
	server.Config.ConnContext = func(ctx context.Context, connection net.Conn) context.Context {
		_ = connection.(*net.TCPConn).SetWriteBuffer(16 << 10) // thousands of default buffers would be too much for the upstream
		return ctx
	}
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.Listener.Addr().String(), downloads
}

// goodTraffic is what must continue: sign-ins, refreshes, tokens, introspection and the gate, on new and on kept connections.
func goodTraffic(t *testing.T, n *Node) *load {
	t.Helper()
	l := newLoad(t, 5*time.Millisecond)
	kept := new(http.Transport)
	t.Cleanup(kept.CloseIdleConnections)
	l.start(3, n.URL, nil)
	l.start(3, n.URL, kept)
	return l
}

// beside formats one p99 relative to another.
func beside(quiet, busy *load) string {
	before, now := quiet.latency.quantile(0.99), busy.latency.quantile(0.99)
	return fmt.Sprintf("p99 %v, before %v: %.1f times", now.Round(100*time.Microsecond), before.Round(100*time.Microsecond), float64(now)/float64(before))
}

// TestF25SlowClients: thousands of slow or idle connections → cut within ten seconds, good requests are answered, nothing is left.
func TestF25SlowClients(t *testing.T) {
	besideOthers(t)
	for _, v := range either([]visit{
		{name: "of all kinds", kinds: map[string]int{"head": 150, "body": 150, "upload": 150, "download": 150, "idle": 500}},
	}, []visit{
		{name: "heads", kinds: map[string]int{"head": 10_000}},
		{name: "bodies for the issuer", kinds: map[string]int{"body": 10_000}},
		{name: "idle", kinds: map[string]int{"idle": 10_000}},
		{name: "idle, past the gate", kinds: map[string]int{"bare idle": 10_000}},
		{name: "heads, bodies for the issuer, idle", kinds: map[string]int{"head": 4800, "body": 4800, "idle": 9600}},
		{name: "heads, bodies for the issuer, GOMEMLIMIT=256MiB", kinds: map[string]int{"head": 5000, "body": 5000}, environment: []string{"GOMEMLIMIT=256MiB"}},
		{name: "heads, bodies, uploads, downloads", kinds: map[string]int{"head": 2500, "body": 2500, "upload": 2500, "download": 2500}},
		{name: "uploads", kinds: map[string]int{"upload": 3000}},
		{name: "uploads, past the gate", kinds: map[string]int{"bare upload": 3000}},
		{name: "downloads", kinds: map[string]int{"download": 3000}},
		{name: "downloads, past the gate", kinds: map[string]int{"bare download": 3000}},
	}) {
		t.Run(v.name, v.test)
	}
}

// visit is a crowd of several kinds.
type visit struct {
	name  string
	kinds map[string]int
	// environment is the node's.
	environment []string
}

func (v visit) test(t *testing.T) {
	upstream, downloads := endlessUpstream(t)
	n := Start(t, Setup{Global: slowTimeouts, Upstream: upstream, Environment: v.environment, Site: "handle /bare/* {\n\t\treverse_proxy " + upstream + "\n\t}"})
	token := serverToken(t, n.URL)
	quiet := goodTraffic(t, n)
	quiet.goOn(either(300, 5000))
	quiet.stop()
	goroutines, files, before := n.goroutines(t), n.files(t), n.resident(t)

	c := newCrowd(t, n, token, either(2*time.Second, 10*time.Second))
	total := 0
	for name, count := range v.kinds {
		c.gather(t, name, count)
		total += count
	}
	soon(t, "the node to have most of them at once", func() bool { return n.files(t) >= total*8/10 })
	began, most := time.Now(), int64(0)
	busy := goodTraffic(t, n)
	busy.goOn(either(300, 5000))
	soon(t, "everybody who is slow to send to be cut off once", func() bool {
		most = max(most, n.resident(t))
		return c.waiting.Load() == 0 && time.Since(began) > either(0, 30*time.Second)
	})
	soon(t, "everybody who is slow to read to be cut off once", func() bool {
		most = max(most, n.resident(t))
		return downloads.count() >= c.readers
	})
	busy.unbroken("beside slow clients")
	c.stop()
	if c.refused != nil {
		t.Logf("somebody could not connect: %v", c.refused)
	}
	n.settles(t, goroutines, files)
	what := fmt.Sprintf("F25: %d slow clients: %s", total, v.name)
	v.report(t, what, c, downloads)
	measured(t, what+": good requests", "%d, all answered; %s", busy.requests(), beside(quiet, busy))
	measured(t, what+": memory", "%d MiB before, %d MiB at most: %d KiB for each", before/mebibyte, most/mebibyte, (most-before)/int64(total)>>10)
	if grown := (most - before) / int64(total); grown > mebibyte {
		t.Errorf("each of the slow clients costs %d KiB", grown>>10)
	}
}

// cutWithin is how long heads and bodies may be open (row F25). cutTogether is the additional time for a crowd that is cut off at one
// moment, on the machine that it shares with the node.
const (
	cutWithin   = 10 * time.Second
	cutTogether = 5 * time.Second
)

// report logs how long slow clients stayed connected.
func (v visit) report(t *testing.T, what string, c *crowd, downloads *times) {
	t.Helper()
	for name, lasted := range c.lasted {
		switch kind := slowKinds[name]; {
		case kind.rests:
			measured(t, what+": "+name+", closed all the same", "%d", lasted.count())
		case kind.reads:
			measured(t, what+": "+name+", until it is cut off", "%v", downloads)
		default:
			measured(t, what+": "+name+", until it is cut off", "%v", lasted)
			lasted.within(t, name, 0.5, cutWithin+cutTogether/5)
			lasted.within(t, name, 1, cutWithin+cutTogether)
		}
	}
}
