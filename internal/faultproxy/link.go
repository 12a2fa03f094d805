package faultproxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	// longestMatch is how many earlier bytes a link keeps to find a match that arrives in pieces.
	longestMatch = 4096
	chunkSize    = 32 << 10
	// underway is how many chunks one direction of a link buffers before its sender has to wait.
	underway = 256
)

// trap waits for a request.
type trap struct {
	match    []byte
	cut      bool
	happened chan struct{}
	once     sync.Once
}

func (t *trap) tell() { t.once.Do(func() { close(t.happened) }) }

// link is a connection of a client and, once there is one, its connection to the server.
type link struct {
	proxy  *Proxy
	client *net.TCPConn
	once   sync.Once
	gone   chan struct{} // closed with both connections
	past   []byte        // the last bytes of the client, for the goroutine that looks for matches

	// The following fields are written under the proxy's lock.
	server *net.TCPConn
	silent bool
	sprung *trap // catches the server's answers
}

// run forwards bytes until both directions have ended.
func (l *link) run() {
	defer l.forget()
	if !l.pass() || !l.dial() {
		l.close(true)
		return
	}
	var directions sync.WaitGroup
	directions.Go(func() { l.carry(l.client, l.server, l.request) })
	directions.Go(func() { l.carry(l.server, l.client, nil) })
	directions.Wait()
	l.close(false)
}

func (l *link) forget() {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	delete(l.proxy.links, l)
}

// dial connects to the server, unless the link ends meanwhile.
func (l *link) dial() bool {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	l.proxy.running.Go(func() {
		select {
		case <-l.gone:
			cancel()
		case <-ctx.Done():
		}
	})
	server, err := new(net.Dialer).DialContext(ctx, "tcp4", l.proxy.backend)
	if err != nil {
		return false
	}
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	select {
	case <-l.gone:
		_ = server.Close()
		return false
	default:
		l.server = server.(*net.TCPConn)
		return true
	}
}

// close closes both connections, by RST or after pending bytes were written. Only the first call has an effect.
func (l *link) close(reset bool) {
	l.once.Do(func() {
		close(l.gone)
		for _, side := range []*net.TCPConn{l.client, l.server} {
			if side == nil {
				continue
			}
			if reset {
				_ = side.SetLinger(0)
			}
			_ = side.Close()
		}
	})
}

// chunk is the result of one read: bytes, or the end.
type chunk struct {
	bytes []byte
	end   error
	due   time.Time
}

// carry forwards bytes in one direction, each chunk when it is due and not during a silence.
func (l *link) carry(from, to *net.TCPConn, inspect func([]byte)) {
	chunks := make(chan chunk, underway)
	l.proxy.running.Go(func() { l.read(from, chunks) })
	for {
		var next chunk
		select {
		case next = <-chunks:
		case <-l.gone:
			return
		}
		if !l.wait(time.Until(next.due)) || !l.pass() {
			return
		}
		if next.end != nil {
			l.end(next.end, to)
			return
		}
		if inspect != nil {
			inspect(next.bytes)
		}
		if _, err := to.Write(next.bytes); err != nil {
			return // the other direction still forwards the last bytes of that side, and how it ended
		}
	}
}

// end forwards how a side ended.
func (l *link) end(how error, to *net.TCPConn) {
	if errors.Is(how, io.EOF) {
		_ = to.CloseWrite()
		return
	}
	l.close(true)
}

// read reads what a side sends, up to and including the end. It does not forward what a trap catches.
func (l *link) read(from *net.TCPConn, chunks chan<- chunk) {
	for {
		buffer := make([]byte, chunkSize)
		n, err := from.Read(buffer)
		if from == l.server && l.caught(n > 0) {
			if err == nil {
				continue
			}
			n = 0
		}
		due := time.Now().Add(l.proxy.delay())
		if n > 0 && !l.send(chunks, chunk{bytes: buffer[:n], due: due}) {
			return
		}
		if err != nil {
			l.send(chunks, chunk{end: err, due: due})
			return
		}
	}
}

func (l *link) send(chunks chan<- chunk, c chunk) bool {
	select {
	case chunks <- c:
		return true
	case <-l.gone:
		return false
	}
}

// caught reports whether the server's bytes are withheld from the client, and resets the connection if the trap says so. A server that
// closes without an answer ends the connection too.
func (l *link) caught(answer bool) bool {
	l.proxy.mu.Lock()
	set := l.sprung
	l.proxy.mu.Unlock()
	if set == nil {
		return false
	}
	if set.cut {
		l.close(true)
	}
	if set.cut || answer {
		set.tell()
	}
	return true
}

// request looks for the requests that traps wait for. It runs before the server gets the bytes, because no answer may escape.
func (l *link) request(said []byte) {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	window := slices.Concat(l.past, said)
	for i, set := range l.proxy.faults.traps {
		from := max(0, len(l.past)-(len(set.match)-1))
		if l.sprung == nil && bytes.Contains(window[from:], set.match) {
			l.sprung = set
			l.proxy.faults.traps = slices.Delete(l.proxy.faults.traps, i, i+1)
			break
		}
	}
	l.past = window[max(0, len(window)-longestMatch):]
}

// wait waits, and reports whether the link still exists.
func (l *link) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.gone:
		return false
	}
}

// pass waits for the end of a silence, and reports whether the link still exists.
func (l *link) pass() bool {
	for {
		l.proxy.mu.Lock()
		silent, changed := l.proxy.faults.silent || l.silent, l.proxy.changed
		l.proxy.mu.Unlock()
		if !silent {
			return true
		}
		select {
		case <-changed:
		case <-l.gone:
			return false
		}
	}
}
