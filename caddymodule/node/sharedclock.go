package node

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const (
	// maxSkew is how far a node's clock may be from the store's before somebody is told.
	maxSkew = store.Leeway
	// skewInterval is how often the two are compared.
	skewInterval = 10 * time.Second
	// skewPrecision is how long the store may take to tell the time: longer, and the answer says too little.
	skewPrecision = time.Second
)

// sharedClock is the store's time, the same on every node: codes, sessions and refresh tokens are judged by it, so that it
// does not matter on which node they were made. It never goes back: what has expired stays expired when somebody sets this
// node's clock back.
type sharedClock struct {
	now     func() time.Time // of this node
	machine func() time.Time // the machine's monotonic clock

	mu     sync.Mutex
	offset time.Duration // of the store's clock
	// told is what was answered last; zero: nothing since the clocks were compared. At is when that was, by the machine's
	// monotonic clock.
	told, at time.Time
	// compared is when the clocks were compared last, by the machine's monotonic clock; read is what this node's said then.
	compared, read time.Time
	alarmed        bool
}

// MonotonicClock is where a sharedClock has its monotonic clock from. Tests whose clock stands still stop it too.
var MonotonicClock = time.Now

func newSharedClock(now func() time.Time) *sharedClock {
	return &sharedClock{now: now, machine: MonotonicClock}
}

// Now returns the store's time.
func (c *sharedClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	told, at := c.now().Round(0).Add(c.offset), c.machine() // a wall time: Round takes the monotonic reading off
	if !c.told.IsZero() {
		// What has passed by the monotonic clock has passed, whatever was done to the wall clock.
		if least := c.told.Add(at.Sub(c.at)); told.Before(least) {
			told = least
		}
	}
	c.told, c.at = told, at
	return told
}

// isDue reports whether it is time to compare the clocks again: after a while, and at once when somebody has set this node's.
func (c *sharedClock) isDue() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	passed := c.machine().Sub(c.compared)
	jumped := c.now().Round(0).Sub(c.read) - passed
	return c.compared.IsZero() || passed >= skewInterval || jumped.Abs() > skewPrecision
}

// set takes over what the store said between two readings of this node's clock. It returns how far the store's clock is
// ahead, and whether that has become, or is no longer, too far.
func (c *sharedClock) set(before, store, after time.Time) (skew time.Duration, changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.compared, c.read = c.machine(), after.Round(0)
	if after.Sub(before).Abs() > skewPrecision {
		return c.offset, false
	}
	c.offset = store.Sub(before.Round(0).Add(after.Sub(before) / 2))
	c.told = time.Time{} // the store knows better
	was := c.alarmed
	c.alarmed = c.offset.Abs() > maxSkew
	return c.offset, was != c.alarmed
}

// skew is how far the store's clock is ahead of this node's.
func (c *sharedClock) skew() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.offset
}

// clocked is a store with a clock of its own; see sqlstore.Store.
type clocked interface {
	Clock(ctx context.Context) (time.Time, error)
}

// measureTime compares this node's clock with the store's now and then.
func (n *Node) measureTime(ctx context.Context, store store.Store) {
	source, ok := store.(clocked)
	if !ok || !n.time.isDue() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, feedTimeout)
	defer cancel()
	before := n.now()
	told, err := source.Clock(ctx)
	if err != nil || told.IsZero() {
		return
	}
	switch skew, changed := n.time.set(before, told, n.now()); {
	case changed && skew.Abs() > maxSkew:
		n.log().Error("this node's clock and the database's are too far apart: set them by NTP", zap.Duration("database_ahead", skew))
	case changed:
		n.log().Info("this node's clock and the database's agree again", zap.Duration("database_ahead", skew))
	}
}
