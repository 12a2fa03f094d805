package gate

import (
	"context"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// stream is a request that passed with a token, and may go on for longer than the token is good. Its zero value is of no
// use; it is ready once gate, token, shown, writer and cancel are set.
type stream struct {
	gate   *Protect
	token  *accesstoken.AccessToken
	shown  oauth.Secret
	writer http.ResponseWriter
	cancel context.CancelFunc

	entered atomic.Bool
	begun   atomic.Bool // the answer is on its way
	ended   atomic.Pointer[error]

	mu   sync.Mutex
	conn net.Conn // once the connection is the handler's
	left bool     // the handler is through

	// The mutex of openStreams guards these two.
	gone bool // it is not watched any more
	seen bool // it is one sweep old
	// inOvertime: the token was let in by the leeway alone.
	inOvertime bool
	// What only one goroutine at a time looks at: the sweep, or that of askAside.
	asking     atomic.Bool
	askedAt    time.Time
	goodAt     time.Time
	generation uint64
}

// isStreamRequest reports whether the answer to a request can only be a stream.
func isStreamRequest(r *http.Request) bool {
	if isUpgrade(r) {
		return true
	}
	for _, line := range r.Header["Accept"] {
		if strings.Contains(line, "text/event-stream") {
			return true
		}
	}
	return false
}

// reason says why the stream was ended; nil: it was not.
func (s *stream) reason() error {
	if reason := s.ended.Load(); reason != nil {
		return *reason
	}
	return nil
}

// closes tells the stream which connection is its own.
func (s *stream) closes(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn = conn
	if s.reason() != nil {
		_ = conn.Close()
	}
}

// longAgo is a deadline that has passed whatever the clock says.
var longAgo = time.Unix(1, 0)

// end cuts the stream off. The context alone would not do: who is waiting for a client that does not read never looks at
// it. An answer that has not begun is left to the gate, which has something to say. It is called until the handler is
// through, because writers on the way may put off a deadline.
func (s *stream) end(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left {
		return // the connection may have another request by now
	}
	if s.reason() == nil {
		s.ended.Store(&reason)
	}
	s.cancel()
	if s.conn != nil {
		_ = s.conn.Close()
	}
	if s.conn != nil || !s.begun.Load() {
		return
	}
	controller := http.NewResponseController(undermost(s.writer))
	_ = controller.SetWriteDeadline(longAgo) // ErrNotSupported: then the context has to do
	_ = controller.SetReadDeadline(longAgo)
}

// undermost returns the server's own writer. It takes deadlines from any goroutine; Caddy's wrappers do not.
func undermost(w http.ResponseWriter) http.ResponseWriter {
	for {
		wrapper, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return w
		}
		w = wrapper.Unwrap()
	}
}

// ask says why the stream's token is no longer good; nil: it is, or is not to be asked about yet. The gate's own verdict
// counts, whenever it may have changed: with the time, with a revocation, and with the revocations getting old.
func (s *stream) ask() (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			s.gate.logger.Error("panic while asking about a stream", zap.Any("panic", reason), zap.ByteString("stack", debug.Stack()))
			err = oauth.NewError(oauth.ServerError, "panic")
		}
	}()
	if s.reason() != nil {
		return s.reason()
	}
	now, generation, err := s.gate.standing(s.token.Issuer)
	if err != nil {
		return err
	}
	if err := s.checkEnd(now); err != nil {
		return err
	}
	if s.isSettled(now, generation) {
		return nil
	}
	s.askedAt, s.generation = now, generation
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	_, err = s.gate.verifyToken(ctx, s.shown.Reveal())
	return s.weigh(err, now)
}

// begin notes whether the token is past its end already.
func (s *stream) begin() {
	if now, _, err := s.gate.standing(s.token.Issuer); err == nil {
		s.inOvertime = s.token.CheckEnd(now) != nil
	}
}

// checkEnd ends a stream with its token and not later: leeway is for clocks that differ when a request comes, and no time
// to go on in. Who came in by it may stay for as long as the gate lets others in with that token.
func (s *stream) checkEnd(now time.Time) error {
	if s.inOvertime {
		return nil
	}
	return s.token.CheckEnd(now)
}

// isSettled reports whether nothing can have changed since the last verdict.
func (s *stream) isSettled(now time.Time, generation uint64) bool {
	age := now.Sub(s.askedAt)
	return generation == s.generation && 0 <= age && age < askAgain && now.Before(s.token.ExpiresAt)
}

// weigh lets a stream go on for a while when its issuer cannot be asked: one that restarts is no reason to cut off everybody
// who is connected. Our own issuer's tokens have max_staleness for that.
func (s *stream) weigh(verdict error, now time.Time) error {
	if verdict == nil || s.goodAt.IsZero() {
		s.goodAt = now
	}
	if verdict == nil {
		return nil
	}
	if s.gate.mayWait(s.token.Issuer) && errorCode(verdict) == oauth.TemporarilyUnavailable && now.Sub(s.goodAt) < awayTimeout {
		return s.token.CheckOwnEnd(now) // which nobody has to be asked about
	}
	return verdict
}

// askAside is ask for a token whose issuer has to be asked in turn: the other streams do not wait for it.
func (s *stream) askAside() {
	now, generation, err := s.gate.standing(s.token.Issuer)
	if err == nil {
		if over := s.checkEnd(now); over != nil { // whoever is being asked, and however long that takes
			go s.end(over)
			return
		}
	}
	if s.asking.Swap(true) {
		return
	}
	if err == nil && s.isSettled(now, generation) {
		s.asking.Store(false)
		return
	}
	go func() {
		defer s.asking.Store(false)
		if err := s.ask(); err != nil {
			s.end(err)
		}
	}()
}

const (
	// sweepInterval and the time of one sweep are how late a stream is closed, after the process has learned why. It is
	// first looked at when it is one interval old: an application that signs a user out must get its answer through.
	sweepInterval = 100 * time.Millisecond
	askAgain      = time.Second
	// askTimeout is how long another issuer may take to say what it thinks of an opaque token.
	askTimeout = 5 * time.Second
	// awayTimeout is how long a stream goes on while nobody can say what its issuer thinks of its token.
	awayTimeout = 5 * time.Minute
)

// streams are the open streams of this process. They outlive a reload, and so does this.
var streams openStreams

// openStreams ends streams whose token is no longer good. One goroutine looks at all of them, while there are any.
type openStreams struct {
	mu       sync.Mutex
	open     map[*stream]struct{}
	sweeping bool
}

// enter adds a stream. It may be called again, by any goroutine.
func (o *openStreams) enter(s *stream) {
	if s.entered.Swap(true) {
		return
	}
	s.begin()
	o.mu.Lock()
	defer o.mu.Unlock()
	if s.gone {
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

// OpenStreams returns how many requests that may outlive their token are watched.
func OpenStreams() int { return streams.count() }

// count is how many streams are watched.
func (o *openStreams) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.open)
}

// leave ends the watch when the handler is through, and says why the stream was ended, if it was.
func (o *openStreams) leave(s *stream) error {
	defer s.cancel()
	if !s.entered.Swap(true) { // an ordinary answer, and from now on it can be nothing else
		return nil
	}
	o.mu.Lock()
	s.gone = true // for an enter that is just waiting for the lock
	delete(o.open, s)
	o.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = true
	return s.reason()
}

// sweep asks about every stream again and again, until none is left.
func (o *openStreams) sweep() {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for range ticker.C {
		due, more := o.due()
		if !more {
			return
		}
		for _, s := range due {
			if s.gate.mayWait(s.token.Issuer) {
				s.askAside()
			} else if err := s.ask(); err != nil {
				go s.end(err)
			}
		}
	}
}

// due lists the streams that are one sweep old, and says whether the sweep goes on.
func (o *openStreams) due() (due []*stream, more bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for s := range o.open {
		if s.seen {
			due = append(due, s)
		}
		s.seen = true
	}
	o.sweeping = len(o.open) > 0
	return due, o.sweeping
}
