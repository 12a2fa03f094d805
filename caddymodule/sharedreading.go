package caddymodule

import (
	"context"
	"errors"
	"runtime"
	"sync"
)

// sharedReading lets requests that all want the state of the moment in which they ask share the readings of it. Each gets
// the result of a reading that began after it had asked: who comes while one is under way waits for the next, with all
// others who do. One of those who wait does the work. The zero value is ready.
type sharedReading struct {
	mu    sync.Mutex
	busy  bool     // somebody reads, or has the turn to
	comes *reading // the one that has not begun; nil: nobody waits for one
}

// reading is one that several wait for.
type reading struct {
	turn chan struct{} // for the one of them who reads
	done chan struct{}
	err  error // once it is done
}

// errReadingBroken: who read has panicked.
var errReadingBroken = errors.New("the reading was broken off")

// do returns the result of a read that began after the call, or the error of ctx when that ends before. A read goes on
// when the ctx of the one who does it ends, since others wait for it: it must bound itself.
func (s *sharedReading) do(ctx context.Context, read func() error) error {
	r := s.join()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err() // with the turn in its place, for whoever comes next
	case <-r.turn:
	}
	runtime.Gosched() // requests that are about to ask may share this one; without any nothing is waited for
	s.begin()
	r.err = errReadingBroken
	defer s.end(r)
	r.err = read()
	return r.err
}

// join returns the reading that has not begun.
func (s *sharedReading) join() *reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.comes == nil {
		s.comes = &reading{turn: make(chan struct{}, 1), done: make(chan struct{})}
		if !s.busy {
			s.busy = true
			s.comes.turn <- struct{}{}
		}
	}
	return s.comes
}

// begin lets nobody join any more.
func (s *sharedReading) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.comes = nil
}

// end tells those who wait, and gives the turn to one of those who came meanwhile.
func (s *sharedReading) end(r *reading) {
	close(r.done)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.comes == nil {
		s.busy = false
		return
	}
	s.comes.turn <- struct{}{}
}
