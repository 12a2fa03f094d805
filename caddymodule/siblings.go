package caddymodule

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

const (
	// tellPause is how long digests of signed tokens are collected, so that many make one voucher.
	tellPause = 100 * time.Millisecond
	// tellInterval is how often a node looks whether its siblings have to be greeted.
	tellInterval = time.Second
	// hearInterval is how often vouchers are read without a hint, and hearPause the least time between two reads.
	hearInterval = time.Second
	hearPause    = 50 * time.Millisecond
	// voucherTimeout bounds a step with them. While it lasts, what is signed is collected.
	voucherTimeout = 2 * time.Second
	// voucherRetention is how long the vouchers of a node stay that has gone. One that runs drops its own earlier.
	voucherRetention = 5 * time.Minute
)

// vouchers is how an engine stands to its siblings.
type vouchers struct {
	hinted   chan struct{}
	siblings atomic.Pointer[tokenissuer.Siblings] // nil: there can be none
}

// hint says that there may be something to read.
func (v *vouchers) hint() {
	select {
	case v.hinted <- struct{}{}:
	default: // one is waiting already
	}
}

// joinSiblings begins to pass on which tokens were signed, on a store that other nodes may share.
func (e *engine) joinSiblings() {
	if e.settings.store != storePostgres {
		return
	}
	s := &tokenissuer.Siblings{
		Store: e.store, Master: e.master, Issuer: e.settings.issuer, Node: tokenissuer.NewID(), Tokens: e.vouched, Now: e.time.Now,
		Warn: func(err error) {
			e.log().Error("a voucher for tokens is not taken: somebody may try to forge them. Their signatures are verified", zap.Error(err))
		},
	}
	e.vouchers.siblings.Store(s)
	e.runs.Go(func() { e.tellSiblings(e.life, s) })
	e.runs.Go(func() { e.hearSiblings(e.life, s) })
}

// tellSiblings writes what this node has signed until ctx ends. What cannot be written is lost: it is not worth a wait.
func (e *engine) tellSiblings(ctx context.Context, s *tokenissuer.Siblings) {
	greet := time.NewTicker(tellInterval)
	defer greet.Stop()
	for {
		_ = within(ctx, voucherTimeout, s.Tell) // the store's failures are counted where they happen
		select {
		case <-ctx.Done():
			return
		case <-greet.C:
		case <-s.Ready():
			rest(ctx, tellPause)
		}
	}
}

// hearSiblings reads what others have signed until ctx ends.
func (e *engine) hearSiblings(ctx context.Context, s *tokenissuer.Siblings) {
	poll := time.NewTicker(hearInterval)
	defer poll.Stop()
	for {
		if err := within(ctx, voucherTimeout, func(ctx context.Context) error {
			more, err := s.Hear(ctx)
			if more {
				e.vouchers.hint()
			}
			return err
		}); err == nil {
			rest(ctx, hearPause)
		}
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
		case <-e.vouchers.hinted:
		}
	}
}

// within bounds a step.
func within(ctx context.Context, timeout time.Duration, step func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return step(ctx)
}

// rest waits, or until ctx ends.
func rest(ctx context.Context, pause time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}
