package gate

import (
	"context"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// stream is a request that passed with a token, and whose response may outlive that token. It is usable once tokens, token,
// shown, writer and cancel are set.
type stream struct {
	tokens *tokens
	token  *token.AccessToken
	shown  credential
	asked  string // the host that the request is for
	writer http.ResponseWriter
	cancel context.CancelFunc

	entered  atomic.Bool
	headSent atomic.Bool // the head of the response is being sent
	ended    atomic.Pointer[error]

	mu       sync.Mutex
	conn     net.Conn // set once the handler has hijacked the connection
	returned bool     // the handler has returned

	// Guarded by the mutex of openStreams.
	removed bool // no longer watched
	swept   bool // at least one sweep old
	// admittedInLeeway: the token had expired and passed only by the leeway.
	admittedInLeeway bool
	// Used by one goroutine at a time: the sweep, or that of recheckAsync.
	rechecking atomic.Bool
	checkedAt  time.Time
	validAt    time.Time
	generation uint64
}

// reason returns why the stream was ended; nil: it was not.
func (s *stream) reason() error {
	if reason := s.ended.Load(); reason != nil {
		return *reason
	}
	return nil
}

// setConn records the hijacked connection, and closes it if the stream has ended.
func (s *stream) setConn(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn = conn
	if s.reason() != nil {
		_ = conn.Close()
	}
}

// longAgo is a deadline in the past by any clock.
var longAgo = time.Unix(1, 0)

// end cuts the stream off. Canceling the context is not enough: a handler blocked on a client that does not read never
// checks it. If the head is not sent yet, the gate answers instead. Call end until the handler returns, because wrapping
// writers may reset a deadline.
func (s *stream) end(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.returned {
		return // the connection may serve another request by now
	}
	if s.reason() == nil {
		s.ended.Store(&reason)
	}
	s.cancel()
	if s.conn != nil {
		_ = s.conn.Close()
	}
	if s.conn != nil || !s.headSent.Load() {
		return
	}
	controller := http.NewResponseController(serverWriter(s.writer))
	_ = controller.SetWriteDeadline(longAgo) // on ErrNotSupported the context has to do
	_ = controller.SetReadDeadline(longAgo)
}

// serverWriter unwraps the server's own writer. Its deadlines may be set from any goroutine; Caddy's wrappers do not
// allow that.
func serverWriter(w http.ResponseWriter) http.ResponseWriter {
	for {
		wrapper, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return w
		}
		w = wrapper.Unwrap()
	}
}

// recheck returns why the stream's token is no longer valid; nil: it is valid, or no recheck is due. It repeats the
// gate's verification whenever the verdict may have changed: with time, with a revocation, and with stale revocation
// data.
func (s *stream) recheck() (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			s.tokens.shared.logger.Error("panic while asking about a stream", zap.Any("panic", reason), zap.ByteString("stack", debug.Stack()))
			err = oauth.NewError(oauth.ServerError, "panic")
		}
	}()
	if s.reason() != nil {
		return s.reason()
	}
	now, generation, err := s.tokens.clockAndGeneration(s.token.Issuer)
	if err != nil {
		return err
	}
	if err := s.checkEnd(now); err != nil {
		return err
	}
	if s.isCurrent(now, generation) {
		return nil
	}
	s.checkedAt, s.generation = now, generation
	ctx, cancel := context.WithTimeout(context.Background(), recheckTimeout)
	defer cancel()
	return s.tolerateOutage(s.verify(ctx), now)
}

// noteLeeway records whether the token has already expired.
func (s *stream) noteLeeway() {
	if now, _, err := s.tokens.clockAndGeneration(s.token.Issuer); err == nil {
		s.admittedInLeeway = s.token.CheckEnd(now) != nil
	}
}

// checkEnd returns an error once the token has expired. The leeway compensates for clock differences when a request
// arrives, and does not extend a stream. A stream whose token passed only by the leeway lasts until the gate would refuse
// the token.
func (s *stream) checkEnd(now time.Time) error {
	if s.admittedInLeeway {
		return nil
	}
	return s.token.CheckEnd(now)
}

// isCurrent reports whether nothing can have changed since the last verdict.
func (s *stream) isCurrent(now time.Time, generation uint64) bool {
	age := now.Sub(s.checkedAt)
	return generation == s.generation && 0 <= age && age < recheckInterval && now.Before(s.token.ExpiresAt)
}

// tolerateOutage lets a stream continue for a while if its issuer is unreachable: a restart of the issuer must not cut
// off everybody. For our own issuer's tokens, max_staleness does this.
func (s *stream) tolerateOutage(verdict error, now time.Time) error {
	if verdict == nil || s.validAt.IsZero() {
		s.validAt = now
	}
	if verdict == nil {
		return nil
	}
	if s.tokens.isExternal(s.token.Issuer) && errorCode(verdict) == oauth.TemporarilyUnavailable && now.Sub(s.validAt) < awayTimeout {
		return s.token.CheckOwnEnd(now) // needs no answer from the issuer
	}
	return verdict
}

// recheckAsync is recheck in its own goroutine, for a token whose issuer may be asked over the network: other streams do
// not wait for it.
func (s *stream) recheckAsync() {
	now, generation, err := s.tokens.clockAndGeneration(s.token.Issuer)
	if err == nil {
		if over := s.checkEnd(now); over != nil { // do not wait for a recheck that is under way
			go s.end(over)
			return
		}
	}
	if s.rechecking.Swap(true) {
		return
	}
	if err == nil && s.isCurrent(now, generation) {
		s.rechecking.Store(false)
		return
	}
	go func() {
		defer s.rechecking.Store(false)
		if err := s.recheck(); err != nil {
			s.end(err)
		}
	}()
}

const (
	// sweepInterval plus the duration of a sweep bounds how late a stream is closed once the process knows the reason. A
	// stream is first checked after one interval: an application that signs a user out must get its response through.
	sweepInterval   = 100 * time.Millisecond
	recheckInterval = time.Second
	// recheckTimeout bounds the introspection of an opaque token.
	recheckTimeout = 5 * time.Second
	// awayTimeout is how long a stream continues while its issuer is unreachable.
	awayTimeout = 5 * time.Minute
)

// streams holds the open streams of this process. It survives reloads, as they do.
var streams openStreams

// openStreams ends streams whose token is no longer valid. While there are any, one goroutine checks them all.
type openStreams struct {
	mu       sync.Mutex
	open     map[*stream]struct{}
	sweeping bool
}

// enter adds a stream. Further calls for it do nothing. It is safe for concurrent use.
func (o *openStreams) enter(s *stream) {
	if s.entered.Swap(true) {
		return
	}
	s.noteLeeway()
	o.mu.Lock()
	defer o.mu.Unlock()
	if s.removed {
		return
	}
	if o.open == nil {
		o.open = make(map[*stream]struct{})
	}
	o.open[s] = struct{}{}
	if !o.sweeping {
		o.sweeping = true
		go o.sweep()
	}
}

// OpenStreams returns the number of watched streams.
func OpenStreams() int { return streams.count() }

func (o *openStreams) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.open)
}

// leave stops watching a stream whose handler has returned, and returns why the stream was ended, if it was.
func (o *openStreams) leave(s *stream) error {
	defer s.cancel()
	if !s.entered.Swap(true) { // an ordinary response; a later enter does nothing
		return nil
	}
	o.mu.Lock()
	s.removed = true // for a concurrent enter that waits for the lock
	delete(o.open, s)
	o.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.returned = true
	return s.reason()
}

// sweep checks every stream periodically until none is left.
func (o *openStreams) sweep() {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for range ticker.C {
		due, more := o.due()
		if !more {
			return
		}
		for _, s := range due {
			if s.tokens.isExternal(s.token.Issuer) {
				s.recheckAsync()
			} else if err := s.recheck(); err != nil {
				go s.end(err)
			}
		}
	}
}

// due lists the streams that are at least one sweep old, and reports whether to go on sweeping.
func (o *openStreams) due() (due []*stream, more bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for s := range o.open {
		if s.swept {
			due = append(due, s)
		}
		s.swept = true
	}
	o.sweeping = len(o.open) > 0
	return due, o.sweeping
}
