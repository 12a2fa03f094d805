package passwords

import (
	"context"
	"runtime"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/fairqueue"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/tracing"
)

// maxHashWaiting is the maximum number of waiting sign-ins: more than any machine can finish within Patience.
const maxHashWaiting = 1024

// Hasher limits concurrent password hashing, and schedules waiting sign-ins. Each hash takes 20 MiB and 20 ms. The zero value is not
// usable; see NewHasher.
type Hasher struct {
	// Patience is how long a sign-in waits for a slot. Default: 100 ms. It must not change after the first sign-in. A known browser waits
	// ten times as long: its turn comes after the running hash, which may take long on a slow machine.
	Patience time.Duration

	slots int
	queue *fairqueue.Queue
}

// NewHasher returns a Hasher with half as many slots as GOMAXPROCS, at least one, so that password guessing leaves the other half to other
// requests.
func NewHasher() *Hasher { return newHasher(max(1, runtime.GOMAXPROCS(0)/2)) }

func newHasher(slots int) *Hasher {
	return &Hasher{Patience: 100 * time.Millisecond, slots: slots, queue: fairqueue.New(slots, maxHashWaiting)}
}

// Attempt identifies the account and the client for which a password is hashed. The zero value stands for the operator, who has priority.
type Attempt struct {
	Account, Address string
	// Known reports that the browser has signed in to the account before.
	Known bool
	// Learns reports that a success replaces the hash, so that nobody waits for it again: a client with a secret that another server hashed.
	// It waits a hundred times as long as Patience, because the others of its address may come at the same moment.
	Learns bool
}

// Enter waits for a slot as long as Patience allows. The caller must release the slot by calling leave.
func (p *Hasher) Enter(ctx context.Context, h Attempt) (leave func(), err error) {
	patience := p.Patience
	switch {
	case h.Learns:
		patience *= 100
	case h.Known:
		patience *= 10
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, span := tracing.Start(ctx, "password", "hashing")
	release, err := p.queue.Enter(ctx, p.shares(h)...)
	if err != nil {
		err = oauth.ErrHashingBusy.WithCause(err)
		span.End(err)
		return nil, err
	}
	if !span.IsRecorded() {
		return release, nil
	}
	return func() { release(); span.End(nil) }, nil
}

// shares returns the shares by which the queue is fair. The account comes first, because many people may sign in from one address. The kind of
// caller comes last. So a single sign-in waits only for the running hash, and one in a known browser never waits for unknown ones or for
// clients.
func (p *Hasher) shares(h Attempt) []fairqueue.Share {
	if h == (Attempt{}) {
		return nil
	}
	kind := "stranger"
	switch {
	case h.Learns:
		kind = "client"
	case h.Known:
		kind = "known"
	}
	return []fairqueue.Share{
		{Name: kind + "\x00account\x00" + h.Account, Most: 1},
		{Name: kind + "\x00address\x00" + h.Address, Most: max(1, p.slots-1)},
		{Name: kind, Most: p.slots},
	}
}
