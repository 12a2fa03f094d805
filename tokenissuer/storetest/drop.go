package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// drop deletes everything that expired before the given time, and returns the number of calls. It ends the test when the store reports
// more for more calls than there are records.
func drop(t *testing.T, s store.Housekeeper, expiredBefore time.Time, records int) (calls int) {
	t.Helper()
	for calls = 1; ; calls++ {
		more := ok(s.Drop(t.Context(), store.ExpiringFamilies, expiredBefore))(t)
		if !more {
			return calls
		}
		if calls > records {
			t.Fatalf("after %d calls there may still be more than %d records", calls, records)
		}
	}
}

var dropChecks = []check{
	// Families that expired before the given time are deleted, whatever their state. The others are unchanged, because that is how a spent
	// code and a reused refresh token are recognised.
	{name: "DropFamilies", test: func(t *testing.T, s store.Store) {
		limit := now.Add(30 * time.Minute).Truncate(time.Millisecond)
		of := func(id string, expires time.Time) *store.TokenFamily {
			f := refreshed(id)
			f.ExpiresAt = expires
			return f
		}
		early, edge, late, endedLate := of("early", limit.Add(-time.Millisecond)), of("edge", limit), of("late", limit.Add(time.Hour)), of("ended late", limit.Add(time.Hour))
		spent, failed := family("spent"), family("failed")
		addFamilies(t, s.Families, early, edge, late, endedLate, of("ended early", now.Add(-time.Hour)), of("long gone", now.AddDate(-1, 0, 0)), spent, failed)
		must(t, redeem(t, s.Families, "spent", 1))
		must(t, s.Families.CountCodeFailure(t.Context(), "failed"))
		end(t, s.Families, store.FamilyFilter{ID: "ended early"})
		end(t, s.Families, store.FamilyFilter{ID: "ended late"})
		drop(t, s.Housekeeping, limit, 10)
		for _, id := range []string{"early", "ended early", "long gone"} {
			noFamily(t, s.Families, id)
		}
		redeemed(spent, 1)
		endedLate.RevokedAt, failed.Code.Failures = theEnd.At, 1
		wantFamilies(t, s.Families, edge, late, endedLate, spent, failed)
		mustBe(t, redeem(t, s.Families, "spent", 2), Refused(store.Replayed))
		mustBe(t, rotate(t, s.Families, "ended late", 1, store.Rotation{At: now}), Refused(store.Revoked))
		must(t, rotate(t, s.Families, "late", 1, store.Rotation{At: now}))
		wantSize(t, ok(s.Families.FamiliesOf(t.Context(), "ada", time.Time{}))(t), 4)
	}},
	// Access tokens outlive their family's record, and its revocation therefore does too. The end of a deleted family is still recorded.
	{name: "DropFamiliesKeepsRevocations", test: func(t *testing.T, s store.Store) {
		addFamilies(t, s.Families, family("ended"), family("not ended"))
		end(t, s.Families, store.FamilyFilter{ID: "ended"})
		drop(t, s.Housekeeping, now.AddDate(0, 1, 0), 10)
		noFamily(t, s.Families, "ended")
		same(t, recorded(t, s.Revocations)["family ended"], endOf("ended", theEnd.Until))
		sameRevocations(t, s, end(t, s.Families, store.FamilyFilter{ID: "not ended"}), "not ended")
		noFamily(t, s.Families, "not ended")
	}},
	// A decided request stays decided until it has expired, however it was decided, and is deleted some time after. An approved one is kept
	// at least as long as the family with its code.
	{name: "A63DropFamiliesForgetsRequests", test: func(t *testing.T, s store.Store) {
		early, late := now.Add(time.Hour), now.Add(100*time.Hour)
		approve := func(id string, expires time.Time) error {
			f := family(id + oauth.NewID())
			f.Code.RequestID, f.Code.ExpiresAt, f.ExpiresAt = id, expires, expires
			return Done(s.Families.AddFamily(t.Context(), f))
		}
		refuse := func(id string, expires time.Time) error {
			return Done(s.Families.DecideRequest(t.Context(), id, expires))
		}
		must(t, approve("approved early", early))
		must(t, approve("approved late", late))
		must(t, refuse("refused early", early))
		must(t, refuse("refused late", late))
		drop(t, s.Housekeeping, early, 10) // not before it
		for _, id := range []string{"approved early", "approved late", "refused early", "refused late"} {
			mustBe(t, refuse(id, late), Refused(store.Replayed))
		}
		drop(t, s.Housekeeping, now.Add(50*time.Hour), 10)
		for _, id := range []string{"approved late", "refused late"} {
			mustBe(t, refuse(id, late), Refused(store.Replayed))
			mustBe(t, approve(id, late), Refused(store.Replayed))
		}
		must(t, refuse("approved early", late))
		must(t, approve("refused early", late))
		mustBe(t, approve("approved early", late), Refused(store.Replayed))
		mustBe(t, refuse("refused early", late), Refused(store.Replayed))
	}},
	// A caller that continues as long as there may be more deletes everything in the end, families and requests, and nothing that lives.
	{name: "DropFamiliesBitByBit", races: func(t *testing.T, s store.Store) {
		const families, kept = 720, 240
		lives := func(n int) bool { return n%3 == 0 }
		each := func(step func(n int) error) {
			t.Helper()
			all(t, racers, func(i int) error {
				for n := i; n < families; n += racers {
					if err := step(n); err != nil {
						return fmt.Errorf("family %d: %w", n, err)
					}
				}
				return nil
			})
		}
		each(func(n int) error {
			f := family(fmt.Sprint("f", n))
			if f.ExpiresAt = now; lives(n) {
				f.ExpiresAt = now.Add(100 * time.Hour)
			}
			return Done(s.Families.AddFamily(t.Context(), f))
		})
		drop(t, s.Housekeeping, now.Add(50*time.Hour), 2*families)
		wantSize(t, ok(s.Families.FamiliesOf(t.Context(), "ada", time.Time{}))(t), kept)
		each(func(n int) error {
			err := Done(s.Families.DecideRequest(t.Context(), fmt.Sprint("request of f", n), now))
			if !lives(n) {
				return err
			}
			if !errors.Is(err, Refused(store.Replayed)) {
				return errors.New("its request was forgotten")
			}
			_, err = s.Families.Family(t.Context(), fmt.Sprint("f", n))
			return err
		})
	}},
	// A family that gets a later end while others are deleted exists or not, but is never redeemed and deleted.
	{name: "DropFamiliesBesideOthers", races: func(t *testing.T, s store.Store) {
		for round := range raceRounds {
			want := family(fmt.Sprint("f", round))
			addFamilies(t, s.Families, want)
			errs := race(2, func(i int) error {
				if i == 0 { // the code's end, before the refresh tokens'
					return errOf(s.Housekeeping.Drop(t.Context(), store.ExpiringFamilies, now.Add(2*time.Hour)))
				}
				return redeem(t, s.Families, want.ID, 1)
			})
			must(t, errs[0])
			if errs[1] == nil {
				wantFamilies(t, s.Families, redeemed(want, 1))
			} else {
				noFamily(t, s.Families, want.ID)
			}
		}
	}},
}
