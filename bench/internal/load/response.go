package load

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// Response is a response. Header and Body are valid until the connection's next request.
type Response struct {
	Status int
	Header []byte // the lines after the status line
	Body   []byte
	closes bool
	joined []byte // the data of the body's chunks
}

// Get returns the first value of a header, or "".
func (r *Response) Get(name string) string {
	for line := range bytes.Lines(r.Header) {
		field, value, found := bytes.Cut(line, []byte(":"))
		if found && bytes.EqualFold(field, []byte(name)) {
			return string(bytes.TrimSpace(value))
		}
	}
	return ""
}

var errNoLength = errors.New("the response has no Content-Length and no chunks")

// parse reads a response from the bytes that have arrived so far, and reports whether it is complete. The response
// must have a Content-Length or be chunked.
func (r *Response) parse(arrived []byte) (whole bool, err error) {
	end := bytes.Index(arrived, []byte("\r\n\r\n"))
	if end < 0 {
		return false, nil
	}
	const prefix = len("HTTP/1.1 ")
	line := bytes.IndexByte(arrived, '\n') + 1
	if line < prefix+3 {
		return false, fmt.Errorf("status line %q", arrived[:line])
	}
	if r.Status, err = strconv.Atoi(string(arrived[prefix : prefix+3])); err != nil {
		return false, fmt.Errorf("status line %q", arrived[:line])
	}
	r.Header, r.closes = arrived[min(line, end):end], false
	length, chunked := -1, false
	for header := range bytes.Lines(r.Header) {
		if value, ok := valueOf(header, "content-length:"); ok {
			if length, err = strconv.Atoi(string(value)); err != nil {
				return false, err
			}
		} else if value, ok := valueOf(header, "connection:"); ok {
			r.closes = bytes.EqualFold(value, []byte("close"))
		} else if value, ok := valueOf(header, "transfer-encoding:"); ok {
			chunked = bytes.EqualFold(value, []byte("chunked"))
		}
	}
	body := arrived[end+len("\r\n\r\n"):]
	switch {
	case chunked:
		return r.parseChunks(body)
	case length < 0:
		return false, errNoLength
	case len(body) < length:
		return false, nil
	case len(body) > length:
		return false, fmt.Errorf("%d bytes behind the response", len(body)-length)
	}
	r.Body = body
	return true, nil
}

// parseChunks reads a chunked body without extensions and trailers (RFC 9112 §7.1).
func (r *Response) parseChunks(rest []byte) (whole bool, err error) {
	for r.joined = r.joined[:0]; ; {
		line := bytes.Index(rest, []byte("\r\n"))
		if line < 0 {
			return false, nil
		}
		size, err := strconv.ParseUint(string(rest[:line]), 16, 31)
		if err != nil {
			return false, fmt.Errorf("chunk: %w", err)
		}
		rest = rest[line+2:]
		if len(rest) < int(size)+2 {
			return false, nil
		}
		r.joined = append(r.joined, rest[:size]...)
		rest = rest[size+2:]
		if size == 0 {
			r.Body = r.joined
			return true, nil
		}
	}
}

// valueOf returns the value of a header line with that name. The name is in lower case, with its colon.
func valueOf(line []byte, name string) ([]byte, bool) {
	if len(line) <= len(name) || line[len(name)-1] != ':' || !bytes.EqualFold(line[:len(name)], []byte(name)) {
		return nil, false
	}
	return bytes.TrimSpace(line[len(name):]), true
}

// buffer holds the bytes that have arrived on a connection since its last request.
type buffer struct {
	bytes  []byte
	filled int
}

// free returns room for more bytes.
func (b *buffer) free() []byte {
	if b.filled == len(b.bytes) {
		b.bytes = append(b.bytes, make([]byte, max(4<<10, len(b.bytes)))...)
	}
	return b.bytes[b.filled:]
}

func (b *buffer) arrived() []byte { return b.bytes[:b.filled] }
