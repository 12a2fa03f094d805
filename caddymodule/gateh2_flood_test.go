package caddymodule

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// Floods over HTTP/2. The server must survive them and serve requests with valid tokens meanwhile.

// neighbours send requests with a valid token over their own connections, over both versions of HTTP, while an attack runs.
type neighbours struct {
	asked, served atomic.Int64
	heap          atomic.Uint64 // maximum in use meanwhile
	stop          chan struct{}
	running       sync.WaitGroup
}

func (g *gateway) neighbours(token string) *neighbours {
	n := &neighbours{stop: make(chan struct{})}
	for _, version := range []func(*http.Protocols, bool){(*http.Protocols).SetHTTP1, (*http.Protocols).SetUnencryptedHTTP2} {
		protocols := new(http.Protocols)
		version(protocols, true)
		client := &http.Client{Transport: &http.Transport{Protocols: protocols}, Timeout: patience}
		n.running.Go(func() {
			defer client.CloseIdleConnections()
			for {
				select {
				case <-n.stop:
					return
				default:
					n.ask(client, g.url+"/any/neighbour", token)
				}
			}
		})
	}
	return n
}

func (n *neighbours) ask(client *http.Client, url, token string) {
	request, _ := http.NewRequest(http.MethodGet, url, nil)
	request.Header.Set("Authorization", "Bearer "+token)
	n.asked.Add(1)
	if response, err := client.Do(request); err == nil {
		body, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if response.StatusCode == http.StatusOK && string(body) == "ok" {
			n.served.Add(1)
		}
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	n.heap.Store(max(n.heap.Load(), memory.HeapInuse))
}

// leave waits until the neighbours have sent enough requests, and fails the test unless 99 percent were served with at most 512 MiB of heap
// in use.
func (n *neighbours) leave(t *testing.T) {
	t.Helper()
	const enough = 200
	for deadline := time.Now().Add(patience); n.asked.Load() < enough && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
	}
	close(n.stop)
	n.running.Wait()
	asked, served := n.asked.Load(), n.served.Load()
	if asked < enough || served*100 < asked*99 {
		t.Errorf("%d of %d good requests were served, want 99 of 100", served, asked)
	}
	if heap := n.heap.Load(); heap > 512<<20 {
		t.Errorf("%d MiB were in use during the attack", heap>>20)
	}
}

// TestG74Floods: HTTP/2 rapid reset, CONTINUATION flood, HPACK bomb → the server survives, valid traffic is served.
func TestG74Floods(t *testing.T) {
	attacks := map[string]func(*testing.T, *gateway, string){
		"rapid reset": rapidReset, "rapid reset with a good token": rapidReset,
		"CONTINUATION without end": endlessContinuation, "1,000 streams at once": thousandStreams,
		"a header list over the limit": oversizedHeaders, "HPACK bomb": hpackBomb, "settings and pings": controlFrames,
	}
	g := startGate(t, speakingH2(strings.Replace(relaying(), "\n\tlog\n\toauth_server", "\n\toauth_server", 1)))
	token := g.server("public")
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			n := g.neighbours(token)
			used := "bad"
			if strings.HasSuffix(name, "good token") {
				used = token
			}
			attack(t, g, used)
			n.leave(t)
			// Requests of this attack and the previous one may still arrive. Only their sender can be checked.
			for _, r := range g.upstream.seen() {
				r.has(t, "Authorization", "Bearer "+token)
			}
			if status, _, body := g.raw(g.request("GET", "/any/x", bearer(token), "Connection: close")); status != http.StatusOK || body != "ok" {
				t.Errorf("after the attack: %d %s", status, body)
			}
		})
	}
}

// rapidReset opens streams and resets them at once (CVE-2023-44487).
func rapidReset(t *testing.T, g *gateway, token string) {
	var running sync.WaitGroup
	for range 4 {
		w := g.dialH2(t)
		running.Go(func() { _, _ = io.Copy(io.Discard, w.Conn) })
		running.Go(func() {
			defer func() { _ = w.Close() }()
			for stream := uint32(1); stream < 2000; stream += 2 {
				w.heads(stream, true, g.fields("GET", "/any/reset", "authorization", "Bearer "+token))
				if w.framer.WriteRSTStream(stream, http2.ErrCodeCancel) != nil {
					return // the server has closed the connection
				}
			}
		})
	}
	running.Wait()
}

// endlessContinuation sends a head that never ends (CVE-2023-45288). The server must close the connection.
func endlessContinuation(t *testing.T, g *gateway, token string) {
	w := g.dialH2(t)
	defer func() { _ = w.Close() }()
	go func() { _, _ = io.Copy(io.Discard, w.Conn) }()
	_ = w.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: w.encoded(g.fields("GET", "/any/x", "authorization", "Bearer "+token))})
	sent := 0
	for i := range 10_000 {
		block := w.encoded([][2]string{{fmt.Sprintf("x-%d", i), strings.Repeat("a", 8000)}})
		if w.framer.WriteContinuation(1, false, block) != nil {
			t.Logf("the server hung up after %d KiB", sent>>10)
			return
		}
		sent += len(block)
	}
	t.Errorf("the server read %d MiB of a head", sent>>20)
}

// thousandStreams keeps as many requests open as possible. Those over the limit are refused, and the others are answered.
func thousandStreams(t *testing.T, g *gateway, token string) {
	w := g.dialH2(t)
	defer func() { _ = w.Close() }()
	for stream := uint32(1); stream < 2000; stream += 2 {
		w.heads(stream, false, g.fields("POST", "/any/many", "authorization", "Bearer "+token))
	}
	statuses := make(map[int]int)
	for _, answer := range w.answers(1000) {
		statuses[answer.status]++
	}
	for status, n := range statuses {
		if status != 0 && status != http.StatusUnauthorized {
			t.Errorf("%d streams were answered with %d", n, status)
		}
	}
	if statuses[http.StatusUnauthorized] == 0 {
		t.Errorf("answers %v", statuses)
	}
}

// oversizedHeaders sends heads of more than Caddy's limit of 16 KiB.
func oversizedHeaders(t *testing.T, g *gateway, token string) {
	for name, further := range map[string][]string{
		"one value":   {"x", strings.Repeat("a", 40<<10)},
		"many values": strings.Split(strings.Repeat("x,"+strings.Repeat("a", 100)+",", 400)+"y,z", ","),
		"the token":   {"authorization", "Bearer " + strings.Repeat("a", 25<<10)},
	} {
		fields := g.fields("GET", "/any/x", further...)
		if name != "the token" {
			fields = append(fields, [2]string{"authorization", "Bearer " + token})
		}
		if status, _, _ := g.bigH2(t, fields); status != http.StatusRequestHeaderFieldsTooLarge && status != 0 {
			t.Errorf("%s over HTTP/2: %d", name, status)
		}
		var lines []string
		for _, field := range fields[4:] {
			lines = append(lines, field[0]+": "+field[1])
		}
		g.headTooLarge(t, g.request("GET", "/any/x", lines...))
	}
}

// bigH2 is like h2 for a head that does not fit into one frame.
func (g *gateway) bigH2(t *testing.T, fields [][2]string) (int, http.Header, string) {
	t.Helper()
	w := g.dialH2(t)
	defer func() { _ = w.Close() }()
	const frame = 16 << 10
	block := w.encoded(fields)
	_ = w.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:min(frame, len(block))], EndHeaders: len(block) <= frame, EndStream: true})
	for block = block[min(frame, len(block)):]; len(block) > 0; block = block[min(frame, len(block)):] {
		_ = w.framer.WriteContinuation(1, len(block) <= frame, block[:min(frame, len(block))])
	}
	if answer := w.answers(1)[1]; answer != nil {
		return answer.status, answer.header, answer.body
	}
	return 0, nil, ""
}

// hpackBomb sends a value once and refers to it thousands of times by one byte each.
func hpackBomb(t *testing.T, g *gateway, token string) {
	for range 8 {
		w := g.dialH2(t)
		block := append([]byte(nil), w.encoded(g.fields("GET", "/any/x", "authorization", "Bearer "+token, "x-bomb", strings.Repeat("a", 3900)))...)
		one := w.encoded([][2]string{{"x-bomb", strings.Repeat("a", 3900)}})
		if len(one) != 1 {
			t.Fatalf("a copy takes %d bytes", len(one))
		}
		block = append(block, strings.Repeat(string(one), 12_000)...)
		_ = w.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndHeaders: true, EndStream: true})
		if answer := w.answers(1)[1]; answer != nil && answer.status != http.StatusRequestHeaderFieldsTooLarge && answer.status != 0 {
			t.Errorf("answered with %d", answer.status)
		}
		_ = w.Close()
	}
}

// controlFrames sends frames that require answers and reads none of them (CVE-2019-9512, CVE-2019-9515).
func controlFrames(t *testing.T, g *gateway, _ string) {
	w := g.dialH2(t)
	defer func() { _ = w.Close() }()
	_ = w.SetDeadline(time.Now().Add(time.Second)) // the server may stop reading, which also passes
	_ = w.Conn.(*net.TCPConn).SetReadBuffer(4096)
	for range 200_000 {
		if w.framer.WritePing(false, [8]byte{}) != nil || w.framer.WriteSettings() != nil {
			return
		}
	}
}
