// Package faultproxy is a TCP proxy for tests that simulates network faults: resets, silence, latency, loss, and a reset between a
// request and its answer, after which the client cannot know whether the request was carried out.
package faultproxy

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/loopback"
)

// retransmission is the delay that a lost segment causes. TCP hides the loss itself and retransmits after at least this long.
const retransmission = 200 * time.Millisecond

// Proxy is a TCP proxy on 127.0.0.1. Its methods may be called from any goroutine. They affect open and later connections, unless they
// say otherwise.
type Proxy struct {
	t       testing.TB
	backend string
	port    *loopback.Port
	running sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil while connections are refused
	closed   bool
	faults   faults
	links    map[*link]struct{}
	changed  chan struct{} // closed when waiting callers must check again
}

// faults are what is set until Restore.
type faults struct {
	silent  bool
	latency time.Duration
	loss    float64
	lost    float64 // the fraction of a loss that is due
	traps   []*trap
}

// Start starts a proxy in front of the server at backend. It ends with the test.
func Start(t testing.TB, backend string) *Proxy {
	t.Helper()
	port, err := loopback.Reserve()
	if err != nil {
		t.Fatalf("fault proxy: %v", err)
	}
	p := &Proxy{t: t, backend: backend, port: port, links: make(map[*link]struct{}), changed: make(chan struct{})}
	t.Cleanup(p.stop)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listen()
	return p
}

// Addr returns the host and port for the client. The proxy keeps them while it refuses connections.
func (p *Proxy) Addr() string { return p.port.Addr() }

func (p *Proxy) stop() {
	p.mu.Lock()
	p.closed = true
	p.cut()
	p.mu.Unlock()
	p.running.Wait()
	if err := p.port.Close(); err != nil {
		p.t.Errorf("fault proxy: %v", err)
	}
}

// listen accepts connections again. The caller holds the lock, as for all unexported methods of Proxy that do not say otherwise.
func (p *Proxy) listen() {
	if p.listener != nil || p.closed {
		return
	}
	listener, err := net.Listen("tcp4", p.Addr())
	if err != nil {
		p.t.Errorf("fault proxy: %v", err)
		return
	}
	p.listener = listener
	p.running.Go(func() { p.serve(listener) })
}

// serve accepts the connections of one listener. It takes the lock.
func (p *Proxy) serve(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return // the listener was closed
		}
		l := &link{proxy: p, client: client.(*net.TCPConn), gone: make(chan struct{})}
		p.mu.Lock()
		if p.listener != listener {
			p.mu.Unlock()
			l.close(true)
			return
		}
		p.links[l] = struct{}{}
		p.running.Go(l.run)
		p.mu.Unlock()
	}
}

// cut refuses new connections and resets the others.
func (p *Proxy) cut() {
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	for l := range p.links {
		l.close(true)
	}
}

// announce wakes waiting goroutines to check again.
func (p *Proxy) announce() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// Cut resets all connections, on both sides, and refuses new ones until Restore.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut()
}

// Blackhole forwards nothing until Restore: no bytes, no FIN, no RST. Connections are still accepted, and Restore connects them to the
// server and delivers what was held back.
func (p *Proxy) Blackhole() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults.silent = true
}

// HalfDead does what Blackhole does, but only to the connections that are open now.
func (p *Proxy) HalfDead() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.silent = true
	}
}

// Latency delays all bytes by d, in each direction. Bytes delayed before keep their order.
func (p *Proxy) Latency(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults.latency = d
}

// Loss delays a fraction of the chunks, evenly spread, and everything behind them on the connection, as TCP does when a segment is lost
// and retransmitted.
func (p *Proxy) Loss(fraction float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults.loss, p.faults.lost = fraction, 0
}

// CutAfterRequest waits for a client to send the matching bytes on any connection and forwards them. When the server begins to answer, it
// resets that connection, on both sides, without a byte of the answer, and closes the channel. Each call has one effect.
func (p *Proxy) CutAfterRequest(match []byte) <-chan struct{} { return p.arm(match, true) }

// SwallowReplies waits for matching bytes as CutAfterRequest does. From then on it forwards nothing of what the server sends on that
// connection, which stays open. The channel is closed when the first answer was discarded.
func (p *Proxy) SwallowReplies(match []byte) <-chan struct{} { return p.arm(match, false) }

// arm sets a trap. It takes the lock.
func (p *Proxy) arm(match []byte, cut bool) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(match) == 0 || len(match) > longestMatch {
		p.t.Errorf("fault proxy: a match of %d bytes", len(match))
	}
	set := &trap{match: match, cut: cut, happened: make(chan struct{})}
	p.faults.traps = append(p.faults.traps, set)
	return set.happened
}

// Restore ends all faults and disarms unused traps. Silent connections continue. Connections that were reset, or whose answers were
// discarded, are lost.
func (p *Proxy) Restore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = faults{}
	for l := range p.links {
		l.silent = false
	}
	p.announce()
	p.listen()
}

// delay returns how much later than now a chunk is due. It takes the lock.
func (p *Proxy) delay() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.faults.latency
	if p.faults.lost += p.faults.loss; p.faults.lost >= 1 {
		p.faults.lost--
		d += retransmission
	}
	return d
}
