package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// lease ends the test unless asking for the task "sweeping" at that time succeeds or fails, as wanted.
func lease(t *testing.T, s store.Housekeeper, holder string, at time.Time, want bool) {
	t.Helper()
	held := ok(s.Lease(t.Context(), "sweeping", holder, at.Add(time.Minute), at))(t)
	if held != want {
		t.Fatalf("%s asked at %v and was told %v, want %v", holder, at.Sub(now), held, want)
	}
}

var sizeChecks = []check{{name: "Sizes", test: sizes}}

// sizes: small numbers are exact, and count only what callers have stored.
func sizes(t *testing.T, s store.Store) {
	want := func(want store.Sizes) {
		t.Helper()
		got := ok(s.Housekeeping.Sizes(t.Context()))(t)
		if got != want {
			t.Fatalf("the sizes are %+v, want %+v", got, want)
		}
	}
	want(store.Sizes{})
	for i := range 3 {
		must(t, s.Clients.AddClient(t.Context(), client(fmt.Sprint("app ", i))))
	}
	must(t, s.Users.AddOrganisation(t.Context(), organisation("acme")))
	must(t, s.Users.AddUser(t.Context(), user("ada"), false))
	addFamilies(t, s.Families, family("one"), family("two"))
	for i := range 4 {
		must(t, s.Revocations.Revoke(t.Context(), revocation(fmt.Sprint(i))))
	}
	requests := make(map[string]bool)
	for _, id := range []string{"one", "two"} {
		requests[family(id).Code.RequestID] = true
	}
	delete(requests, "")
	for i := range 5 {
		must(t, Done(s.Families.DecideRequest(t.Context(), fmt.Sprint("request ", i), now.Add(time.Hour))))
	}
	must(t, s.Mails.AddMail(t.Context(), mail("m"), manyMails))
	addAuditEvents(t, s.Audit, auditEvent(1), auditEvent(2))
	want(store.Sizes{Families: 2, Revocations: 4, Requests: int64(5 + len(requests)), Clients: 3, Users: 1, Mails: 1, AuditEvents: 2})
}

// onAttempts tests the counting of a store against the contract of a counter in memory.
func onAttempts(test func(*testing.T, store.AttemptCounter)) func(*testing.T, store.Store) {
	return func(t *testing.T, s store.Store) { test(t, storedAttempts{t, s.Attempts}) }
}

// storedAttempts is an AttemptCounter on an AttemptStore.
type storedAttempts struct {
	t     *testing.T
	store store.AttemptStore
}

func (a storedAttempts) count(bucket string, window time.Duration, now time.Time, by int) (int, time.Time) {
	a.t.Helper()
	n, until, err := a.store.CountAttempt(a.t.Context(), bucket, window, now, by)
	must(a.t, err)
	if n == 0 && !until.IsZero() {
		a.t.Fatalf("without a failure, bucket %.40q has a window until %v", bucket, until)
	}
	return n, until
}

// Failures reads the bucket without counting.
func (a storedAttempts) Failures(_ context.Context, bucket string, now time.Time) (int, time.Time) {
	return a.count(bucket, time.Minute, now, 0)
}

// Fail counts a failure.
func (a storedAttempts) Fail(_ context.Context, bucket string, window time.Duration, now time.Time) (int, time.Time) {
	return a.count(bucket, window, now, 1)
}

// Forgive takes one failure back.
func (a storedAttempts) Forgive(_ context.Context, bucket string, now time.Time) {
	a.count(bucket, time.Minute, now, -1)
}

var leaseChecks = []check{
	// The holder keeps the task by asking again. When the lease has expired, another holder can get it and keeps it from then on.
	{name: "Lease", test: func(t *testing.T, s store.Store) {
		lease(t, s.Housekeeping, "a", now, true)
		lease(t, s.Housekeeping, "b", now, false)
		lease(t, s.Housekeeping, "a", now.Add(30*time.Second), true) // until 90 s
		lease(t, s.Housekeeping, "b", now.Add(61*time.Second), false)
		lease(t, s.Housekeeping, "b", now.Add(90*time.Second-time.Microsecond), false)
		lease(t, s.Housekeeping, "b", now.Add(90*time.Second), true)
		lease(t, s.Housekeeping, "a", now.Add(91*time.Second), false)
		lease(t, s.Housekeeping, "a", now.Add(150*time.Second), true)
		lease(t, s.Housekeeping, "a", now.Add(time.Hour), true) // no other holder came
		// An end in the past releases the task.
		held, err := s.Housekeeping.Lease(t.Context(), "sweeping", "a", now.Add(time.Hour), now.Add(time.Hour))
		if must(t, err); !held {
			t.Fatal("the holder cannot give the task back")
		}
		lease(t, s.Housekeeping, "b", now.Add(time.Hour), true)
	}},
	// Leases of different tasks are independent, and names and holders are compared byte for byte.
	{name: "LeasesHaveNames", test: func(t *testing.T, s store.Store) {
		for i, name := range []string{"sweeping", "Sweeping", "sweeping ", "", "'", "caf\u00e9"} {
			for _, c := range []struct {
				holder string
				want   bool
			}{{fmt.Sprint("holder ", i), true}, {fmt.Sprint("Holder ", i), false}, {fmt.Sprint("holder ", i), true}} {
				held, err := s.Housekeeping.Lease(t.Context(), name, c.holder, now.Add(time.Minute), now)
				if must(t, err); held != c.want {
					t.Errorf("task %q for %q: %v, want %v", name, c.holder, held, c.want)
				}
			}
		}
	}},
	// Of many concurrent callers exactly one gets the task, the first time and whenever the lease has expired.
	{name: "LeasedOnceInARace", beside: func(t *testing.T, a, b store.Store) {
		nodes := []store.Store{a, b}
		for round := range 5 {
			var winners atomic.Int64
			at := now.Add(time.Duration(round) * time.Hour)
			all(t, racers, func(i int) error {
				held, err := nodes[i%len(nodes)].Housekeeping.Lease(t.Context(), "sweeping", fmt.Sprint(round, " ", i), at.Add(time.Minute), at)
				if held {
					winners.Add(1)
				}
				return err
			})
			if n := winners.Load(); n != 1 {
				t.Fatalf("round %d: %d callers got the task, want exactly one", round, n)
			}
		}
	}},
	// A caller that asks for a task with another holder does not get it, and does not take it from the holder.
	{name: "LeaseRenewedBesideOthers", races: func(t *testing.T, s store.Store) {
		lease(t, s.Housekeeping, "holder", now, true)
		all(t, racers, func(i int) error {
			holder := "holder"
			if i > 0 {
				holder = fmt.Sprint("other ", i)
			}
			held, err := s.Housekeeping.Lease(t.Context(), "sweeping", holder, now.Add(2*time.Minute), now.Add(time.Second))
			if err == nil && held != (i == 0) {
				err = fmt.Errorf("%s was told %v", holder, held)
			}
			return err
		})
	}},
}

var sharedAttemptChecks = []check{
	{name: "AttemptsWindowBeginsWithTheFirstFailure", test: onAttempts(attemptsWindow)},
	{name: "AttemptsBucketsAreBytes", test: onAttempts(attemptsBuckets)},
	{name: "AttemptsTimeIsTheCallers", test: onAttempts(attemptsTime)},
	{name: "AttemptsForgivesOne", test: onAttempts(attemptsForgiven)},
	// Of two hundred concurrent guesses, on any node, each gets a different number, and no more are checked than a limit allows.
	{name: "T73AttemptsInARace", beside: func(t *testing.T, a, b store.Store) {
		nodes := []store.Store{a, b}
		const guesses = 200
		told := make([]int, guesses)
		all(t, guesses, func(i int) error {
			n, until, err := nodes[i%len(nodes)].Attempts.CountAttempt(t.Context(), "account\x00ada@example.com", time.Minute, now, 1)
			if err == nil && !until.Equal(now.Add(time.Minute)) {
				err = fmt.Errorf("guess %d has a window until %v", i, until)
			}
			told[i] = n
			return err
		})
		slices.Sort(told)
		for i, n := range told {
			if n != i+1 {
				t.Fatalf("guess %d was told %d", i+1, n)
			}
		}
	}},
	// Neither a failure nor a call of Forgive is lost.
	{name: "AttemptsForgivenInARace", races: func(t *testing.T, s store.Store) {
		a := storedAttempts{t, s.Attempts}
		all(t, racers, func(int) error {
			for _, by := range []int{1, 1, -1} {
				if _, _, err := s.Attempts.CountAttempt(t.Context(), "b", time.Hour, now, by); err != nil {
					return err
				}
			}
			return nil
		})
		counted(t, a, "b", now, racers, now.Add(time.Hour))
	}},
	// Windows that ended before the given time are deleted, and others are unchanged.
	{name: "DropAttempts", test: func(t *testing.T, s store.Store) {
		a := storedAttempts{t, s.Attempts}
		end := now.Add(time.Minute)
		fail(t, a, "over", time.Second, now, 1, now.Add(time.Second))
		fail(t, a, "open", time.Minute, now, 1, end)
		more, err := s.Housekeeping.Drop(t.Context(), store.ExpiringAttempts, now.Add(30*time.Second))
		if must(t, err); more {
			t.Fatal("after two were looked at there may be more")
		}
		fail(t, a, "open", time.Minute, now.Add(31*time.Second), 2, end)
		more, err = s.Housekeeping.Drop(t.Context(), store.ExpiringAttempts, end)
		if must(t, err); more {
			t.Fatal("there may be more than none")
		}
		counted(t, a, "open", end.Add(-time.Microsecond), 2, end)
	}},
}
