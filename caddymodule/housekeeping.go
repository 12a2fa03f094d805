package caddymodule

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

const (
	expireInterval = time.Minute
	// maxBatches is how many batches of families one round drops: a thousand each, in every minute, is more than a busy
	// issuer makes.
	maxBatches = 200
	// batchPause lets those who wait for the store in between two batches.
	batchPause = 20 * time.Millisecond
)

// clockMargin is how long a record is kept after no rule asks for it any more. A clock that jumped ahead and comes back
// must find it still there.
const clockMargin = 24 * time.Hour

// housekeep drops what no rule asks for any more until the engine is closed.
func (e *engine) housekeep(ctx context.Context) {
	expire := time.NewTicker(expireInterval)
	defer expire.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-expire.C:
			e.expire(ctx)
		}
	}
}

// expire drops revocations that can hit no token any more, and families of which no token lives.
func (e *engine) expire(ctx context.Context) {
	before := e.now().Add(-clockMargin)
	e.revocations.Expire(before)
	err := e.dropRevocations(ctx, before)
	if err == nil {
		err = e.dropFamilies(ctx, before.Add(-tokenissuer.MaxLifetime))
	}
	if err != nil && ctx.Err() == nil {
		e.log().Warn("dropping what has expired: trying again in a minute", zap.Error(err))
	}
}

func (e *engine) dropRevocations(ctx context.Context, before time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, feedTimeout)
	defer cancel()
	return e.store.DropRevocations(ctx, before)
}

// dropFamilies drops families in batches. The access tokens of a family may outlive it by as much as a token can live.
func (e *engine) dropFamilies(ctx context.Context, before time.Time) error {
	for range maxBatches {
		more, err := e.dropBatch(ctx, before)
		if err != nil || !more {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(batchPause):
		}
	}
	return nil
}

func (e *engine) dropBatch(ctx context.Context, before time.Time) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, feedTimeout)
	defer cancel()
	return e.store.DropFamilies(ctx, before)
}
