// Package faultproxy stands between a client and a server in a test and does to their connections what networks do:
// cuts, silence, latency, loss, and the cut between a request and its answer, after which the client cannot know whether
// the request was carried out.
package faultproxy

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/loopback"
)

// retransmission is what a lost segment costs. TCP hides the loss itself and sends again after at least this long.
const retransmission = 200 * time.Millisecond

// Proxy is a TCP proxy on 127.0.0.1. Its methods may be called from any goroutine, and hold for connections that are open
// and for those to come, unless they say otherwise.
type Proxy struct {
	t       testing.TB
	backend string
	port    *loopback.Port
	running sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil while connections are refused
	closed   bool
	silent   bool
	latency  time.Duration
	loss     float64
	lost     float64 // the part of a loss that is due
	traps    []*trap
	links    map[*link]struct{}
	changed  chan struct{} // closed when waiting callers must check again
}

// Start starts a proxy before the server at backend. It ends with the test.
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

// Addr is the host and the port for the client. The proxy keeps them while it refuses connections.
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

// listen opens the door. The caller holds the lock, as for all small-letter methods of Proxy that say nothing else.
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

// serve takes the connections of one listener. It takes the lock.
func (p *Proxy) serve(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return // The listener was closed.
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

// announce makes those who wait look again.
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

// Blackhole passes nothing on until Restore: not a byte, not an end, not a reset. Connections are still accepted, and the
// server hears of them after Restore, which also delivers what was held back.
func (p *Proxy) Blackhole() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = true
}

// HalfDead does what Blackhole does, to the connections that are open now. New ones work.
func (p *Proxy) HalfDead() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.silent = true
	}
}

// Latency delays all bytes by d, in each direction. What was delayed before arrives in its order.
func (p *Proxy) Latency(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latency = d
}

// Loss delays a fraction of the chunks, evenly spread, and all behind them on the connection, as TCP does when a segment
// is lost and sent again.
func (p *Proxy) Loss(fraction float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loss, p.lost = fraction, 0
}

// CutAfterRequest waits for bytes from a client, on whichever connection they come first, lets the server have them, and
// when it begins to answer resets the connection, on both sides, without a byte of the answer. The channel is closed when
// that has happened. Each call is for one time.
func (p *Proxy) CutAfterRequest(match []byte) <-chan struct{} { return p.arm(match, true) }

// SwallowReplies waits for bytes from a client as CutAfterRequest does, and from then on passes nothing of what the server
// says on that connection, which stays open. The channel is closed when the first answer is gone.
func (p *Proxy) SwallowReplies(match []byte) <-chan struct{} { return p.arm(match, false) }

// arm sets a trap. It takes the lock.
func (p *Proxy) arm(match []byte, cut bool) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(match) == 0 || len(match) > longestMatch {
		p.t.Errorf("fault proxy: a match of %d bytes", len(match))
	}
	set := &trap{match: match, cut: cut, happened: make(chan struct{})}
	p.traps = append(p.traps, set)
	return set.happened
}

// Restore ends all faults and disarms what has not happened. Connections that were silent go on; those that were reset,
// or of which an answer was swallowed, are lost.
func (p *Proxy) Restore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent, p.latency, p.loss, p.lost, p.traps = false, 0, 0, 0, nil
	for l := range p.links {
		l.silent = false
	}
	p.announce()
	p.listen()
}

// delay is how much later than now a chunk is due. It takes the lock.
func (p *Proxy) delay() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.latency
	if p.lost += p.loss; p.lost >= 1 {
		p.lost--
		d += retransmission
	}
	return d
}
