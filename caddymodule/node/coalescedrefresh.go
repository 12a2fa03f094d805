package node

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
)

// coalescedRefresh lets requests that all want the state of the moment in which they ask share the readings of it. Each gets
// the result of a reading that began after it had asked: who comes while one is under way waits for the next, with all
// others who do. One goroutine reads, for as long as somebody has asked for another reading. The zero value is ready.
type coalescedRefresh struct {
	mu    sync.Mutex
	busy  bool        // the goroutine is there
	comes *refreshRun // the one that has not begun; nil: nobody waits for one
}

// refreshRun is one that several wait for.
type refreshRun struct {
	read func() error
	done chan struct{}
	err  error // once it is done
}

// errRefreshFailed: the reading has panicked.
var errRefreshFailed = errors.New("the reading was broken off")

// do returns the result of a read that began after the call, or the error of ctx when that ends before. The read goes on
// then, since others wait for it: it must bound itself.
func (s *coalescedRefresh) do(ctx context.Context, read func() error) error {
	if err := ctx.Err(); err != nil {
		return err // nobody would wait
	}
	r := s.join(read)
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// join returns the reading that has not begun.
func (s *coalescedRefresh) join(read func() error) *refreshRun {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.comes == nil {
		s.comes = &refreshRun{read: read, done: make(chan struct{})}
	}
	if !s.busy {
		s.busy = true
		go s.run()
	}
	return s.comes
}

// run reads until nobody waits for another reading.
func (s *coalescedRefresh) run() {
	for {
		runtime.Gosched() // requests that are about to ask may share this one; without any nothing is waited for
		r := s.begin()
		if r == nil {
			return
		}
		r.err = unbroken(r.read)
		close(r.done)
	}
}

// begin lets nobody join any more. It returns nil when there is nothing to read.
func (s *coalescedRefresh) begin() *refreshRun {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.comes
	s.comes, s.busy = nil, r != nil
	return r
}

// unbroken turns a panic into an error: no request is there to break off in the reader's stead.
func unbroken(read func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			caddy.Log().Error("panic while reading for several", zap.Any("panic", cause), zap.ByteString("stack", debug.Stack()))
			err = errRefreshFailed
		}
	}()
	return read()
}
