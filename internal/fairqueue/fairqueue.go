// Package fairqueue limits concurrency fairly: callers that share an account or an address with many others do not delay the rest.
package fairqueue

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// ErrFull means that too many callers wait.
var ErrFull = errors.New("too many wait already")

// Queue gives out slots. It is safe for concurrent use. The zero value is not usable; see New.
//
// Callers name the shares that their slot counts towards, such as an account and an address. The next slot goes to the caller that found
// the fewest others of its first share when it arrived, then of its second, and so on, and finally to the one that arrived first.
type Queue struct {
	// MaxWait is how long Enter waits at most; 0: until its context ends. It is set before use.
	MaxWait time.Duration

	mu            sync.Mutex
	slots, places int // free ones: to hold, and to wait in
	shares        map[string]*share
	waiting       []*turn // in the order of arrival
}

// Share is a group of callers that slots are counted by, such as an account or an address.
type Share struct {
	Name string
	// Most is the number of slots that it may hold at once.
	Most int
}

// share counts the turns that hold a slot, and those that hold one or wait.
type share struct{ holding, present int }

// turn is a slot, or the wait for it.
type turn struct {
	claims []Share
	shares []*share      // of the claims
	ahead  []int         // present in each of them on arrival
	begin  chan struct{} // closed when it has a slot; nil: it did not wait
}

// New returns a Queue with that many slots, in which at most that many callers wait.
func New(slots, places int) *Queue {
	return &Queue{slots: slots, places: places, shares: make(map[string]*share)}
}

// Enter waits for a slot until ctx ends, or for MaxWait. The caller must release the slot with leave. The error is ErrFull, the
// cause of ctx's end, or context.DeadlineExceeded.
//
// A caller waits only while each of its shares has fewer callers in the queue than there are free places: one share cannot take all of
// them. A caller without a share comes before all others, and may always wait.
func (q *Queue) Enter(ctx context.Context, claims ...Share) (leave func(), err error) {
	t := q.arrive(claims)
	if t == nil {
		return nil, ErrFull
	}
	leave = func() { q.leave(t) }
	if t.begin == nil {
		return leave, nil
	}
	if q.MaxWait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, q.MaxWait)
		defer cancel()
	}
	select {
	case <-t.begin:
	case <-ctx.Done():
		if q.giveUp(t) {
			return nil, context.Cause(ctx)
		}
	}
	return leave, nil
}

// Waiting returns the number of callers that wait.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// arrive returns nil if the caller must not wait.
func (q *Queue) arrive(claims []Share) *turn {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := &turn{claims: claims}
	for _, c := range claims {
		s := q.shares[c.Name]
		if s == nil {
			s = new(share)
		}
		t.shares, t.ahead = append(t.shares, s), append(t.ahead, s.present)
	}
	now := q.slots > 0 && t.mayBegin()
	if !now && slices.ContainsFunc(t.ahead, func(n int) bool { return n >= q.places }) {
		return nil
	}
	for i, s := range t.shares {
		s.present++
		q.shares[t.claims[i].Name] = s
	}
	if now { // no waiting caller could begin
		q.start(t)
		return t
	}
	t.begin = make(chan struct{})
	q.places--
	q.waiting = append(q.waiting, t)
	return t
}

// giveUp removes a turn from the queue, and reports whether it was still there.
func (q *Queue) giveUp(t *turn) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, t)
	if i < 0 {
		return false
	}
	q.unqueue(i)
	q.depart(t)
	return true
}

// leave releases the slot of a turn. Several turns may begin then: each of its shares may have blocked another.
func (q *Queue) leave(t *turn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.slots++
	for _, s := range t.shares {
		s.holding--
	}
	q.depart(t)
	for q.slots > 0 {
		next := -1
		for i, w := range q.waiting {
			if (next < 0 || slices.Compare(w.ahead, q.waiting[next].ahead) < 0) && w.mayBegin() {
				next = i
			}
		}
		if next < 0 {
			return
		}
		q.start(q.unqueue(next))
	}
}

func (q *Queue) start(t *turn) {
	q.slots--
	for _, s := range t.shares {
		s.holding++
	}
	if t.begin != nil {
		close(t.begin)
	}
}

func (q *Queue) unqueue(i int) *turn {
	t := q.waiting[i]
	q.waiting = slices.Delete(q.waiting, i, i+1)
	q.places++
	return t
}

// depart removes a turn from its shares, and deletes empty shares.
func (q *Queue) depart(t *turn) {
	for i, s := range t.shares {
		if s.present--; s.present == 0 {
			delete(q.shares, t.claims[i].Name)
		}
	}
}

// mayBegin reports whether all shares of a turn may have another slot.
func (t *turn) mayBegin() bool {
	for i, s := range t.shares {
		if s.holding >= t.claims[i].Most {
			return false
		}
	}
	return true
}
