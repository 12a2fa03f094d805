package fairqueue

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// both returns the shares of an account and an address. The account may hold one slot at once, and the address two.
func both(account, address string) []Share {
	return []Share{{"account " + account, 1}, {"address " + address, 2}}
}

func hasBegun(t *turn) bool {
	if t.begin == nil {
		return true
	}
	select {
	case <-t.begin:
		return true
	default:
		return false
	}
}

// wantEmpty checks that the queue keeps no state of callers that have left.
func wantEmpty(t *testing.T, q *Queue, slots, places int) {
	t.Helper()
	if q.slots != slots || q.places != places || len(q.shares)+q.Waiting() != 0 {
		t.Errorf("left behind: %+v", q)
	}
}

func TestTheFewestAheadGoFirst(t *testing.T) {
	q := New(1, 100)
	names := make(map[*turn]string)
	arrive := func(account, address string) {
		names[q.arrive(both(account, address))] = account + address + strconv.Itoa(len(names))
	}
	arrive("x", "0")
	arrive("a", "1")
	arrive("a", "1") // one caller of its account ahead
	arrive("b", "1") // one caller of its address ahead
	arrive("c", "2")
	arrive("a", "3") // two callers of its account ahead
	arrive("d", "4")
	names[q.arrive(nil)] = "nobody"
	var order []string
	for range len(names) {
		for turn, name := range names {
			if hasBegun(turn) {
				order = append(order, name)
				delete(names, turn)
				q.leave(turn)
				break
			}
		}
	}
	if want := []string{"x00", "nobody", "a11", "c24", "d46", "b13", "a12", "a35"}; !slices.Equal(order, want) {
		t.Errorf("the order is %v, want %v", order, want)
	}
	wantEmpty(t, q, 1, 100)
}

// TestSharesAreBounded: no share holds more slots than it may, and a slot that it may not have goes to others.
func TestSharesAreBounded(t *testing.T) {
	q := New(4, 100)
	var turns []*turn
	wantBegun := func(want ...bool) {
		t.Helper()
		for i, turn := range turns {
			if hasBegun(turn) != want[i] {
				t.Errorf("turn %d has begun: %v", i, !want[i])
			}
		}
	}
	for _, claims := range [][]Share{both("a", "1"), both("a", "2"), both("b", "1"), both("c", "1"), both("d", "3")} {
		turns = append(turns, q.arrive(claims))
	}
	wantBegun(true, false, true, false, true)
	q.leave(turns[0]) // it blocked the second by its account, and the fourth by its address
	wantBegun(true, true, true, true, true)
}

// TestThereAreAlwaysPlacesForOthers: of a hundred places one share takes at most half, and less when others have taken some.
func TestThereAreAlwaysPlacesForOthers(t *testing.T) {
	q := New(1, 100)
	first := q.arrive([]Share{{"crowd", 1}})
	wait := func(name string) (n int) {
		for q.arrive([]Share{{name, 1}}) != nil {
			n++
		}
		return n
	}
	for i, want := range []int{50, 25, 13, 6, 3, 2, 1} {
		name := strconv.Itoa(i)
		if i == 0 {
			name, want = "crowd", want-1 // it holds the slot
		}
		if n := wait(name); n < want || n > want+1 {
			t.Errorf("crowd %d has %d places, want %d", i, n, want)
		}
	}
	if n := q.Waiting(); n > 100 {
		t.Errorf("%d wait", n)
	}
	if q.arrive(nil) == nil {
		t.Error("no place for one without a share")
	}
	if _, err := q.Enter(t.Context(), Share{"crowd", 1}); !errors.Is(err, ErrFull) {
		t.Errorf("error %v", err)
	}
	q.leave(first)
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	q := New(1, 10)
	leave, err := q.Enter(t.Context(), Share{"a", 1})
	if err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	if _, err := q.Enter(ctx, Share{"b", 1}); !errors.Is(err, enough) {
		t.Errorf("error %v", err)
	}
	leave()
	wantEmpty(t, q, 1, 10)
}

// TestManyAtOnce: every caller gets a slot, and never more than the slots at once.
func TestManyAtOnce(t *testing.T) {
	q := New(3, 1000)
	var mu sync.Mutex
	var holding, most int
	var crowd sync.WaitGroup
	for i := range 100 {
		crowd.Go(func() {
			leave, err := q.Enter(t.Context(), both(strconv.Itoa(i%7), strconv.Itoa(i%5))...)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			holding++
			most = max(most, holding)
			mu.Unlock()
			mu.Lock()
			holding--
			mu.Unlock()
			leave()
		})
	}
	crowd.Wait()
	if most > 3 {
		t.Errorf("%d held a slot at once", most)
	}
	wantEmpty(t, q, 3, 1000)
}

// BenchmarkLeave gives a slot to one of many waiting callers with different addresses.
func BenchmarkLeave(b *testing.B) {
	q := New(1, 8192)
	last := q.arrive(nil)
	var waiting []*turn
	for i := range 8192 {
		waiting = append(waiting, q.arrive([]Share{{strconv.Itoa(i), 32}}))
	}
	for i := 0; b.Loop(); i++ {
		q.leave(last)
		last = waiting[i%len(waiting)]
		waiting[i%len(waiting)] = q.arrive([]Share{{strconv.Itoa(8192 + i), 32}})
	}
}
