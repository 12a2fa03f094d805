package caddymodule

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const (
	expireInterval = time.Minute
	// maxBatches is how many batches of each kind one round drops. The store chooses how many records a batch has, from eight
	// to some hundred: in every minute that is more than a busy issuer makes.
	maxBatches = 8000
	// batchPause lets those who wait for the store in between two batches.
	batchPause = 5 * time.Millisecond

	// housekeepingLease is the name of the task, leaseLength how long a node has it that is not heard of again. A round ends
	// before its lease does.
	housekeepingLease = "housekeeping"
	leaseLength       = 2 * time.Minute
	maxRound          = 90 * time.Second

	// sizesInterval is how often the records are counted, sizesTimeout how long that may take.
	sizesInterval = 10 * time.Minute
	sizesTimeout  = 30 * time.Second
)

// clockMargin is how long a record is kept after no rule asks for it any more. A clock that jumped ahead and comes back
// must find it still there.
const clockMargin = 24 * time.Hour

// lease is what an engine knows of the housekeeping, which one of the nodes on a store does at a time.
type lease struct {
	holder string // this engine's name in leases

	mu      sync.Mutex
	leads   bool // this engine had the lease in the last round
	sizes   store.Sizes
	sizedAt time.Time // zero: never
}

func newLease() lease { return lease{holder: oauth.NewID()} }

// housekeep drops what no rule asks for any more until the engine is closed.
func (e *engine) housekeep(ctx context.Context) {
	expire := time.NewTicker(expireInterval)
	defer expire.Stop()
	e.expire(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-expire.C:
			e.expire(ctx)
		}
	}
}

// expire is one round: what is in memory goes on every node, what is in the store on the one that has the lease.
func (e *engine) expire(ctx context.Context) {
	e.revocations.Expire(e.earliest().Add(-clockMargin))
	round, cancel := context.WithTimeout(ctx, maxRound)
	defer cancel()
	leads, err := e.lead(round)
	if err == nil && leads {
		err = errors.Join(e.keepKeys(round), e.sweep(round), e.countRecords(ctx))
	}
	if err != nil && ctx.Err() == nil {
		e.log().Warn("housekeeping: trying again in a minute", zap.Error(err))
	}
}

// earliest is the earlier of this node's time and the store's. Families and keys were born by the store's clock, revocations
// by either: nothing goes before both say so.
func (e *engine) earliest() time.Time {
	shared, here := e.time.Now(), e.now()
	if here.Before(shared) {
		return here
	}
	return shared
}

// lead asks for the lease, and remembers whether this engine has it.
func (e *engine) lead(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, feedTimeout)
	defer cancel()
	now := e.time.Now()
	leads, err := e.store.Lease(ctx, housekeepingLease, e.lease.holder, now.Add(leaseLength), now)
	e.lease.mu.Lock()
	defer e.lease.mu.Unlock()
	e.lease.leads = leads
	return leads, err
}

// expired is a kind of records, and what of it goes.
type expired struct {
	drop   func(context.Context, time.Time) (more bool, err error)
	before time.Time
}

// sweep drops attempts whose window is over, revocations that can hit no token any more, and families of which no token
// lives: the access tokens of a family may outlive it by as much as a token can live.
func (e *engine) sweep(ctx context.Context) error {
	before := e.earliest().Add(-clockMargin)
	return dropInTurn(ctx, []expired{
		{e.store.DropAttempts, before},
		{e.store.DropRevocations, before},
		{e.store.DropFamilies, before.Add(-store.MaxLifetime)},
	})
}

// dropInTurn drops a batch of each kind in turn, until nothing is left or the round is over: the next one goes on. So a kind
// of which more comes than a round can drop keeps no other from its turn, and neither does one that fails.
func dropInTurn(ctx context.Context, kinds []expired) error {
	var failed error
	for range maxBatches {
		var left []expired
		for _, kind := range kinds {
			more, err := dropBatch(ctx, kind.drop, kind.before)
			if ctx.Err() != nil {
				return failed
			}
			failed = errors.Join(failed, err)
			if err != nil || !more {
				continue
			}
			left = append(left, kind)
			select {
			case <-ctx.Done():
			case <-time.After(batchPause):
			}
		}
		if kinds = left; len(kinds) == 0 {
			break
		}
	}
	return failed
}

func dropBatch(ctx context.Context, drop func(context.Context, time.Time) (bool, error), before time.Time) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, feedTimeout)
	defer cancel()
	return drop(ctx, before)
}

// countRecords learns now and then how many records the store holds.
func (e *engine) countRecords(ctx context.Context) error {
	now := e.now()
	if e.lease.countedSince(now.Add(-sizesInterval)) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, sizesTimeout)
	defer cancel()
	_, err := e.countNow(ctx)
	return err
}

// countNow asks the store how many records it holds.
func (e *engine) countNow(ctx context.Context) (store.Sizes, error) {
	st := e.opened()
	if st == nil {
		return store.Sizes{}, errAway
	}
	now := e.now()
	sizes, err := st.Sizes(ctx)
	if err == nil {
		e.lease.mu.Lock()
		defer e.lease.mu.Unlock()
		e.lease.sizes, e.lease.sizedAt = sizes, now
	}
	return sizes, err
}

func (k *lease) countedSince(then time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sizedAt.After(then)
}

// report reports whether this engine is the housekeeper, and if so how many records of each kind there were when they were
// counted last.
func (k *lease) report() (leads bool, stored map[string]int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.leads || k.sizedAt.IsZero() {
		return k.leads, nil
	}
	return true, byTable(k.sizes)
}

func byTable(sizes store.Sizes) map[string]int64 {
	return map[string]int64{
		"families": sizes.Families, "revocations": sizes.Revocations, "requests": sizes.Requests,
		"clients": sizes.Clients, "users": sizes.Users,
	}
}
