package node

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/auditlog"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const (
	expireInterval = time.Minute
	// maxBatches is how many batches of each kind one round drops. The store chooses the size of a batch, from eight to a few
	// hundred records, so that a round drops more than a busy issuer adds in a minute.
	maxBatches = 8000
	// batchPause between two batches lets requests use the store.
	batchPause = 5 * time.Millisecond

	// housekeepingLease is the name of the lease. leaseLength is how long a node keeps it after its last round; maxRound is
	// shorter, so that a round ends before its lease.
	housekeepingLease = "housekeeping"
	leaseLength       = 2 * time.Minute
	maxRound          = 90 * time.Second

	// sizesInterval is how often the records are counted, sizesTimeout how long that may take.
	sizesInterval = 10 * time.Minute
	sizesTimeout  = 30 * time.Second
)

// clockMargin is how long a record is kept after its expiry, in case a clock was ahead and is set back.
const clockMargin = 24 * time.Hour

// housekeeper drops expired records from the store, and counts the rest. Of the nodes that share a store, only the one with the lease does
// that.
type housekeeper struct {
	store  store.Housekeeper // set before the first round
	events store.AuditStore  // as well
	audit  *auditlog.Log
	clock  *sharedClock
	holder string // this node's name in leases

	mu        sync.Mutex
	leads     bool // this node had the lease in the last round
	rows      map[string]int64
	countedAt time.Time // zero: never
	// tooMany is the time before which there are more events of the audit log than are to be kept, as of askedAt.
	tooMany struct{ before, askedAt time.Time }
}

func newHousekeeper(clock *sharedClock, audit *auditlog.Log) *housekeeper {
	return &housekeeper{clock: clock, audit: audit, holder: oauth.NewID()}
}

// housekeep calls KeepHouse once a minute until ctx ends.
func (n *Node) housekeep(ctx context.Context) {
	expire := time.NewTicker(expireInterval)
	defer expire.Stop()
	for {
		if err := n.KeepHouse(ctx); err != nil && ctx.Err() == nil {
			log().Warn("housekeeping: trying again in a minute", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return
		case <-expire.C:
		}
	}
}

// KeepHouse is one round of housekeeping. Every node drops expired revocations from its memory. The node with the lease drops expired
// records from the store.
func (n *Node) KeepHouse(ctx context.Context) error {
	n.Revocations.Expire(n.clock.earliest().Add(-clockMargin))
	round, cancel := context.WithTimeout(ctx, maxRound)
	defer cancel()
	leads, err := n.housekeeper.lead(round)
	if err == nil && leads {
		err = errors.Join(n.keepKeys(round), n.housekeeper.sweep(round), n.housekeeper.countAgain(ctx))
	}
	return err
}

// lead acquires or renews the lease, and reports whether this node has it.
func (h *housekeeper) lead(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, feedTimeout)
	defer cancel()
	now := h.clock.Now()
	leads, err := h.store.Lease(ctx, housekeepingLease, h.holder, now.Add(leaseLength), now)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leads = leads
	return leads, err
}

// expired is a kind of records, and the time before which they are dropped.
type expired struct {
	kind   store.Expiring
	before time.Time
}

// sweep drops attempts whose window is over, revocations that no longer match a valid token, and families without a valid token: an
// access token may outlive its family by store.MaxLifetime.
func (h *housekeeper) sweep(ctx context.Context) error {
	before := h.clock.earliest().Add(-clockMargin)
	auditBefore, err := h.auditBefore(ctx)
	return errors.Join(err, h.dropInTurn(ctx, []expired{
		{store.ExpiringAttempts, before},
		{store.ExpiringRevocations, before},
		{store.ExpiringFamilies, before.Add(-store.MaxLifetime)},
		{store.ExpiringAuditEvents, auditBefore},
	}))
}

// auditBefore returns the time before which events of the audit log are dropped: they are too old, or too many.
func (h *housekeeper) auditBefore(ctx context.Context) (time.Time, error) {
	retention := h.audit.Retention()
	if retention.Keep == 0 {
		return h.clock.earliest().Add(-auditlog.LeftOverKeep), nil
	}
	tooMany, err := h.tooManyBefore(ctx, retention.MaxEvents)
	return later(h.clock.earliest().Add(-retention.Keep), tooMany), err
}

// tooManyBefore returns the time before which there are more events than that, as it was within sizesInterval.
func (h *housekeeper) tooManyBefore(ctx context.Context, events int) (time.Time, error) {
	now := h.clock.now()
	h.mu.Lock()
	before, asked := h.tooMany.before, h.tooMany.askedAt
	h.mu.Unlock()
	if now.Sub(asked).Abs() < sizesInterval {
		return before, nil
	}
	ctx, cancel := context.WithTimeout(ctx, sizesTimeout)
	defer cancel()
	newest, err := h.events.AuditEventsBeyond(ctx, events)
	if err != nil {
		return before, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tooMany.before, h.tooMany.askedAt = newest.Add(time.Microsecond), now
	return h.tooMany.before, nil
}

// dropInTurn drops a batch of each kind in turn, until nothing is left or the round is over. The next round continues. A kind that grows
// faster than it is dropped does not block the others, nor does one that fails.
func (h *housekeeper) dropInTurn(ctx context.Context, kinds []expired) error {
	var failed error
	for range maxBatches {
		var left []expired
		for _, kind := range kinds {
			more, err := h.dropBatch(ctx, kind)
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

func (h *housekeeper) dropBatch(ctx context.Context, e expired) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, feedTimeout)
	defer cancel()
	return h.store.Drop(ctx, e.kind, e.before)
}

// countAgain counts the records in the store, unless they were counted within sizesInterval.
func (h *housekeeper) countAgain(ctx context.Context) error {
	if h.countedSince(h.clock.now().Add(-sizesInterval)) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, sizesTimeout)
	defer cancel()
	_, err := h.count(ctx)
	return err
}

// CountRows asks the store for the number of records by table. Large numbers are estimates.
func (n *Node) CountRows(ctx context.Context) (map[string]int64, error) {
	if !n.IsOpen() {
		return nil, ErrAway
	}
	return n.housekeeper.count(ctx)
}

func (h *housekeeper) count(ctx context.Context) (map[string]int64, error) {
	now := h.clock.now()
	sizes, err := h.store.Sizes(ctx)
	if err != nil {
		return nil, err
	}
	rows := map[string]int64{
		"families": sizes.Families, "revocations": sizes.Revocations, "requests": sizes.Requests,
		"clients": sizes.Clients, "users": sizes.Users, "mails": sizes.Mails, "audit_events": sizes.AuditEvents,
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rows, h.countedAt = rows, now
	return rows, nil
}

func (h *housekeeper) countedSince(then time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.countedAt.After(then)
}

// report reports whether this node is the housekeeper, and if so the last count of the records.
func (h *housekeeper) report() (leads bool, stored map[string]int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.leads {
		return false, nil
	}
	return true, h.rows
}
