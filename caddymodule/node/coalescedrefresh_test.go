package node

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestSharedReadingSeesWhatWasThereBefore: a read that began before a caller arrived may miss changes from before
// that moment. That caller gets a later read, together with all others that wait.
func TestSharedReadingSeesWhatWasThereBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s coalescedRefresh
		var state, readings atomic.Int64
		read := func(seen *int64) func() error {
			return func() error {
				readings.Add(1)
				*seen = state.Load()
				time.Sleep(time.Second)
				return nil
			}
		}
		var first int64
		var asking sync.WaitGroup
		asking.Go(func() { _ = s.do(t.Context(), read(&first)) })
		synctest.Wait()
		state.Store(1)
		var later int64
		const others = 20
		for range others {
			asking.Go(func() {
				if err := s.do(t.Context(), read(&later)); err != nil || atomic.LoadInt64(&later) != 1 {
					t.Errorf("%v: the state that was read is %d", err, atomic.LoadInt64(&later))
				}
			})
		}
		asking.Wait()
		synctest.Wait()
		if n := readings.Load(); n != 2 || first != 0 {
			t.Errorf("%d readings for %d who asked, the first one's state is %d", n, others+1, first)
		}
		if s.busy || s.next != nil {
			t.Error("somebody seems to read still")
		}
	})
}

// TestSharedReadingGoesOnWithoutThoseWhoLeft: the callers of a read disconnect, and so do those that wait for the
// next one.
func TestSharedReadingGoesOnWithoutThoseWhoLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s coalescedRefresh
		slow := func() error { time.Sleep(time.Second); return nil }
		hangsUp, cancel := context.WithCancel(t.Context())
		var asking sync.WaitGroup
		for range 2 {
			asking.Go(func() {
				if err := s.do(hangsUp, slow); !errors.Is(err, context.Canceled) {
					t.Errorf("who hangs up gets %v", err)
				}
			})
			synctest.Wait()
		}
		cancel()
		asking.Wait()
		ctx, done := context.WithTimeout(t.Context(), time.Minute)
		defer done()
		if err := s.do(ctx, func() error { return nil }); err != nil {
			t.Errorf("who comes later gets %v", err)
		}
	})
}

func TestSharedReadingTellsOfFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s coalescedRefresh
		fails := func() error { time.Sleep(time.Second); return errors.New("the store is gone") }
		var failed atomic.Int64
		var asking sync.WaitGroup
		for range 10 {
			asking.Go(func() {
				if s.do(t.Context(), fails) != nil {
					failed.Add(1)
				}
			})
		}
		asking.Wait()
		if n := failed.Load(); n != 10 {
			t.Errorf("%d of 10 learn of it", n)
		}
		if err := s.do(t.Context(), func() error { panic("broken") }); !errors.Is(err, errRefreshFailed) {
			t.Errorf("a panic is told as %v", err)
		}
		if err := s.do(t.Context(), func() error { return nil }); err != nil {
			t.Errorf("after a panic: %v", err)
		}
	})
}
