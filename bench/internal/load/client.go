package load

import (
	"net"
	"sync"
	"time"
)

// requestTimeout bounds a request, which ends a run that hangs.
const requestTimeout = time.Minute

// client is one HTTP/1.1 connection. It does the least that a client must, which leaves the processors to the server.
// It dials when it first sends, and again after the server has closed the connection.
type client struct {
	addr     string
	mu       sync.Mutex // guards conn, which another goroutine may interrupt
	conn     net.Conn
	ended    bool
	in       buffer
	deadline time.Time
	request  []byte
	response Response
	dials    int
}

// close closes the connection; the next request dials again.
func (c *client) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// interrupt ends the request in progress and fails every later one. Another goroutine may call it.
func (c *client) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.conn != nil {
		_ = c.conn.Close()
	}
}

func (c *client) dial() error {
	conn, err := net.Dial("tcp", c.addr)
	if err != nil {
		return err
	}
	c.dials++
	if !c.adopt(conn) {
		return net.ErrClosed
	}
	c.deadline = time.Time{}
	return nil
}

// adopt takes a new connection, unless the client has been interrupted meanwhile.
func (c *client) adopt(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		_ = conn.Close()
		return false
	}
	c.conn = conn
	return true
}

// do sends a request and reads its response.
func (c *client) do(request []byte, now time.Time) (*Response, error) {
	if c.conn == nil {
		if err := c.dial(); err != nil {
			return nil, err
		}
	}
	// Setting a deadline costs a timer, so it is extended only now and then.
	if c.deadline.Sub(now) < requestTimeout/2 {
		c.deadline = now.Add(requestTimeout)
		if err := c.conn.SetDeadline(c.deadline); err != nil {
			return nil, err
		}
	}
	if _, err := c.conn.Write(request); err != nil {
		return nil, err
	}
	if err := c.read(); err != nil {
		return nil, err
	}
	if c.response.closes {
		c.close()
	}
	return &c.response, nil
}

// read reads a response.
func (c *client) read() error {
	for c.in.filled = 0; ; {
		n, err := c.conn.Read(c.in.free())
		if err != nil {
			return err
		}
		c.in.filled += n
		if whole, err := c.response.parse(c.in.arrived()); whole || err != nil {
			return err
		}
	}
}
