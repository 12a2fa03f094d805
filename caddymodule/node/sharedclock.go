package node

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const (
	// maxSkew is how far a node's clock may be from the store's before that is logged.
	maxSkew = store.Leeway
	// skewInterval is how often the two are compared.
	skewInterval = 10 * time.Second
	// skewPrecision bounds the time that the store may take to answer: a slower answer is too imprecise.
	skewPrecision = time.Second
)

// sharedClock is the store's time, the same on every node. It decides the expiry of codes, sessions and refresh tokens. It never goes back:
// what has expired stays expired if this node's clock is set back.
type sharedClock struct {
	now     func() time.Time // of this node
	machine func() time.Time // the machine's monotonic clock

	mu     sync.Mutex
	offset time.Duration // of the store's clock
	// told is the last result of Now since the clocks were compared; zero: none. at is the monotonic time of that call.
	told, at time.Time
	// compared is the monotonic time of the last comparison; read is this node's time then.
	compared, read time.Time
	alarmed        bool
}

// MonotonicClock is the monotonic clock of each sharedClock. Tests that replace Clock replace it too.
var MonotonicClock = time.Now

func newSharedClock(now func() time.Time) *sharedClock {
	return &sharedClock{now: now, machine: MonotonicClock}
}

// Now returns the store's time.
func (c *sharedClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	told, at := c.now().Round(0).Add(c.offset), c.machine() // Round removes the monotonic reading
	if !c.told.IsZero() {
		// At least as much time has passed as by the monotonic clock, even if the wall clock was set back.
		if least := c.told.Add(at.Sub(c.at)); told.Before(least) {
			told = least
		}
	}
	c.told, c.at = told, at
	return told
}

// isDue reports whether the clocks have to be compared again: after skewInterval, and when this node's clock was set.
func (c *sharedClock) isDue() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	passed := c.machine().Sub(c.compared)
	jumped := c.now().Round(0).Sub(c.read) - passed
	return c.compared.IsZero() || passed >= skewInterval || jumped.Abs() > skewPrecision
}

// set sets the offset from the store's time, which was read between the times before and after of this node's clock. It returns how far
// the store's clock is ahead, and whether that has crossed maxSkew.
func (c *sharedClock) set(before, store, after time.Time) (skew time.Duration, changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.compared, c.read = c.machine(), after.Round(0)
	if after.Sub(before).Abs() > skewPrecision {
		return c.offset, false
	}
	c.offset = store.Sub(before.Round(0).Add(after.Sub(before) / 2))
	c.told = time.Time{}
	was := c.alarmed
	c.alarmed = c.offset.Abs() > maxSkew
	return c.offset, was != c.alarmed
}

// skew returns how far the store's clock is ahead of this node's.
func (c *sharedClock) skew() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.offset
}

// earliest returns the earlier of this node's time and the store's. Families and keys have the store's time, revocations either: nothing is
// dropped before it has expired by both.
func (c *sharedClock) earliest() time.Time {
	shared, here := c.Now(), c.now()
	if here.Before(shared) {
		return here
	}
	return shared
}

// compare compares this node's clock with the store's if that is due, and logs when the skew crosses maxSkew.
func (c *sharedClock) compare(ctx context.Context, source *sqlstore.Store) {
	if !c.isDue() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, feedTimeout)
	defer cancel()
	before := c.now()
	told, err := source.Clock(ctx)
	if err != nil || told.IsZero() {
		return
	}
	switch skew, changed := c.set(before, told, c.now()); {
	case changed && skew.Abs() > maxSkew:
		log().Error("this node's clock and the database's are too far apart: set them by NTP", zap.Duration("database_ahead", skew))
	case changed:
		log().Info("this node's clock and the database's agree again", zap.Duration("database_ahead", skew))
	}
}
