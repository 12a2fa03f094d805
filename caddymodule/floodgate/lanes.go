package floodgate

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

const (
	// maxQueue wait in a lane at once, each for lanePatience at most. A signature takes a tenth of a millisecond, so that the
	// queue is through in less.
	maxQueue    = 1024
	laneTimeout = 2 * time.Second
)

// ErrBusy means that the lane is full, or that waiting in it took too long.
var ErrBusy = errors.New("too many signatures wait to be verified")

// lane admits a few callers at a time, in order of arrival.
type lane struct {
	slots   chan struct{}
	waiting atomic.Int64
	leave   func(good bool)
}

func newLane(wide int) lane {
	slots := make(chan struct{}, wide)
	return lane{slots: slots, leave: func(bool) { <-slots }}
}

// Waiting returns the number of signatures that wait in the lanes.
func (g *Gate) Waiting() int {
	if g == nil {
		return 0
	}
	return int(g.fast.waiting.Load() + g.slow.waiting.Load())
}

// free is a no-op release.
func free(bool) {}

// Admit waits until a costly check for the source may begin, and returns a function to call when it is done. It waits
// only if there are both a flood and valid requests. Waited reports whether it did. The error is ErrBusy or the
// context's.
func (g *Gate) Admit(ctx context.Context, s Source) (leave func(good bool), waited bool, err error) {
	if g == nil {
		return free, false, nil
	}
	now := g.clock()
	if !g.pressed(now) {
		return free, false, nil
	}
	l := &g.fast
	if g.isOver(s, now) {
		l = &g.slow
	}
	select {
	case l.slots <- struct{}{}:
		return l.leave, false, nil
	default:
	}
	if err := l.wait(ctx, g.timer); err != nil {
		return nil, true, err
	}
	return l.leave, true, nil
}

func (l *lane) wait(ctx context.Context, timer func(time.Duration) (<-chan time.Time, func() bool)) error {
	if l.waiting.Add(1) > maxQueue {
		l.waiting.Add(-1)
		return ErrBusy
	}
	defer l.waiting.Add(-1)
	expired, stop := timer(laneTimeout)
	defer stop()
	select {
	case l.slots <- struct{}{}:
		return nil
	case <-expired:
		return ErrBusy
	case <-ctx.Done():
		return ctx.Err()
	}
}
