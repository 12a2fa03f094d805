package floodgate

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
)

// patience is how long a test waits for what must happen.
const patience = time.Minute

// alarm makes ada a source that floods beside somebody who passes.
func (s *scene) alarm() { s.fails(s.ada, 1000) }

// timers are turned by hand.
type timers struct {
	started atomic.Int64
	expire  chan time.Time
}

func (s *scene) handTimers() *timers {
	t := &timers{expire: make(chan time.Time)}
	s.timer = func(time.Duration) (<-chan time.Time, func() bool) {
		t.started.Add(1)
		return t.expire, func() bool { return true }
	}
	return t
}

// admission is the end of one call of Admit.
type admission struct {
	leave  func(bool)
	waited bool
	err    error
}

// admitted calls Admit aside, for a client that leaves when a test is out of patience.
func (s *scene) admitted(ctx context.Context, source Source) <-chan admission {
	done := make(chan admission, 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		leave, waited, err := s.Admit(ctx, source)
		done <- admission{leave, waited, err}
	}()
	return done
}

// mustAdmit calls Admit for one who must not wait.
func (s *scene) mustAdmit(t *testing.T, source Source) func(bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	leave, waited, err := s.Admit(ctx, source)
	if err != nil || waited {
		t.Fatalf("waited %v, %v", waited, err)
	}
	return leave
}

// TestTheSlowLane lets one through at a time whose source floods, and is not in the way of the others.
func TestTheSlowLane(t *testing.T) {
	s := newScene()
	s.handTimers() // whoever waits has all the time that this machine takes
	s.alarm()
	leave := s.mustAdmit(t, s.ada)
	second := s.admitted(t.Context(), s.ada)
	tokentest.Eventually(t, "the second waits", func() bool { return s.slow.waiting.Load() == 1 })
	s.mustAdmit(t, s.source("192.0.2.8"))(true) // nor does a flood of others' make this one wait
	select {
	case a := <-second:
		t.Fatalf("the second is let through beside the first: %+v", a)
	default:
	}
	leave(false)
	if a := <-second; a.err != nil || !a.waited {
		t.Errorf("%+v", a)
	} else {
		a.leave(true)
	}
	s.mustAdmit(t, s.ada)(true)
}

// TestTheFastLane is as wide as it is, and no wider.
func TestTheFastLane(t *testing.T) {
	s := newScene()
	s.handTimers()
	s.alarm()
	stranger := s.source("192.0.2.8")
	leave := func(bool) {}
	for range cap(s.fast.slots) {
		leave = s.mustAdmit(t, stranger)
	}
	next := s.admitted(t.Context(), stranger)
	tokentest.Eventually(t, "the next waits", func() bool { return s.fast.waiting.Load() == 1 })
	leave(true)
	if a := <-next; a.err != nil || !a.waited {
		t.Errorf("%+v", a)
	}
}

func TestAWaitIsBounded(t *testing.T) {
	s := newScene()
	hand := s.handTimers()
	s.alarm()
	leave := s.mustAdmit(t, s.ada)
	defer leave(true)
	late := s.admitted(t.Context(), s.ada)
	hand.expire <- time.Time{}
	if a := <-late; !errors.Is(a.err, ErrBusy) {
		t.Errorf("after the longest wait: %v", a.err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	gone := s.admitted(ctx, s.ada)
	cancel()
	if a := <-gone; !errors.Is(a.err, context.Canceled) {
		t.Errorf("a client that has left: %v", a.err)
	}
	s.slow.waiting.Store(maxQueue)
	if a := <-s.admitted(t.Context(), s.ada); !errors.Is(a.err, ErrBusy) {
		t.Errorf("with a full queue: %v", a.err)
	}
	if waiting := s.slow.waiting.Load(); waiting != maxQueue {
		t.Errorf("%d are counted", waiting)
	}
}

func TestLanesAreForFloods(t *testing.T) {
	s := newScene()
	s.alarm()
	s.wait(alarmed)
	for range 100 {
		s.Passed()
		s.mustAdmit(t, s.ada)
	}
}

func TestHold(t *testing.T) {
	s := newScene()
	hand := s.handTimers()
	hold := func(gone, released <-chan struct{}) <-chan bool {
		done := make(chan bool, 1)
		go func() { done <- s.Hold(time.Second, false, gone, released) }()
		return done
	}
	first := hold(nil, nil)
	hand.expire <- time.Time{}
	if !<-first {
		t.Error("the first was not held")
	}
	gone, released := make(chan struct{}), make(chan struct{})
	for i, end := range []chan struct{}{gone, released} {
		held := hold([]chan struct{}{gone, nil}[i], released)
		tokentest.Eventually(t, "it is held", func() bool { return hand.started.Load() == int64(i)+2 })
		select {
		case <-held:
			t.Error("it was not held back")
		default:
		}
		close(end)
		if !<-held {
			t.Error("it was not held")
		}
	}
	if s.Held() != 0 {
		t.Errorf("%d are held", s.Held())
	}
	s.held.Store(maxHeld)
	if <-hold(nil, nil) {
		t.Error("one more than may be is held")
	}
	if s.Held() != maxHeld {
		t.Errorf("%d are held", s.Held())
	}
}

// TestHoldFewThatAreDear: one that takes more than a place of its own is held only while few are.
func TestHoldFewThatAreDear(t *testing.T) {
	s := newScene()
	gone := make(chan struct{})
	close(gone)
	for held, want := range map[int64]bool{0: true, maxHeldDear - 1: true, maxHeldDear: false} {
		s.held.Store(held)
		if got := s.Hold(time.Hour, true, gone, nil); got != want || s.held.Load() != held {
			t.Errorf("beside %d others: %v, and then %d", held, got, s.held.Load())
		}
		if !s.Hold(time.Hour, false, gone, nil) {
			t.Errorf("beside %d others one that is not dear is not held", held)
		}
	}
}
