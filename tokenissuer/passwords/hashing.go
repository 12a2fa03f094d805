package passwords

import (
	"context"
	"runtime"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/fairqueue"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

const (
	// hashTimeout is how long a sign-in waits for its turn to hash.
	hashTimeout = 100 * time.Millisecond
	// maxHashWaiting is how many sign-ins wait: more than the slots of any machine are through with in that time.
	maxHashWaiting = 1024
)

// Hasher says whose turn it is to hash a password, in order to set it or to verify it. No more are hashed at once than it has
// slots, because each takes 20 MiB and 20 ms. The zero value is not usable; see NewHasher.
type Hasher struct {
	slots int
	queue *fairqueue.Queue
}

// NewHasher returns a Hasher with half as many slots as Go uses processors: while somebody guesses passwords, the
// other half serves everybody else.
func NewHasher() *Hasher { return newHasher(max(1, runtime.GOMAXPROCS(0)/2)) }

func newHasher(slots int) *Hasher {
	return &Hasher{slots: slots, queue: fairqueue.New(slots, maxHashWaiting)}
}

// Attempt is for whom a password is hashed. The zero value is the operator, whose turn is always next.
type Attempt struct {
	Account, Address string
	// Known: the browser has signed in to the account before.
	Known bool
}

// Enter takes a slot, and waits for one for a tenth of a second. The caller must give it back with leave.
func (p *Hasher) Enter(ctx context.Context, h Attempt) (leave func(), err error) {
	patience, cancel := context.WithTimeout(ctx, hashTimeout)
	defer cancel()
	leave, err = p.queue.Enter(patience, p.shares(h)...)
	if err != nil {
		return nil, oauth.Unavailable(oauth.ReasonHashingBusy, err)
	}
	return leave, nil
}

// shares are what h takes turns by. The account comes first, because many people may sign in from one address; known browsers
// and strangers come last, and of those the fewer go first. So somebody who signs in once waits for the hash that is running and
// for nobody's queue, and in a browser that is known not for strangers either, however many accounts and addresses they have.
func (p *Hasher) shares(h Attempt) []fairqueue.Share {
	if h == (Attempt{}) {
		return nil
	}
	kind := "stranger"
	if h.Known {
		kind = "known"
	}
	return []fairqueue.Share{
		{Name: kind + "\x00account\x00" + h.Account, Most: 1},
		{Name: kind + "\x00address\x00" + h.Address, Most: max(1, p.slots-1)},
		{Name: kind, Most: p.slots},
	}
}
