package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// load is requests that are all sent to one address and all answered with one status.
type load struct {
	addr   string
	status int
	// request returns the i-th request's bytes. It may write them into scratch, which belongs to one connection; called
	// for every i at most once, and by several connections at once.
	request func(i int, scratch []byte) []byte
	// response sees the body of each response; nil: nobody looks. It is called by several connections at once.
	response func(i int, body []byte) error
}

// requestTimeout ends a run that hangs.
const requestTimeout = 30 * time.Second

// send sends count requests over keep-alive connections, each of which waits for its answer before it sends the next
// one. It fails at the first answer that is not as expected: a benchmark of errors measures nothing.
func (l *load) send(ctx context.Context, conns, count int) (time.Duration, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	clients := make([]*client, conns)
	for i := range clients {
		var err error
		if clients[i], err = dial(l.addr); err != nil {
			return 0, err
		}
		defer clients[i].close()
	}
	var next atomic.Int64
	var working sync.WaitGroup
	start := time.Now()
	for _, c := range clients {
		working.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= count {
					return
				}
				if err := l.sendOne(c, i); err != nil {
					cancel(fmt.Errorf("request %d to %s: %w", i, l.addr, err))
				}
			}
		})
	}
	working.Wait()
	elapsed := time.Since(start)
	return elapsed, context.Cause(ctx)
}

func (l *load) sendOne(c *client, i int) error {
	c.request = l.request(i, c.request[:0])
	status, body, err := c.do(c.request)
	switch {
	case err != nil:
		return err
	case status != l.status:
		return fmt.Errorf("status %d instead of %d: %.300s", status, l.status, body)
	case l.response != nil:
		return l.response(i, body)
	}
	return nil
}

// client is one HTTP/1.1 connection that does the least a client must, so that the load leaves the cores to the gateway.
type client struct {
	conn    net.Conn
	reader  *bufio.Reader
	request []byte
	body    []byte
}

func dial(addr string) (*client, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &client{conn: conn, reader: bufio.NewReaderSize(conn, 16<<10)}, nil
}

func (c *client) close() { _ = c.conn.Close() }

var contentLength = []byte("content-length:")

// do sends a request and reads its response, which must come with a Content-Length. The body is valid until the next do.
func (c *client) do(request []byte) (status int, body []byte, err error) {
	if err := c.conn.SetDeadline(time.Now().Add(requestTimeout)); err != nil {
		return 0, nil, err
	}
	if _, err := c.conn.Write(request); err != nil {
		return 0, nil, err
	}
	line, err := c.reader.ReadSlice('\n')
	if err != nil {
		return 0, nil, err
	}
	const prefix = len("HTTP/1.1 ")
	if len(line) < prefix+3 {
		return 0, nil, fmt.Errorf("status line %q", line)
	}
	if status, err = strconv.Atoi(string(line[prefix : prefix+3])); err != nil {
		return 0, nil, err
	}
	length := -1
	for {
		if line, err = c.reader.ReadSlice('\n'); err != nil {
			return 0, nil, err
		}
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
			break
		}
		if len(line) > len(contentLength) && bytes.EqualFold(line[:len(contentLength)], contentLength) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(line[len(contentLength):]))); err != nil {
				return 0, nil, err
			}
		}
	}
	if length < 0 {
		return 0, nil, errors.New("the response has no Content-Length")
	}
	if cap(c.body) < length {
		c.body = make([]byte, length)
	}
	body = c.body[:length]
	_, err = io.ReadFull(c.reader, body)
	return status, body, err
}
