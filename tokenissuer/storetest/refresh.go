package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var refreshChecks = []check{
	{name: "RotateRefreshToken", test: rotateRefreshToken},
	{name: "T134RotationThatEnds", test: rotationThatEnds},
	{name: "T84RotationOfAnotherGeneration", test: rotationOfAnotherGeneration},
	{name: "T87RotatedOnceInARace", beside: rotatedOnceInARace},
	{name: "T88RotationOfARevokedFamily", test: rotationOfARevokedFamily},
	{name: "TouchFamily", test: touchFamily},
	{name: "TouchFamilyInARace", test: touchFamilyInARace},
	{name: "A71TouchBesideTheEnd", beside: touchBesideTheEnd},
}

// rotateRefreshToken: each rotation advances the generation by one and sets its time, and changes nothing else, in this or any other
// family. It uses the caller's clock.
func rotateRefreshToken(t *testing.T, s store.Store) {
	coded, other := redeemed(family("coded"), 1), refreshed("other")
	addFamilies(t, s.Families, family("coded"), refreshed("f"), other)
	must(t, redeem(t, s.Families, "coded", 1))
	for _, want := range []*store.TokenFamily{refreshed("f"), coded} {
		for generation := range int64(20) {
			want.Refresh.Generation, want.Refresh.RotatedAt = generation+2, now.Add(time.Duration(generation%7)*time.Minute)
			want.Refresh.RotatedBy = fmt.Sprint("by ", generation)
			must(t, rotate(t, s.Families, want.ID, generation+1, store.Rotation{At: want.Refresh.RotatedAt, By: want.Refresh.RotatedBy}))
			sameFamily(t, readFamily(t, s.Families, want.ID), want)
		}
	}
	sameFamily(t, readFamily(t, s.Families, "other"), other)

	// The caller's clock decides whether a family has expired, because the caller may have cached another end.
	edge, expired := refreshed("edge"), refreshed("expired")
	edge.ExpiresAt, expired.ExpiresAt = now.Add(time.Microsecond), now
	addFamilies(t, s.Families, edge, expired)
	must(t, rotate(t, s.Families, "edge", 1, store.Rotation{At: now}))
	edge.Refresh.Generation, edge.Refresh.RotatedAt = 2, now
	sameFamily(t, readFamily(t, s.Families, "edge"), edge)
	mustBe(t, rotate(t, s.Families, "expired", 1, store.Rotation{At: now}), Refused(store.Expired))
	sameFamily(t, readFamily(t, s.Families, "expired"), expired)
}

// rotationThatEnds (T134): a rotation and the revocations in Ended are one step. A refused rotation records nothing.
func rotationThatEnds(t *testing.T, s store.Store) {
	addFamilies(t, s.Families, refreshed("f"))
	ended := func(id string) store.Rotation {
		return store.Rotation{At: now, By: "somebody", Ended: []store.Revocation{{
			Kind: store.RevokeToken, ID: id, IssuedUntil: now, ExpiresAt: now.Add(time.Hour),
		}}}
	}
	errs := race(racers, func(i int) error { return rotate(t, s.Families, "f", 1, ended(fmt.Sprint(i))) })
	oneWinner(t, errs, Refused(store.Replayed))
	all := recorded(t, s.Revocations)
	if len(all) != 1 {
		t.Fatalf("%d revocations were recorded, want 1", len(all))
	}
	for i, err := range errs {
		if want := ended(fmt.Sprint(i)).Ended[0]; err == nil {
			sameRevocation(t, all[name(want)], want)
		}
	}
	want := refreshed("f")
	want.Refresh.Generation, want.Refresh.RotatedAt, want.Refresh.RotatedBy = 2, now, "somebody"
	sameFamily(t, readFamily(t, s.Families, "f"), want)
}

// rotationOfAnotherGeneration (T84): a generation that was rotated before is Replayed, and one that was never issued is Missing. Neither
// changes anything.
func rotationOfAnotherGeneration(t *testing.T, s store.Store) {
	want := refreshed("f")
	addFamilies(t, s.Families, want)
	for want.Refresh.Generation < 5 {
		want.Refresh.RotatedAt = now.Add(time.Duration(want.Refresh.Generation) * time.Minute)
		must(t, rotate(t, s.Families, "f", want.Refresh.Generation, store.Rotation{At: want.Refresh.RotatedAt}))
		want.Refresh.Generation++
		for _, other := range []int64{-1, 0, 1, want.Refresh.Generation - 1, want.Refresh.Generation + 1, 1 << 40} {
			if other == want.Refresh.Generation {
				continue
			}
			refusal := store.Replayed
			if other > want.Refresh.Generation {
				refusal = store.Missing
			}
			mustBe(t, rotate(t, s.Families, "f", other, store.Rotation{At: now}), Refused(refusal))
			sameFamily(t, readFamily(t, s.Families, "f"), want)
		}
	}
}

// rotatedOnceInARace (T87): of 100 callers with one generation exactly one rotates it, generation after generation, on either of the
// stores of one place. The others get Replayed.
func rotatedOnceInARace(t *testing.T, a, b store.Store) {
	stores := []store.Store{a, b}
	const callers, rounds = 100, 8
	addFamilies(t, stores[0].Families, refreshed("f"))
	want := refreshed("f")
	for want.Refresh.Generation <= rounds {
		at := func(i int) time.Time {
			return now.Add(time.Duration(want.Refresh.Generation*callers+int64(i)) * time.Second)
		}
		errs := race(callers, func(i int) error {
			return rotate(t, stores[i%len(stores)].Families, "f", want.Refresh.Generation, store.Rotation{At: at(i)})
		})
		oneWinner(t, errs, Refused(store.Replayed))
		for i, err := range errs {
			if err == nil {
				want.Refresh.RotatedAt = at(i)
			}
		}
		want.Refresh.Generation++
		for _, s := range stores {
			sameFamily(t, readFamily(t, s.Families, "f"), want)
		}
	}
}

// rotationOfARevokedFamily (T88): no generation of a revoked family can be rotated, neither the newest nor an older one, and the family
// stays readable.
func rotationOfARevokedFamily(t *testing.T, s store.Store) {
	want := refreshed("f")
	addFamilies(t, s.Families, want)
	must(t, rotate(t, s.Families, "f", 1, store.Rotation{At: now}))
	_, err := s.Families.EndFamilies(t.Context(), store.FamilyFilter{ID: "f"}, theEnd)
	must(t, err)
	want.Refresh.Generation, want.Refresh.RotatedAt, want.RevokedAt = 2, now, theEnd.At
	for _, generation := range []int64{0, 1, 2} {
		mustBe(t, rotate(t, s.Families, "f", generation, store.Rotation{At: now.Add(time.Hour)}), Refused(store.Revoked))
		sameFamily(t, readFamily(t, s.Families, "f"), want)
	}
}

// touchFamily: it sets when a session was last used, never back, and nothing else. It returns Revoked if the session was revoked or does
// not exist.
func touchFamily(t *testing.T, s store.Store) {
	want, unseen := refreshed("f"), family("unseen")
	addFamilies(t, s.Families, want, unseen, family("other"))
	for _, minutes := range []int{1, 5, 3, 5, -60, 4, 6} {
		at := now.Add(time.Duration(minutes) * time.Minute)
		must(t, Done(s.Families.TouchFamily(t.Context(), "f", at)))
		if at.After(want.Refresh.RotatedAt) {
			want.Refresh.RotatedAt = at
		}
		sameFamily(t, readFamily(t, s.Families, "f"), want)
	}
	must(t, Done(s.Families.TouchFamily(t.Context(), "unseen", now)))
	unseen.Refresh.RotatedAt = now
	sameFamily(t, readFamily(t, s.Families, "unseen"), unseen)
	sameFamily(t, readFamily(t, s.Families, "other"), family("other"))

	_, err := s.Families.EndFamilies(t.Context(), store.FamilyFilter{ID: "f"}, theEnd)
	must(t, err)
	want.RevokedAt = theEnd.At
	for _, at := range []time.Time{now.Add(24 * time.Hour), now.Add(-24 * time.Hour)} {
		mustBe(t, Done(s.Families.TouchFamily(t.Context(), "f", at)), Refused(store.Revoked))
	}
	mustBe(t, Done(s.Families.TouchFamily(t.Context(), "nothing", now)), Refused(store.Revoked))
	sameFamily(t, readFamily(t, s.Families, "f"), want)
	noFamily(t, s.Families, "nothing")
}

// touchBesideTheEnd (A71): a session that was unused for days is touched while it is ended. A successful touch prolongs its revocation: a
// token issued now does not outlive it. Stores are two on one place, or one twice.
func touchBesideTheEnd(t *testing.T, ending, touching store.Store) {
	t.Helper()
	for round := range races(t, roundsBetween(ending, touching, raceRounds/4)) {
		want := refreshed(fmt.Sprint("f", round))
		want.TokenLifetime, want.Refresh.RotatedAt = 6*time.Hour, now.Add(-48*time.Hour)
		want.CreatedAt = want.Refresh.RotatedAt
		addFamilies(t, ending.Families, want)
		var ended []store.Revocation
		errs := race(2, func(i int) (err error) {
			if i == 0 {
				ended, err = ending.Families.EndFamilies(t.Context(), store.FamilyFilter{ID: want.ID}, theEnd)
				return err
			}
			return Done(touching.Families.TouchFamily(t.Context(), want.ID, now))
		})
		must(t, errs[0])
		if errs[1] == nil {
			want.Refresh.RotatedAt = now
		} else {
			mustBe(t, errs[1], Refused(store.Revoked))
		}
		if len(ended) != 1 {
			t.Fatalf("the end of one family returned %v", ended)
		}
		sameRevocation(t, ended[0], endOf(want.ID, want.RevokedUntil(theEnd)))
		want.RevokedAt = theEnd.At
		sameFamily(t, readFamily(t, touching.Families, want.ID), want)
		mustBe(t, Done(touching.Families.TouchFamily(t.Context(), want.ID, now.Add(time.Hour))), Refused(store.Revoked))
		if t.Failed() {
			return
		}
	}
}

// touchFamilyInARace: the latest time stays, in whatever order the calls arrive, and no concurrent rotation is lost.
func touchFamilyInARace(t *testing.T, s store.Store) {
	addFamilies(t, s.Families, refreshed("f"))
	for _, err := range race(racers, func(i int) error {
		if i == 0 {
			return rotate(t, s.Families, "f", 1, store.Rotation{At: now})
		}
		return Done(s.Families.TouchFamily(t.Context(), "f", now.Add(-time.Duration(i)*time.Second)))
	}) {
		must(t, err)
	}
	want := refreshed("f")
	want.Refresh.Generation, want.Refresh.RotatedAt = 2, now
	sameFamily(t, readFamily(t, s.Families, "f"), want)
	for _, err := range race(racers, func(i int) error {
		return Done(s.Families.TouchFamily(t.Context(), "f", now.Add(time.Duration(i)*time.Second)))
	}) {
		must(t, err)
	}
	want.Refresh.RotatedAt = now.Add((racers - 1) * time.Second)
	sameFamily(t, readFamily(t, s.Families, "f"), want)
}
