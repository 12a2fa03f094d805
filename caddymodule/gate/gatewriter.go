package gate

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/caddymodule/identity"
)

// requestState is all that one request needs on its way through, in one allocation. It is never used for another: handlers may
// keep the request and its header for as long as they like.
type requestState struct {
	writer   gateWriter
	upstream identity.Request
	fields   [7]identity.Field // as many as handedOn has values
}

// pass hands a request on and watches over its answer.
func (p *Protect) pass(w http.ResponseWriter, r *http.Request, d decision, next caddyhttp.Handler) error {
	if d.requestState == nil {
		d.requestState = new(requestState)
	}
	g := &d.requestState.writer
	g.ResponseWriter, g.names = w, p.cookies.issuer
	g.upgrade = d.upgrade
	if !d.preflight {
		g.page = p.foreignPage(r)
		g.page.passed = true
	}
	g.renewed, g.private, g.told = d.renewed, d.cookie, p.tell(d.fields)
	upstream := handOn(&d.requestState.upstream, r, d.fields)
	d.authorize(upstream)
	if d.token == nil || p.Streams == keepStreams {
		return g.serve(next, upstream)
	}
	ctx, cancel := context.WithCancel(r.Context())
	g.stream.gate, g.stream.token, g.stream.shown, g.stream.writer, g.stream.cancel = p, d.token, d.shown, w, cancel
	g.watched = true
	if isStreamRequest(r) {
		streams.enter(&g.stream)
	}
	defer func() {
		if reason := streams.leave(&g.stream); reason != nil && g.wroteHeader {
			p.audit.Refused(r, "stream closed at the gate", reason, p.calling(d)...)
		}
	}()
	*upstream = *upstream.WithContext(ctx) // without another copy on the heap
	err := g.serve(next, upstream)
	switch reason := g.stream.reason(); {
	case reason == nil:
		return err
	case !g.wroteHeader:
		clear(w.Header()) // of what the upstream wanted to say
		return p.refuse(w, r, d, reason)
	case g.hijacked:
		return nil
	}
	panic(http.ErrAbortHandler) // the client learns that the answer is not complete
}

// gateWriter is what goes from the next handler to the client. It is where an ordinary answer is told from a stream: one that
// is flushed, that comes in more than one piece, or that is no HTTP any more.
type gateWriter struct {
	answerFilter
	stream   stream
	watched  bool
	pieces   int
	hijacked bool
}

// serve has the next handler answer.
func (g *gateWriter) serve(next caddyhttp.Handler, r *http.Request) error {
	g.body = watchBody(r)
	err := next.ServeHTTP(g, r)
	if err != nil && !g.wroteHeader {
		g.body.end(g.Header())
	}
	g.finish(err)
	return err
}

// errStreamEnded is for handlers that go on writing when their request has ended.
var errStreamEnded = errors.New("the access token of this stream is no longer good")

// flows says that the answer is a stream, and that its head is on its way.
func (g *gateWriter) flows() {
	if g.watched {
		g.stream.begun.Store(true)
		streams.enter(&g.stream)
	}
}

// WriteHeader keeps back the head of a stream that has ended before: reverse_proxy answers 499, as if the client had left.
func (g *gateWriter) WriteHeader(status int) {
	if g.stream.reason() == nil {
		g.answerFilter.WriteHeader(status)
	}
}

// Write is part of a stream from the second time on.
func (g *gateWriter) Write(p []byte) (int, error) {
	if g.pieces++; g.pieces > 1 {
		g.flows()
	}
	if g.stream.reason() != nil {
		return 0, errStreamEnded
	}
	return g.answerFilter.Write(p)
}

// ReadFrom may take as long as it likes.
func (g *gateWriter) ReadFrom(r io.Reader) (int64, error) {
	if g.flows(); g.stream.reason() != nil {
		return 0, errStreamEnded
	}
	return g.answerFilter.ReadFrom(r)
}

// FlushError shows a stream: who writes an answer at once need not flush it.
func (g *gateWriter) FlushError() error {
	if g.flows(); g.stream.reason() != nil {
		return errStreamEnded
	}
	return g.answerFilter.FlushError()
}

// Hijack gives the connection away, but for the right to close it.
func (g *gateWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := g.answerFilter.Hijack()
	if err == nil {
		g.hijacked = true
		g.stream.closes(conn)
		g.flows()
	}
	return conn, buffered, err
}

// Interface guards.
var (
	_ http.ResponseWriter = (*gateWriter)(nil)
	_ http.Hijacker       = (*gateWriter)(nil)
	_ io.ReaderFrom       = (*gateWriter)(nil)
)
