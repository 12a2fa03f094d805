package gate

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/identity"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// requestState is what a request that passes needs on its way, in one allocation. It is never reused: handlers may keep the
// request and its header.
type requestState struct {
	writer   gateWriter
	upstream identity.Request
}

// pass calls the next handler and ends a stream when its token is no longer valid.
func (p *Protect) pass(w http.ResponseWriter, r *http.Request, d decision, fields []identity.Field, next caddyhttp.Handler) error {
	state := new(requestState)
	g := &state.writer
	g.ResponseWriter, g.cookieNames = w, p.shared.cookies
	g.upgrade = d.upgrade
	if !d.preflight {
		g.cors = p.cors.grantUpstream(r)
	}
	g.private, g.identity = d.shown.cookie, p.passedIdentity(r, fields)
	upstream := upstreamCopy(&state.upstream, r, fields)
	d.authorize(upstream)
	if d.token == nil || p.Streams == keepStreams {
		return g.serve(next, upstream)
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	g.admitted = admitted{tokens: &p.tokens, token: d.token, shown: d.shown, host: oauth.Hostname(r.Host)}
	g.cancel = cancel
	if isStreamRequest(r) {
		g.watch()
	}
	defer func() {
		if reason := streams.leave(&g.stream); reason != nil && g.wroteHeader {
			p.shared.audit.Refused(r, "stream closed at the gate", reason, p.tokens.auditFields(&d)...)
		}
	}()
	*upstream = *upstream.WithContext(ctx) // avoids another allocation
	err := g.serve(next, upstream)
	switch reason := g.endReason(); {
	case reason == nil:
		return err
	case !g.wroteHeader:
		clear(w.Header()) // discard the upstream's headers
		return p.refuse(w, r, d, reason)
	case g.hijacked:
		return nil
	}
	panic(http.ErrAbortHandler) // tells the client that the answer is incomplete
}

// gateWriter writes the next handler's response to the client. It detects streams: responses that are flushed, written in
// more than one call, or hijacked.
type gateWriter struct {
	answerFilter
	// admitted and cancel, of the request's context, are what a stream is made of. Without cancel the response is not watched.
	admitted admitted
	cancel   context.CancelFunc
	// stream is nil until the response turns out to be one.
	stream   atomic.Pointer[stream]
	pieces   int
	hijacked bool
}

// watch returns the stream of the response, which ends with its token; nil: it is not watched. It is safe for concurrent use.
func (g *gateWriter) watch() *stream {
	if g.cancel != nil && g.stream.Load() == nil {
		streams.enter(&g.stream, newStream(g.admitted, g.ResponseWriter, g.cancel))
	}
	if s := g.stream.Load(); s != &returned {
		return s
	}
	return nil
}

// endReason returns why the stream was ended; nil: it was not.
func (g *gateWriter) endReason() error {
	if s := g.stream.Load(); s != nil {
		return s.reason()
	}
	return nil
}

// serve calls the next handler.
func (g *gateWriter) serve(next caddyhttp.Handler, r *http.Request) error {
	g.body = watchBody(r)
	err := next.ServeHTTP(g, r)
	if err != nil && !g.wroteHeader {
		g.body.end(g.Header())
	}
	g.finish(err)
	return err
}

// errStreamEnded is returned to handlers that write after their stream was ended.
var errStreamEnded = errors.New("the access token of this stream is no longer good")

// markStreaming records that the response is a stream and that its head is being sent.
func (g *gateWriter) markStreaming() {
	if s := g.watch(); s != nil {
		s.headSent.Store(true)
	}
}

// WriteHeader drops the head of a stream that was already ended: reverse_proxy answers 499, as if the client had left.
func (g *gateWriter) WriteHeader(status int) {
	if g.endReason() == nil {
		g.answerFilter.WriteHeader(status)
	}
}

// Write treats the response as a stream from its second call on.
func (g *gateWriter) Write(p []byte) (int, error) {
	if g.pieces++; g.pieces > 1 {
		g.markStreaming()
	}
	if g.endReason() != nil {
		return 0, errStreamEnded
	}
	return g.answerFilter.Write(p)
}

// ReadFrom treats the response as a stream, since it may take any time.
func (g *gateWriter) ReadFrom(r io.Reader) (int64, error) {
	if g.markStreaming(); g.endReason() != nil {
		return 0, errStreamEnded
	}
	return g.answerFilter.ReadFrom(r)
}

// FlushError treats the response as a stream: other responses need no flush.
func (g *gateWriter) FlushError() error {
	if g.markStreaming(); g.endReason() != nil {
		return errStreamEnded
	}
	return g.answerFilter.FlushError()
}

// Hijack hands over the connection, which the gate can still close.
func (g *gateWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := g.answerFilter.Hijack()
	if err == nil {
		g.hijacked = true
		if s := g.watch(); s != nil {
			s.setConn(conn)
			s.headSent.Store(true)
		}
	}
	return conn, buffered, err
}

// Interface guards.
var (
	_ http.ResponseWriter = (*gateWriter)(nil)
	_ http.Hijacker       = (*gateWriter)(nil)
	_ io.ReaderFrom       = (*gateWriter)(nil)
)
