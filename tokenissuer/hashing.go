package tokenissuer

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

// hashPatience is how long a sign-in waits for its turn to hash.
const hashPatience = 100 * time.Millisecond

// Passwords hashes and verifies passwords, no more of them at once than it has slots, because each takes 20 MiB and
// 20 ms. The zero value is not usable; see NewPasswords.
//
// Slots are shared out fairly: one account hashes in one slot at a time, and one address leaves a slot to the others. Of
// those who wait, the one goes first that had the fewest others of its own account ahead of it, then of its address, so that
// somebody who signs in once waits for the hash that is running, and for nobody's queue.
type Passwords struct {
	mu      sync.Mutex
	slots   int
	waiting []*hashTurn // in the order of arrival
	// present counts those who hash or wait, by account and by address; hashing counts those who hash.
	present, hashing map[string]int
	taken            int
}

// NewPasswords returns a Passwords with half as many slots as Go uses processors: while somebody guesses passwords, the
// other half serves everybody else.
func NewPasswords() *Passwords { return newPasswords(max(1, runtime.GOMAXPROCS(0)/2)) }

func newPasswords(slots int) *Passwords {
	return &Passwords{slots: slots, present: make(map[string]int), hashing: make(map[string]int)}
}

// hasher is for whom a password is hashed. The zero value is the operator, whose turn is always next.
type hasher struct {
	account, address string
	// known: the browser has signed in to the account before. Those that have wait for each other alone, and not for
	// strangers who guess.
	known bool
}

// class is what h waits in turn with.
func (h hasher) class() string {
	if h.known {
		return "known\x00" + h.account
	}
	return "account\x00" + h.account
}

// hashTurn is the right to hash, or the wait for it.
type hashTurn struct {
	hasher
	// ahead is how many others were there when it came, of its class and then of its address. The class is compared first:
	// many people may sign in from one address.
	ahead []int
	begin chan struct{} // closed when the turn has come
}

// enter takes a slot, and waits for one for a tenth of a second. The caller must end a turn that it gets with leave.
func (p *Passwords) enter(ctx context.Context, h hasher) (*hashTurn, error) {
	t := p.arrive(h)
	patience, cancel := context.WithTimeout(ctx, hashPatience)
	defer cancel()
	select {
	case <-t.begin:
		return t, nil
	case <-patience.Done():
	}
	if p.giveUp(t) {
		return nil, Unavailable(ReasonHashingBusy, context.Cause(patience))
	}
	return t, nil // it came in this very moment
}

func (p *Passwords) arrive(h hasher) *hashTurn {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := &hashTurn{hasher: h, begin: make(chan struct{})}
	for _, name := range t.names() {
		t.ahead = append(t.ahead, p.present[name])
		p.present[name]++
	}
	p.waiting = append(p.waiting, t)
	p.admit()
	return t
}

// giveUp takes a turn that has not come out of the queue, and reports whether it did.
func (p *Passwords) giveUp(t *hashTurn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.waiting, t)
	if i < 0 {
		return false
	}
	p.waiting = slices.Delete(p.waiting, i, i+1)
	p.depart(t)
	return true
}

// leave ends a turn.
func (p *Passwords) leave(t *hashTurn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	for _, name := range t.capped() {
		decrement(p.hashing, name)
	}
	p.depart(t)
	p.admit()
}

func (p *Passwords) depart(t *hashTurn) {
	for _, name := range t.names() {
		decrement(p.present, name)
	}
}

// admit gives free slots away.
func (p *Passwords) admit() {
	for p.taken < p.slots {
		next := -1
		for i, t := range p.waiting {
			if p.mayHash(t) && (next < 0 || slices.Compare(t.ahead, p.waiting[next].ahead) < 0) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		t := p.waiting[next]
		p.waiting = slices.Delete(p.waiting, next, next+1)
		p.taken++
		for _, name := range t.capped() {
			p.hashing[name]++
		}
		close(t.begin)
	}
}

// mayHash reports whether t's account and address have not all slots that they may have.
func (p *Passwords) mayHash(t *hashTurn) bool {
	if t.hasher == (hasher{}) {
		return true
	}
	return p.hashing["account\x00"+t.account] == 0 && p.hashing["address\x00"+t.address] < max(1, p.slots-1)
}

// names are what t is counted under while it hashes or waits.
func (t *hashTurn) names() []string {
	if t.hasher == (hasher{}) {
		return nil
	}
	return []string{t.class(), "address\x00" + t.address}
}

// capped are what t is counted under while it hashes.
func (t *hashTurn) capped() []string {
	if t.hasher == (hasher{}) {
		return nil
	}
	return []string{"account\x00" + t.account, "address\x00" + t.address}
}

func decrement(counts map[string]int, name string) {
	if counts[name]--; counts[name] == 0 {
		delete(counts, name)
	}
}
