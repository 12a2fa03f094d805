package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var refreshChecks = []check{
	// Each rotation advances the generation by one and sets its time, and changes nothing else, in this or any other family. It uses the
	// caller's clock.
	{name: "RotateRefreshToken", test: func(t *testing.T, s store.Store) {
		coded, other := redeemed(family("coded"), 1), refreshed("other")
		addFamilies(t, s.Families, family("coded"), refreshed("f"), other)
		must(t, redeem(t, s.Families, "coded", 1))
		for _, want := range []*store.TokenFamily{refreshed("f"), coded} {
			for generation := range int64(20) {
				want.Refresh.Generation, want.Refresh.RotatedAt = generation+2, now.Add(time.Duration(generation%7)*time.Minute)
				want.Refresh.RotatedBy = fmt.Sprint("by ", generation)
				must(t, rotate(t, s.Families, want.ID, generation+1, store.Rotation{At: want.Refresh.RotatedAt, By: want.Refresh.RotatedBy}))
				wantFamilies(t, s.Families, want)
			}
		}
		wantFamilies(t, s.Families, other)

		// The caller's clock decides whether a family has expired, because the caller may have cached another end.
		edge, expired := refreshed("edge"), refreshed("expired")
		edge.ExpiresAt, expired.ExpiresAt = now.Add(time.Microsecond), now
		addFamilies(t, s.Families, edge, expired)
		must(t, rotate(t, s.Families, "edge", 1, store.Rotation{At: now}))
		edge.Refresh.Generation, edge.Refresh.RotatedAt = 2, now
		wantFamilies(t, s.Families, edge)
		mustBe(t, rotate(t, s.Families, "expired", 1, store.Rotation{At: now}), Refused(store.Expired))
		wantFamilies(t, s.Families, expired)
	}},
	// A rotation and the revocations in Ended are one step. A refused rotation records nothing.
	{name: "T134RotationThatEnds", races: func(t *testing.T, s store.Store) {
		addFamilies(t, s.Families, refreshed("f"))
		ended := func(id string) store.Rotation {
			return store.Rotation{At: now, By: "somebody", Ended: []store.Revocation{{
				Kind: store.RevokeToken, ID: id, IssuedUntil: now, ExpiresAt: now.Add(time.Hour),
			}}}
		}
		errs := race(racers, func(i int) error { return rotate(t, s.Families, "f", 1, ended(fmt.Sprint(i))) })
		oneWinner(t, errs, Refused(store.Replayed))
		all := recorded(t, s.Revocations)
		wantSize(t, all, 1)
		for i, err := range errs {
			if want := ended(fmt.Sprint(i)).Ended[0]; err == nil {
				same(t, all[name(want)], want)
			}
		}
		want := with(refreshed("f"), func(f *store.TokenFamily) {
			f.Refresh.Generation, f.Refresh.RotatedAt, f.Refresh.RotatedBy = 2, now, "somebody"
		})
		wantFamilies(t, s.Families, want)
	}},
	// A generation that was rotated before is Replayed, and one that was never issued is Missing. Neither changes anything.
	{name: "T84RotationOfAnotherGeneration", test: func(t *testing.T, s store.Store) {
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
				wantFamilies(t, s.Families, want)
			}
		}
	}},
	// Of 100 callers with one generation exactly one rotates it, generation after generation, on either of the stores of one place. The
	// others get Replayed.
	{name: "T87RotatedOnceInARace", beside: func(t *testing.T, a, b store.Store) {
		stores := []store.Store{a, b}
		const callers, rounds = 100, 3
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
				wantFamilies(t, s.Families, want)
			}
		}
	}},
	// No generation of a revoked family can be rotated, neither the newest nor an older one, and the family stays readable.
	{name: "T88RotationOfARevokedFamily", test: func(t *testing.T, s store.Store) {
		want := refreshed("f")
		addFamilies(t, s.Families, want)
		must(t, rotate(t, s.Families, "f", 1, store.Rotation{At: now}))
		ok(s.Families.EndFamilies(t.Context(), store.FamilyFilter{ID: "f"}, theEnd))(t)
		want.Refresh.Generation, want.Refresh.RotatedAt, want.RevokedAt = 2, now, theEnd.At
		for _, generation := range []int64{0, 1, 2} {
			mustBe(t, rotate(t, s.Families, "f", generation, store.Rotation{At: now.Add(time.Hour)}), Refused(store.Revoked))
			wantFamilies(t, s.Families, want)
		}
	}},
	// A touch sets when a session was last used, never back, and nothing else. TouchFamily returns Revoked if the session was revoked or does
	// not exist.
	{name: "TouchFamily", test: func(t *testing.T, s store.Store) {
		want, unseen := refreshed("f"), family("unseen")
		addFamilies(t, s.Families, want, unseen, family("other"))
		for _, minutes := range []int{1, 5, 3, 5, -60, 4, 6} {
			at := now.Add(time.Duration(minutes) * time.Minute)
			must(t, Done(s.Families.TouchFamily(t.Context(), "f", at)))
			if at.After(want.Refresh.RotatedAt) {
				want.Refresh.RotatedAt = at
			}
			wantFamilies(t, s.Families, want)
		}
		must(t, Done(s.Families.TouchFamily(t.Context(), "unseen", now)))
		unseen.Refresh.RotatedAt = now
		wantFamilies(t, s.Families, unseen, family("other"))

		ok(s.Families.EndFamilies(t.Context(), store.FamilyFilter{ID: "f"}, theEnd))(t)
		want.RevokedAt = theEnd.At
		for _, at := range []time.Time{now.Add(24 * time.Hour), now.Add(-24 * time.Hour)} {
			mustBe(t, Done(s.Families.TouchFamily(t.Context(), "f", at)), Refused(store.Revoked))
		}
		mustBe(t, Done(s.Families.TouchFamily(t.Context(), "nothing", now)), Refused(store.Revoked))
		wantFamilies(t, s.Families, want)
		noFamily(t, s.Families, "nothing")
	}},
	// The latest time stays, in whatever order the calls arrive, and no concurrent rotation is lost.
	{name: "TouchFamilyInARace", races: func(t *testing.T, s store.Store) {
		addFamilies(t, s.Families, refreshed("f"))
		all(t, racers, func(i int) error {
			if i == 0 {
				return rotate(t, s.Families, "f", 1, store.Rotation{At: now})
			}
			return Done(s.Families.TouchFamily(t.Context(), "f", now.Add(-time.Duration(i)*time.Second)))
		})
		want := with(refreshed("f"), func(f *store.TokenFamily) { f.Refresh.Generation, f.Refresh.RotatedAt = 2, now })
		wantFamilies(t, s.Families, want)
		all(t, racers, func(i int) error {
			return Done(s.Families.TouchFamily(t.Context(), "f", now.Add(time.Duration(i)*time.Second)))
		})
		want.Refresh.RotatedAt = now.Add((racers - 1) * time.Second)
		wantFamilies(t, s.Families, want)
	}},
	// A session that was unused for days is touched while it is ended. A successful touch prolongs its revocation: a token issued now does
	// not outlive it.
	{name: "A71TouchBesideTheEnd", beside: func(t *testing.T, ending, touching store.Store) {
		for round := range raceRounds {
			want := refreshed(fmt.Sprint("f", round))
			want.TokenLifetime, want.Refresh.RotatedAt = 6*time.Hour, now.Add(-48*time.Hour)
			want.CreatedAt = want.Refresh.RotatedAt
			addFamilies(t, ending.Families, want)
			ended, touched := besideTheEnd(t, Refused(store.Revoked), func() ([]store.Revocation, error) {
				return ending.Families.EndFamilies(t.Context(), store.FamilyFilter{ID: want.ID}, theEnd)
			}, func() error { return Done(touching.Families.TouchFamily(t.Context(), want.ID, now)) })
			if touched[0] {
				want.Refresh.RotatedAt = now
			}
			wantSize(t, ended, 1)
			same(t, ended[0], endOf(want.ID, want.RevokedUntil(theEnd)))
			want.RevokedAt = theEnd.At
			wantFamilies(t, touching.Families, want)
			mustBe(t, Done(touching.Families.TouchFamily(t.Context(), want.ID, now.Add(time.Hour))), Refused(store.Revoked))
		}
	}},
}
