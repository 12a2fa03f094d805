package storetest

import (
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var familyRaceChecks = []check{
	{name: "M28FamilyBornBesideAChange", beside: familyBornBesideAChange},
	{name: "M28FamilyBornBesideARemoval", beside: familyBornBesideARemoval},
	{name: "T89RotationBesideTheEnd", beside: rotationBesideTheEnd},
	{name: "T89RedemptionBesideTheEnd", test: redemptionBesideTheEnd},
}

const (
	// raceRounds is how often a race is run, because a store that uses two steps instead of one loses rarely.
	raceRounds = 1000
	// leastRounds is the minimum for a store that has not finished within raceTime. Where a step waits for a disk or a server, the gap
	// between two steps is also long.
	leastRounds = 100
	raceTime    = 5 * time.Second
)

// roundsBetween returns the number of rounds for two stores, which wait for each other's locks, or for one store that is both.
func roundsBetween(a, b store.Store, one int) int {
	if a.Connection == b.Connection {
		return one
	}
	return leastRounds
}

// races yields the rounds of a race, and logs their number if they were fewer than most.
func races(t *testing.T, most int) iter.Seq[int] {
	t.Helper()
	return func(yield func(round int) bool) {
		begun := time.Now()
		for round := range most {
			if round >= leastRounds && time.Since(begun) > raceTime {
				t.Logf("%d of %d rounds in %v", round, most, raceTime)
				return
			}
			if !yield(round) {
				return
			}
		}
	}
}

// watch runs end, which ends all families of a user at once, concurrently with readers. As soon as a reader sees that it has begun, by a
// family missing in the list or by begun, everything must have ended: no family lives, and the revocation of each is in the feed. The
// names of the families begin with the user's.
func watch(t *testing.T, s store.Store, user string, families int, end func() error, begun func() bool) []error {
	t.Helper()
	living := func() (int, error) {
		list, err := s.Families.FamiliesOf(t.Context(), user, time.Time{})
		return len(list), err
	}
	mustBeOver := func() error {
		if n, err := living(); err != nil || n != 0 {
			return fmt.Errorf("the end has begun, and %d families of %q live (%w)", n, user, err)
		}
		revoked, _, err := s.Revocations.Revocations(t.Context(), store.FeedPosition{})
		for i := range families {
			id := fmt.Sprint(user, " family ", i)
			if !slices.ContainsFunc(revoked, func(r store.Revocation) bool { return name(r) == "family "+id }) {
				return fmt.Errorf("the end has begun, and %q is not in the feed (%w)", id, err)
			}
		}
		return nil
	}
	var over atomic.Bool
	return race(3, func(i int) error {
		if i == 0 {
			defer over.Store(true)
			return end()
		}
		for !over.Load() && !begun() {
			n, err := living()
			if err != nil {
				return err
			}
			if n < families {
				break
			}
		}
		return mustBeOver()
	})
}

// bornBeside lets several callers add families of a user, one after the other, until they get UserChanged, while the user is ended.
// Refused families do not exist, added ones have ended with the user, and once the end is acknowledged none lives. Stores are two on one
// place, or one twice.
func bornBeside(t *testing.T, ending, adding store.Store, u *store.User, round string, end func() ([]store.Revocation, error)) {
	t.Helper()
	const callers = 3
	noneLives := func() error {
		list, err := ending.Families.FamiliesOf(t.Context(), u.ID, time.Time{})
		if len(list) != 0 {
			return fmt.Errorf("round %s: family %q lives after the end of its user", round, list[0].ID)
		}
		return err
	}
	var ended []store.Revocation
	var births [callers][]string
	var refused [callers]string
	errs := race(callers+1, func(i int) (err error) {
		if i == callers {
			if ended, err = end(); err != nil {
				return err
			}
			return noneLives()
		}
		for {
			id := fmt.Sprint(round, " ", i, " ", len(births[i]))
			if err := Done(adding.Families.AddFamily(t.Context(), familyOf(u, id))); err != nil {
				refused[i] = id
				return err
			}
			births[i] = append(births[i], id)
			if len(births[i])%8 == 0 {
				runtime.Gosched() // gives the end its turn on one processor, too
			}
		}
	})
	must(t, errs[callers])
	must(t, noneLives())
	for i, err := range errs[:callers] {
		mustBe(t, err, Refused(store.UserChanged))
		noFamily(t, ending.Families, refused[i])
	}
	born, revoked := slices.Concat(births[:]...), make([]string, 0, len(ended))
	for _, r := range ended {
		revoked = append(revoked, r.ID)
	}
	slices.Sort(born)
	if slices.Sort(revoked); !slices.Equal(revoked, born) {
		t.Fatalf("round %s: families %q were born, and %q ended", round, born, revoked)
	}
	for _, id := range born {
		if at := readFamily(t, ending.Families, id).RevokedAt; !sameTime(at, theEnd.At) {
			t.Fatalf("family %q has ended at %v, want %v", id, at, theEnd.At)
		}
	}
}

// familyBornBesideAChange (M28): a family of a user's old version that is added concurrently with a change does not outlive the change.
func familyBornBesideAChange(t *testing.T, ending, adding store.Store) {
	t.Helper()
	roles := store.RoleCatalogue{}.Names()
	var u *store.User
	for round := range races(t, roundsBetween(ending, adding, raceRounds)) {
		if round%25 == 0 { // before reading so many ended families takes longer than the race
			u = addUser(t, ending, user(fmt.Sprint("user ", round)))
		}
		bornBeside(t, ending, adding, u, fmt.Sprint(round), func() ([]store.Revocation, error) {
			return ending.Users.ChangeUser(t.Context(), u.ID, edit(func(u *store.User) { u.Role = roles[round%len(roles)] }), theEnd)
		})
		u = readUser(t, ending.Users, u.ID)
	}
}

// familyBornBesideARemoval (M28): a family added concurrently with the removal of its user does not outlive the removal.
func familyBornBesideARemoval(t *testing.T, ending, adding store.Store) {
	t.Helper()
	for round := range races(t, roundsBetween(ending, adding, raceRounds/3)) {
		u := addUser(t, ending, user(fmt.Sprint("user ", round)))
		bornBeside(t, ending, adding, u, fmt.Sprint(round), func() ([]store.Revocation, error) {
			return ending.Users.RemoveUser(t.Context(), u.ID, theEnd)
		})
	}
}

// rotationBesideTheEnd (T89): a family is rotated as fast as possible while it is ended. Once the end is acknowledged no rotation
// succeeds, and the record is that of the last one that did. Stores are two on one place, or one twice.
func rotationBesideTheEnd(t *testing.T, ending, rotating store.Store) {
	t.Helper()
	filters := []func(id string) store.FamilyFilter{
		func(id string) store.FamilyFilter { return store.FamilyFilter{ID: id} },
		func(id string) store.FamilyFilter { return store.FamilyFilter{UserID: "user of " + id} },
	}
	for round := range races(t, roundsBetween(ending, rotating, raceRounds)) {
		want := refreshed(fmt.Sprint("f", round))
		want.User.ID = "user of " + want.ID
		addFamilies(t, ending.Families, want)
		var acknowledged atomic.Bool
		errs := race(2, func(i int) error {
			if i == 0 {
				_, err := ending.Families.EndFamilies(t.Context(), filters[round%len(filters)](want.ID), theEnd)
				acknowledged.Store(true)
				return err
			}
			for {
				late := acknowledged.Load()
				at := now.Add(time.Duration(want.Refresh.Generation) * 10 * time.Millisecond) // far from the end of the family, even if rotating is fast
				if err := rotate(t, rotating.Families, want.ID, want.Refresh.Generation, store.Rotation{At: at}); err != nil {
					return err
				}
				if late {
					return errors.New("a family was rotated after its end was acknowledged")
				}
				want.Refresh.Generation, want.Refresh.RotatedAt = want.Refresh.Generation+1, at
				runtime.Gosched() // gives the end its turn on one processor, too
			}
		})
		must(t, errs[0])
		mustBe(t, errs[1], Refused(store.Revoked))
		want.RevokedAt = theEnd.At
		for _, s := range []store.Store{ending, rotating} {
			sameFamily(t, readFamily(t, s.Families, want.ID), want)
		}
		if t.Failed() {
			return
		}
	}
}

// redemptionBesideTheEnd (T89): a code is redeemed while its family is ended. In either order the family has ended afterwards, and no
// further step succeeds.
func redemptionBesideTheEnd(t *testing.T, s store.Store) {
	for round := range races(t, raceRounds/4) {
		want := family(fmt.Sprint("f", round))
		addFamilies(t, s.Families, want)
		errs := race(2, func(i int) error {
			if i == 0 {
				_, err := s.Families.EndFamilies(t.Context(), store.FamilyFilter{ID: want.ID}, theEnd)
				return err
			}
			return redeem(t, s.Families, want.ID, 1)
		})
		must(t, errs[0])
		refusal := store.Missing // there never was a refresh token
		if errs[1] == nil {
			redeemed(want, 1)
			refusal = store.Revoked
		} else {
			mustBe(t, errs[1], Refused(store.Revoked))
		}
		want.RevokedAt = theEnd.At
		sameFamily(t, readFamily(t, s.Families, want.ID), want)
		mustBe(t, rotate(t, s.Families, want.ID, 1, store.Rotation{At: now}), Refused(refusal))
		if t.Failed() {
			return
		}
	}
}
