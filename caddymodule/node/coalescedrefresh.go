package node

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// coalescedRefresh lets concurrent callers share readings. Each caller gets the result of a reading that began after its call:
// callers that arrive during a reading share the next one. One goroutine reads for as long as another reading is asked for. The
// zero value is ready to use.
type coalescedRefresh struct {
	mu   sync.Mutex
	busy bool        // the goroutine runs
	next *refreshRun // the reading that has not begun; nil: no caller waits for one
}

// refreshRun is a reading that several callers wait for.
type refreshRun struct {
	read func() error
	done chan struct{}
	err  error // once it is done
}

// errRefreshFailed is returned when the reading has panicked.
var errRefreshFailed = errors.New("the reading was broken off")

// do returns the result of a read that began after the call, or temporarily_unavailable if ctx ends first. The read goes on then, since
// other callers may wait for it. It has to have a timeout of its own.
func (s *coalescedRefresh) do(ctx context.Context, read func() error) error {
	if err := ctx.Err(); err != nil {
		return store.Unavailable(err)
	}
	r := s.join(read)
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return store.Unavailable(ctx.Err())
	}
}

// join returns the reading that has not begun yet.
func (s *coalescedRefresh) join(read func() error) *refreshRun {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = &refreshRun{read: read, done: make(chan struct{})}
	}
	if !s.busy {
		s.busy = true
		go s.run()
	}
	return s.next
}

// run reads until no caller waits for another reading.
func (s *coalescedRefresh) run() {
	for {
		runtime.Gosched() // requests that are about to ask may share this reading
		r := s.begin()
		if r == nil {
			return
		}
		r.err = recovered(r.read)
		close(r.done)
	}
}

// begin returns the next reading, which callers can no longer join, or nil if there is none.
func (s *coalescedRefresh) begin() *refreshRun {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.next
	s.next, s.busy = nil, r != nil
	return r
}

// recovered turns a panic into an error: a panic of this goroutine would end the process.
func recovered(read func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			caddy.Log().Error("panic while reading for several", zap.Any("panic", cause), zap.ByteString("stack", debug.Stack()))
			err = errRefreshFailed
		}
	}()
	return read()
}
