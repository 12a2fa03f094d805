package caddymodule

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// startTimeout bounds how long a request waits for Start. Caddy starts apps in no order, so during a reload requests may arrive before the
// store is open, which takes milliseconds. Tests raise it to prove that a request does not wait.
var startTimeout = 2 * time.Second

// lifecycle is the state of a configuration between its Provision and its Stop. It is started once its issuer has its store. Then it
// serves, unless it is barred.
type lifecycle struct {
	ctx  context.Context // ends with Stop
	stop context.CancelFunc

	starting sync.Once
	started  chan struct{} // closed once the issuer has its store
	// away reports that the database could not be reached in Start: requests do not wait for it.
	away atomic.Bool
	// barred reports that declarations of the configuration contradict the store: nothing is served.
	barred atomic.Bool
}

func newLifecycle() *lifecycle {
	l := &lifecycle{started: make(chan struct{})}
	l.ctx, l.stop = context.WithCancel(context.Background())
	return l
}

// start calls prepare and then admits requests. Only the first call has an effect.
func (l *lifecycle) start(prepare func()) {
	l.starting.Do(func() {
		prepare()
		close(l.started)
	})
}

// hasStarted reports whether the issuer has its store.
func (l *lifecycle) hasStarted() bool {
	select {
	case <-l.started:
		return true
	default:
		return false
	}
}

// hasEnded reports whether another configuration has taken the place of this one.
func (l *lifecycle) hasEnded() bool { return l.ctx.Err() != nil }

// isServing reports whether requests are served. It waits up to startTimeout for the start. False means 503.
func (l *lifecycle) isServing(ctx context.Context) bool {
	switch {
	case l.barred.Load():
		return false
	case l.hasStarted():
		return true
	case l.away.Load():
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	select {
	case <-l.started:
		return true
	case <-ctx.Done():
		return false
	}
}
