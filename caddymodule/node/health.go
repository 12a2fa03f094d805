package node

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

const (
	// healthTTL is how long the store's last answer stands for the next one, and healthTimeout how long one may take.
	healthTTL     = time.Second
	healthTimeout = 2 * time.Second
)

// health is what the store answered when it was asked last whether it can be.
type health struct {
	mu      sync.Mutex
	asked   time.Time // zero: never
	trouble error
}

var errNotOpen = errors.New("it is not open yet")

// askStore says why the store cannot be asked or written to; nil: it can. However many ask, the store is asked once a second.
func (n *Node) askStore() error {
	store := n.Store()
	if store == nil {
		return errNotOpen
	}
	h := &n.health
	h.mu.Lock()
	defer h.mu.Unlock()
	now := n.now()
	if age := now.Sub(h.asked); !h.asked.IsZero() && 0 <= age && age < healthTTL {
		return h.trouble
	}
	ctx, cancel := context.WithTimeout(context.Background(), healthTimeout)
	defer cancel()
	h.trouble = store.Ping(ctx)
	h.asked = n.now()
	return h.trouble
}

// Unreadiness lists, for the operator, why nothing can be served; none: it can.
func (n *Node) Unreadiness() []string {
	var reasons []string
	if err := n.askStore(); err != nil {
		reasons = append(reasons, fmt.Sprintf("store: %v", err))
	}
	switch err := n.Verifier.Ready(); {
	case err == nil:
	case oauth.AsError(err).Reason == "keys_not_loaded":
		reasons = append(reasons, "keys: none is loaded")
	default:
		reasons = append(reasons, fmt.Sprintf("revocations: last read %s, and max_staleness is %s", n.lastRead(), n.settings.MaxStaleness))
	}
	return reasons
}

// lastRead says when the knowledge of revocations was complete.
func (n *Node) lastRead() string {
	age := n.Revocations.Age(n.now())
	if age == math.MaxInt64 {
		return "never"
	}
	return age.String() + " ago"
}

// Status is how a node stands.
type Status struct {
	// Store is the kind of its store.
	Store string
	// Revocations are those in memory, Staleness is how long ago they were known to be complete; negative: never.
	Revocations int
	Staleness   time.Duration
	// Keys counts the signing keys.
	Keys map[keys.State]int
	// ClockSkew is how far the store's clock is ahead of this node's.
	ClockSkew time.Duration
	// Verified is how many access tokens need no signature check any more.
	Verified int
	// Housekeeper: this node drops what has expired from the store.
	Housekeeper bool
	// Rows is how many records the store holds, by table, as the housekeeper counted last. Nil: this node does not know.
	Rows map[string]int64
}

// Status tells how the node stands, without a question to the store.
func (n *Node) Status() Status {
	s := Status{
		Store:       n.settings.Store,
		Revocations: n.Revocations.Len(), Staleness: n.Revocations.Age(n.now()), Keys: n.keyStates(), ClockSkew: n.time.skew(),
		Verified: n.Verifier.Remembered(),
	}
	if s.Staleness == math.MaxInt64 {
		s.Staleness = -1
	}
	s.Housekeeper, s.Rows = n.lease.report()
	return s
}

// keyStates counts the signing keys that this node has, and the stored ones that it refuses.
func (n *Node) keyStates() map[keys.State]int {
	now := n.time.Now()
	states := map[keys.State]int{keys.StatePublished: 0, keys.StateSigning: 0, keys.StateSuperseded: 0}
	states[keys.StateRefused] = int(n.keyring.refused.Load())
	signing, err := n.Keys.Signing(now)
	for _, key := range n.Keys.List() {
		switch {
		case err == nil && key.ID == signing.ID:
			states[keys.StateSigning]++
		case key.ActiveFrom.After(now):
			states[keys.StatePublished]++
		default:
			states[keys.StateSuperseded]++
		}
	}
	return states
}
