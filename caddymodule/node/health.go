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
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
)

const (
	// healthTTL is how long the store's last answer stands for the next one, and healthTimeout how long one may take.
	healthTTL     = time.Second
	healthTimeout = 2 * time.Second
)

// health is the store's last answer to whether it can be read and written.
type health struct {
	mu      sync.Mutex
	asked   time.Time // zero: never
	trouble error
}

var errNotOpen = errors.New("it is not open yet")

// ask returns why the store cannot be read or written, or nil. It asks the store once a second at most.
func (h *health) ask(store *sqlstore.Store, clock func() time.Time) error {
	if store == nil {
		return errNotOpen
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := clock()
	if age := now.Sub(h.asked); !h.asked.IsZero() && 0 <= age && age < healthTTL {
		return h.trouble
	}
	ctx, cancel := context.WithTimeout(context.Background(), healthTimeout)
	defer cancel()
	h.trouble = store.Ping(ctx)
	h.asked = clock()
	return h.trouble
}

// Unreadiness lists, for the operator, why nothing can be served. It returns nothing when the node is ready.
func (n *Node) Unreadiness() []string {
	var reasons []string
	if err := n.health.ask(n.Store(), n.clock.now); err != nil {
		reasons = append(reasons, fmt.Sprintf("store: %v", err))
	}
	switch err := n.Verifier.Ready(); {
	case err == nil:
	case oauth.AsError(err).Reason == "keys_not_loaded":
		reasons = append(reasons, "keys: none is loaded")
	default:
		reasons = append(reasons, fmt.Sprintf("revocations: last read %s, and max_staleness is %s", lastRead(n.Revocations.Age(n.Now())), n.settings.MaxStaleness))
	}
	return reasons
}

// lastRead words how long ago the revocations were complete.
func lastRead(age time.Duration) string {
	if age == math.MaxInt64 {
		return "never"
	}
	return age.String() + " ago"
}

// Status describes a node.
type Status struct {
	// Store is the kind of its store.
	Store string
	// Revocations are those in memory, Staleness is how long ago they were known to be complete; negative: never.
	Revocations int
	Staleness   time.Duration
	// Keys counts the signing keys.
	Keys map[keys.State]int
	// Signing are the kids of the keys that sign, by algorithm; empty: there is none.
	Signing map[oauth.Algorithm]string
	// ClockSkew is how far the store's clock is ahead of this node's.
	ClockSkew time.Duration
	// Verified is how many access tokens need no signature check any more.
	Verified int
	// Housekeeper: this node drops what has expired from the store.
	Housekeeper bool
	// Rows is how many records the store holds, by table, as the housekeeper counted last. Nil: this node does not know.
	Rows map[string]int64
}

// Status returns how the node stands, without a question to the store.
func (n *Node) Status() Status {
	s := Status{
		Store:       n.settings.Store,
		Revocations: n.Revocations.Len(), Staleness: n.Revocations.Age(n.Now()), Keys: n.keyring.states(), Signing: n.keyring.signing(), ClockSkew: n.clock.skew(),
		Verified: n.Verifier.Remembered(),
	}
	if s.Staleness == math.MaxInt64 {
		s.Staleness = -1
	}
	s.Housekeeper, s.Rows = n.housekeeper.report()
	return s
}
