package storetest

import (
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

var refreshChecks = []check{
	{"RotateRefreshToken", rotateRefreshToken},
	{"T84RotationOfAnotherGeneration", rotationOfAnotherGeneration},
	{"T87RotatedOnceInARace", func(t *testing.T, s tokenissuer.Store) { rotatedOnceInARace(t, s) }},
	{"T88RotationOfARevokedFamily", rotationOfARevokedFamily},
	{"TouchFamily", touchFamily},
	{"TouchFamilyInARace", touchFamilyInARace},
}

// rotateRefreshToken: each rotation moves the generation by one and sets when, and nothing else, in this family and in
// no other. It follows the caller's clock wherever that goes.
func rotateRefreshToken(t *testing.T, s tokenissuer.Store) {
	coded, other := redeemed(family("coded"), 1), refreshed("other")
	addFamilies(t, s, family("coded"), refreshed("f"), other)
	must(t, redeem(t, s, "coded", 1))
	for _, want := range []*tokenissuer.TokenFamily{refreshed("f"), coded} {
		for generation := range int64(20) {
			want.Generation, want.RotatedAt = generation+2, now.Add(time.Duration(generation%7)*time.Hour)
			must(t, s.RotateRefreshToken(t.Context(), want.ID, generation+1, want.RotatedAt))
			sameFamily(t, readFamily(t, s, want.ID), want)
		}
	}
	sameFamily(t, readFamily(t, s, "other"), other)

	// Whether a family has expired is the core's to know, by the core's clock.
	expired := refreshed("expired")
	expired.ExpiresAt = now.Add(-24 * time.Hour)
	addFamilies(t, s, expired)
	must(t, s.RotateRefreshToken(t.Context(), "expired", 1, now))
	expired.Generation, expired.RotatedAt = 2, now
	sameFamily(t, readFamily(t, s, "expired"), expired)
}

// rotationOfAnotherGeneration (T84): a generation that was rotated before, or never came to be, gets ErrSpent and
// changes nothing. The record tells the caller which generation is the newest.
func rotationOfAnotherGeneration(t *testing.T, s tokenissuer.Store) {
	want := refreshed("f")
	addFamilies(t, s, want)
	for want.Generation < 5 {
		want.RotatedAt = now.Add(time.Duration(want.Generation) * time.Minute)
		must(t, s.RotateRefreshToken(t.Context(), "f", want.Generation, want.RotatedAt))
		want.Generation++
		for _, other := range []int64{-1, 0, 1, want.Generation - 1, want.Generation + 1, 1 << 40} {
			if other == want.Generation {
				continue
			}
			mustBe(t, s.RotateRefreshToken(t.Context(), "f", other, now.Add(time.Hour)), tokenissuer.ErrSpent)
			sameFamily(t, readFamily(t, s, "f"), want)
		}
	}
}

// rotatedOnceInARace (T87): of 100 callers with one generation exactly one moves it, generation after generation,
// through whichever of the stores on one place is theirs. The others are told that it is spent.
func rotatedOnceInARace(t *testing.T, stores ...tokenissuer.Store) {
	t.Helper()
	const callers, rounds = 100, 8
	addFamilies(t, stores[0], refreshed("f"))
	want := refreshed("f")
	for want.Generation <= rounds {
		at := func(i int) time.Time { return now.Add(time.Duration(want.Generation*callers+int64(i)) * time.Second) }
		errs := race(callers, func(i int) error {
			return stores[i%len(stores)].RotateRefreshToken(t.Context(), "f", want.Generation, at(i))
		})
		oneWinner(t, errs, tokenissuer.ErrSpent)
		for i, err := range errs {
			if err == nil {
				want.RotatedAt = at(i)
			}
		}
		want.Generation++
		for _, s := range stores {
			sameFamily(t, readFamily(t, s, "f"), want)
		}
	}
}

// rotationOfARevokedFamily (T88): nothing moves a revoked family, neither its newest generation nor an older one, and
// it stays readable.
func rotationOfARevokedFamily(t *testing.T, s tokenissuer.Store) {
	want := refreshed("f")
	addFamilies(t, s, want)
	must(t, s.RotateRefreshToken(t.Context(), "f", 1, now))
	_, err := s.EndFamilies(t.Context(), tokenissuer.FamilyFilter{ID: "f"}, theEnd)
	must(t, err)
	want.Generation, want.RotatedAt, want.RevokedAt = 2, now, theEnd.At
	for _, generation := range []int64{0, 1, 2, 3} {
		mustBe(t, s.RotateRefreshToken(t.Context(), "f", generation, now.Add(time.Hour)), tokenissuer.ErrSpent)
		sameFamily(t, readFamily(t, s, "f"), want)
	}
}

// touchFamily: it sets when a session was last seen, never back and never of a revoked one, and nothing else.
func touchFamily(t *testing.T, s tokenissuer.Store) {
	want, unseen := refreshed("f"), family("unseen")
	addFamilies(t, s, want, unseen, family("other"))
	for _, minutes := range []int{1, 5, 3, 5, -60, 4, 6} {
		at := now.Add(time.Duration(minutes) * time.Minute)
		must(t, s.TouchFamily(t.Context(), "f", at))
		if at.After(want.RotatedAt) {
			want.RotatedAt = at
		}
		sameFamily(t, readFamily(t, s, "f"), want)
	}
	must(t, s.TouchFamily(t.Context(), "unseen", now))
	unseen.RotatedAt = now
	sameFamily(t, readFamily(t, s, "unseen"), unseen)
	sameFamily(t, readFamily(t, s, "other"), family("other"))

	_, err := s.EndFamilies(t.Context(), tokenissuer.FamilyFilter{ID: "f"}, theEnd)
	must(t, err)
	want.RevokedAt = theEnd.At
	must(t, s.TouchFamily(t.Context(), "f", now.Add(24*time.Hour)))
	sameFamily(t, readFamily(t, s, "f"), want)
}

// touchFamilyInARace: the latest time stays, whoever comes last, and no rotation is lost beside it.
func touchFamilyInARace(t *testing.T, s tokenissuer.Store) {
	addFamilies(t, s, refreshed("f"))
	for _, err := range race(racers, func(i int) error {
		if i == 0 {
			return s.RotateRefreshToken(t.Context(), "f", 1, now)
		}
		return s.TouchFamily(t.Context(), "f", now.Add(-time.Duration(i)*time.Second))
	}) {
		must(t, err)
	}
	want := refreshed("f")
	want.Generation, want.RotatedAt = 2, now
	sameFamily(t, readFamily(t, s, "f"), want)
	for _, err := range race(racers, func(i int) error {
		return s.TouchFamily(t.Context(), "f", now.Add(time.Duration(i)*time.Second))
	}) {
		must(t, err)
	}
	want.RotatedAt = now.Add((racers - 1) * time.Second)
	sameFamily(t, readFamily(t, s, "f"), want)
}
