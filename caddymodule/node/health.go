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
	// healthTTL is how long the result of a ping is reused, and healthTimeout bounds a ping.
	healthTTL     = time.Second
	healthTimeout = 2 * time.Second
)

// health is the result of the last ping of the store.
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

// Unreadiness lists the reasons why the node cannot serve, for operators. It returns none if the node is ready.
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
	// Revocations is the number in memory, and Staleness how long ago they were known to be complete; negative: never.
	Revocations int
	Staleness   time.Duration
	// Keys is the number of signing keys by state.
	Keys map[keys.State]int
	// Signing are the kids of the signing keys by algorithm; empty: there is none.
	Signing map[oauth.Algorithm]string
	// ClockSkew is how far the store's clock is ahead of this node's.
	ClockSkew time.Duration
	// Verified is the number of access tokens whose verification is cached.
	Verified int
	// Housekeeper reports that this node drops expired records from the store.
	Housekeeper bool
	// Rows is the last count of the records in the store, by table; nil: this node is not the housekeeper.
	Rows map[string]int64
}

// Status returns the state of the node. It does not ask the store.
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
