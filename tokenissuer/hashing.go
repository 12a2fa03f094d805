package tokenissuer

import (
	"context"
	"runtime"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/fairqueue"
)

const (
	// hashPatience is how long a sign-in waits for its turn to hash.
	hashPatience = 100 * time.Millisecond
	// maxHashWaiting is how many sign-ins wait: more than the slots of any machine are through with in that time.
	maxHashWaiting = 1024
)

// Passwords hashes and verifies passwords, no more of them at once than it has slots, because each takes 20 MiB and
// 20 ms. The zero value is not usable; see NewPasswords.
type Passwords struct {
	slots int
	queue *fairqueue.Queue
}

// NewPasswords returns a Passwords with half as many slots as Go uses processors: while somebody guesses passwords, the
// other half serves everybody else.
func NewPasswords() *Passwords { return newPasswords(max(1, runtime.GOMAXPROCS(0)/2)) }

func newPasswords(slots int) *Passwords {
	return &Passwords{slots: slots, queue: fairqueue.New(slots, maxHashWaiting)}
}

// hasher is for whom a password is hashed. The zero value is the operator, whose turn is always next.
type hasher struct {
	account, address string
	// known: the browser has signed in to the account before.
	known bool
}

// enter takes a slot, and waits for one for a tenth of a second. The caller must give it back with leave.
func (p *Passwords) enter(ctx context.Context, h hasher) (leave func(), err error) {
	patience, cancel := context.WithTimeout(ctx, hashPatience)
	defer cancel()
	leave, err = p.queue.Enter(patience, p.shares(h)...)
	if err != nil {
		return nil, Unavailable(ReasonHashingBusy, err)
	}
	return leave, nil
}

// shares are what h takes turns by. The account comes first, because many people may sign in from one address; known browsers
// and strangers come last, and of those the fewer go first. So somebody who signs in once waits for the hash that is running and
// for nobody's queue, and in a browser that is known not for strangers either, however many accounts and addresses they have.
func (p *Passwords) shares(h hasher) []fairqueue.Share {
	if h == (hasher{}) {
		return nil
	}
	kind := "stranger"
	if h.known {
		kind = "known"
	}
	return []fairqueue.Share{
		{Name: kind + "\x00account\x00" + h.account, Most: 1},
		{Name: kind + "\x00address\x00" + h.address, Most: max(1, p.slots-1)},
		{Name: kind, Most: p.slots},
	}
}
