package node

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

// lease is what a node knows of the housekeeping, which one of the nodes on a store does at a time.
type lease struct {
	holder string // this node's name in leases

	mu        sync.Mutex
	leads     bool // this node had the lease in the last round
	rows      map[string]int64
	countedAt time.Time // zero: never
}

func newLease() lease { return lease{holder: oauth.NewID()} }

// housekeep drops what no rule asks for any more until the node is closed.
func (n *Node) housekeep(ctx context.Context) {
	expire := time.NewTicker(expireInterval)
	defer expire.Stop()
	for {
		if err := n.KeepHouse(ctx); err != nil && ctx.Err() == nil {
			n.log().Warn("housekeeping: trying again in a minute", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return
		case <-expire.C:
		}
	}
}

// KeepHouse is one round of housekeeping: what is in memory goes on every node, what is in the store on the one that has the
// lease.
func (n *Node) KeepHouse(ctx context.Context) error {
	n.Revocations.Expire(n.earliest().Add(-clockMargin))
	round, cancel := context.WithTimeout(ctx, maxRound)
	defer cancel()
	leads, err := n.lead(round)
	if err == nil && leads {
		err = errors.Join(n.keepKeys(round), n.sweep(round), n.countRecords(ctx))
	}
	return err
}

// earliest is the earlier of this node's time and the store's. Families and keys were born by the store's clock, revocations
// by either: nothing goes before both say so.
func (n *Node) earliest() time.Time {
	shared, here := n.time.Now(), n.now()
	if here.Before(shared) {
		return here
	}
	return shared
}

// lead asks for the lease, and remembers whether this node has it.
func (n *Node) lead(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, feedTimeout)
	defer cancel()
	now := n.time.Now()
	leads, err := n.store.Lease(ctx, housekeepingLease, n.lease.holder, now.Add(leaseLength), now)
	n.lease.mu.Lock()
	defer n.lease.mu.Unlock()
	n.lease.leads = leads
	return leads, err
}

// expired is a kind of records, and what of it goes.
type expired struct {
	drop   func(context.Context, time.Time) (more bool, err error)
	before time.Time
}

// sweep drops attempts whose window is over, revocations that can hit no token any more, and families of which no token
// lives: the access tokens of a family may outlive it by as much as a token can live.
func (n *Node) sweep(ctx context.Context) error {
	before := n.earliest().Add(-clockMargin)
	return dropInTurn(ctx, []expired{
		{n.store.DropAttempts, before},
		{n.store.DropRevocations, before},
		{n.store.DropFamilies, before.Add(-store.MaxLifetime)},
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
func (n *Node) countRecords(ctx context.Context) error {
	now := n.now()
	if n.lease.countedSince(now.Add(-sizesInterval)) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, sizesTimeout)
	defer cancel()
	_, err := n.CountRows(ctx)
	return err
}

// CountRows asks the store how many records it holds, by table. Large numbers are estimates.
func (n *Node) CountRows(ctx context.Context) (map[string]int64, error) {
	st := n.Store()
	if st == nil {
		return nil, ErrAway
	}
	now := n.now()
	sizes, err := st.Sizes(ctx)
	if err != nil {
		return nil, err
	}
	rows := map[string]int64{
		"families": sizes.Families, "revocations": sizes.Revocations, "requests": sizes.Requests,
		"clients": sizes.Clients, "users": sizes.Users,
	}
	n.lease.mu.Lock()
	defer n.lease.mu.Unlock()
	n.lease.rows, n.lease.countedAt = rows, now
	return rows, nil
}

func (k *lease) countedSince(then time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.countedAt.After(then)
}

// report reports whether this node is the housekeeper, and if so how many records of each kind there were when they were
// counted last.
func (k *lease) report() (leads bool, stored map[string]int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.leads {
		return false, nil
	}
	return true, k.rows
}
