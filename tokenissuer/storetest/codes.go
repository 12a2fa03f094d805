package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var codeChecks = []check{
	{name: "RedeemCode", test: redeemCode},
	{name: "T49CodeRedeemedAgain", test: codeRedeemedAgain},
	{name: "T51CodeRedeemedOnceInARace", test: codeRedeemedOnceInARace},
	{name: "T52ManyCodesInARace", beside: manyCodesInARace},
	{name: "RedeemCodeNeverHad", test: redeemCodeNeverHad},
	{name: "RedeemCodeOfARevokedFamily", test: redeemCodeOfARevokedFamily},
	{name: "T103CodeFailuresReachTheLimit", test: codeFailuresReachTheLimit},
	{name: "T103CodeFailuresInARace", test: codeFailuresInARace},
	{name: "A63RequestDecidedOnce", test: requestDecidedOnce},
	{name: "A63RequestDecidedOnceInARace", test: requestDecidedOnceInARace},
	{name: "RequestNamesAreBytes", test: requestNamesAreBytes},
	{name: "RefusalsTell", test: refusalsTell},
}

// maxFailures is how many wrong verifiers these tests allow for a code.
const maxFailures = 5

// redeem redeems the code of a family as the n-th caller, who can be identified by all values that it sets.
func redeem(t *testing.T, s store.FamilyStore, id string, n int) error {
	f := redeemed(&store.TokenFamily{}, n)
	return use(t.Context(), s, id, store.Redemption{At: f.Refresh.RotatedAt, Generation: f.Refresh.Generation, ExpiresAt: f.ExpiresAt, MaxFailures: maxFailures})
}

// redeemed returns the family as the n-th caller leaves it.
func redeemed(f *store.TokenFamily, n int) *store.TokenFamily {
	at := now.Add(time.Duration(n) * time.Second)
	f.Code.SpentAt, f.Refresh.RotatedAt, f.Refresh.Generation, f.ExpiresAt = at, at, int64(n), now.AddDate(0, 3, n)
	return f
}

// redeemCode: the four members that it sets change and no other, and no other family does. Generation 0 is valid: the exchange issued no
// refresh token.
func redeemCode(t *testing.T, s store.Store) {
	addFamilies(t, s.Families, family("f"), family("other"), family("not refreshable"))
	must(t, redeem(t, s.Families, "f", 1))
	sameFamily(t, readFamily(t, s.Families, "f"), redeemed(family("f"), 1))
	must(t, redeem(t, s.Families, "not refreshable", 0))
	sameFamily(t, readFamily(t, s.Families, "not refreshable"), redeemed(family("not refreshable"), 0))
	sameFamily(t, readFamily(t, s.Families, "other"), family("other"))

	// A code is valid whatever it is bound to, even without a request.
	bound := family("bound to little")
	bound.Code = store.CodeBinding{RedirectURI: "https://app.example/", ExpiresAt: now.Add(time.Minute)}
	addFamilies(t, s.Families, bound)
	must(t, redeem(t, s.Families, bound.ID, 2))
	sameFamily(t, readFamily(t, s.Families, bound.ID), redeemed(bound, 2))

	// The caller's clock decides whether a code has expired, because the caller may have cached another end. The end exactly is in time.
	edge, expired := family("edge"), family("expired")
	edge.Code.ExpiresAt = now.Add(3 * time.Second)
	expired.Code.ExpiresAt = edge.Code.ExpiresAt.Add(-time.Microsecond)
	addFamilies(t, s.Families, edge, expired)
	must(t, redeem(t, s.Families, edge.ID, 3))
	sameFamily(t, readFamily(t, s.Families, edge.ID), redeemed(edge, 3))
	mustBe(t, redeem(t, s.Families, expired.ID, 3), Refused(store.Expired))
	sameFamily(t, readFamily(t, s.Families, expired.ID), expired)
}

// codeRedeemedAgain (T49): the second caller gets Replayed and changes nothing, however much time has passed and whatever happened to the
// family since. The record shows the first redemption.
func codeRedeemedAgain(t *testing.T, s store.Store) {
	addFamilies(t, s.Families, family("f"))
	must(t, redeem(t, s.Families, "f", 1))
	want := redeemed(family("f"), 1)
	for _, later := range []int{1, 2, 30, 86400} {
		mustBe(t, redeem(t, s.Families, "f", later), Refused(store.Replayed))
		sameFamily(t, readFamily(t, s.Families, "f"), want)
	}
	must(t, rotate(t, s.Families, "f", 1, store.Rotation{At: now.Add(time.Hour)}))
	want.Refresh.Generation, want.Refresh.RotatedAt = 2, now.Add(time.Hour)
	mustBe(t, redeem(t, s.Families, "f", 2), Refused(store.Replayed))
	sameFamily(t, readFamily(t, s.Families, "f"), want)

	_, err := s.Families.EndFamilies(t.Context(), store.FamilyFilter{ID: "f"}, theEnd)
	must(t, err)
	want.RevokedAt = theEnd.At
	mustBe(t, redeem(t, s.Families, "f", 3), Refused(store.Replayed))
	sameFamily(t, readFamily(t, s.Families, "f"), want)
}

// codeRedeemedOnceInARace (T51): 50 callers with one code → exactly one succeeds, and the others get Replayed.
func codeRedeemedOnceInARace(t *testing.T, s store.Store) {
	for round := range 10 {
		id := fmt.Sprint("f", round)
		addFamilies(t, s.Families, family(id))
		errs := race(50, func(i int) error { return redeem(t, s.Families, id, i) })
		oneWinner(t, errs, Refused(store.Replayed))
		sameFamily(t, readFamily(t, s.Families, id), redeemed(family(id), slices.Index(errs, nil)))
	}
}

// manyCodesInARace (T52): 8 callers each redeem the same 100 codes, on either of the stores of one place. Each code has one winner, and
// the family is as that one left it.
func manyCodesInARace(t *testing.T, a, b store.Store) {
	stores := []store.Store{a, b}
	const callers, codes = 8, 100
	for code := range codes {
		addFamilies(t, stores[code%len(stores)].Families, family(fmt.Sprint("f", code)))
	}
	var errs [codes][callers]error
	race(callers, func(i int) error {
		for code := range codes {
			errs[code][i] = redeem(t, stores[i%len(stores)].Families, fmt.Sprint("f", code), i)
		}
		return nil
	})
	for code := range codes {
		id := fmt.Sprint("f", code)
		oneWinner(t, errs[code][:], Refused(store.Replayed))
		sameFamily(t, readFamily(t, stores[code%len(stores)].Families, id), redeemed(family(id), slices.Index(errs[code][:], nil)))
	}
}

// redeemCodeNeverHad: a family without a code cannot be redeemed, even after wrong verifiers were counted.
func redeemCodeNeverHad(t *testing.T, s store.Store) {
	addFamilies(t, s.Families, refreshed("f"))
	mustBe(t, redeem(t, s.Families, "f", 2), Refused(store.Missing))
	sameFamily(t, readFamily(t, s.Families, "f"), refreshed("f"))
	must(t, s.Families.CountCodeFailure(t.Context(), "f"))
	before := readFamily(t, s.Families, "f")
	mustBe(t, redeem(t, s.Families, "f", 2), Refused(store.Missing))
	sameFamily(t, readFamily(t, s.Families, "f"), before)
}

// redeemCodeOfARevokedFamily: a code that was never redeemed ends with its family.
func redeemCodeOfARevokedFamily(t *testing.T, s store.Store) {
	addFamilies(t, s.Families, family("f"))
	_, err := s.Families.EndFamilies(t.Context(), store.FamilyFilter{UserID: "ada"}, theEnd)
	must(t, err)
	mustBe(t, redeem(t, s.Families, "f", 1), Refused(store.Revoked))
	want := family("f")
	want.RevokedAt = theEnd.At
	sameFamily(t, readFamily(t, s.Families, "f"), want)
}

// codeFailuresReachTheLimit (T103): failures are counted one by one and do not spend the code until the caller's limit. From then on it
// cannot be redeemed.
func codeFailuresReachTheLimit(t *testing.T, s store.Store) {
	addFamilies(t, s.Families, family("f"), family("below"), family("other"))
	want := family("f")
	for want.Code.Failures < maxFailures {
		must(t, s.Families.CountCodeFailure(t.Context(), "f"))
		want.Code.Failures++
		sameFamily(t, readFamily(t, s.Families, "f"), want)
	}
	mustBe(t, redeem(t, s.Families, "f", 1), Refused(store.TooManyFailures))
	sameFamily(t, readFamily(t, s.Families, "f"), want)
	must(t, s.Families.CountCodeFailure(t.Context(), "f"))
	mustBe(t, redeem(t, s.Families, "f", 1), Refused(store.TooManyFailures)) // more than the limit is the limit, too
	want.Code.Failures++
	sameFamily(t, readFamily(t, s.Families, "f"), want)

	below := redeemed(family("below"), 1)
	for below.Code.Failures < maxFailures-1 {
		must(t, s.Families.CountCodeFailure(t.Context(), "below"))
		below.Code.Failures++
	}
	must(t, redeem(t, s.Families, "below", 1))
	sameFamily(t, readFamily(t, s.Families, "below"), below)
	sameFamily(t, readFamily(t, s.Families, "other"), family("other"))
}

// codeFailuresInARace (T103): no failure is lost, and once the last one is acknowledged the code cannot be redeemed.
func codeFailuresInARace(t *testing.T, s store.Store) {
	addFamilies(t, s.Families, family("f"))
	must(t, errors.Join(race(racers, func(int) error { return s.Families.CountCodeFailure(t.Context(), "f") })...))
	want := family("f")
	want.Code.Failures = racers
	sameFamily(t, readFamily(t, s.Families, "f"), want)

	for round := range 20 {
		id := fmt.Sprint("f", round)
		addFamilies(t, s.Families, family(id))
		errs := race(maxFailures+1, func(i int) error {
			if i < maxFailures {
				return s.Families.CountCodeFailure(t.Context(), id)
			}
			return redeem(t, s.Families, id, 1)
		})
		won := errs[maxFailures] == nil
		must(t, errors.Join(errs[:maxFailures]...))
		again := store.Replayed
		if !won {
			again = store.TooManyFailures
			mustBe(t, errs[maxFailures], Refused(again))
		}
		f := readFamily(t, s.Families, id)
		if f.Code.Failures != maxFailures || f.Code.SpentAt.IsZero() == won {
			t.Fatalf("%d failures are counted of %d, and the code, whose caller won: %v, was spent at %v",
				f.Code.Failures, maxFailures, won, f.Code.SpentAt)
		}
		mustBe(t, redeem(t, s.Families, id, 2), Refused(again))
	}
}

// requestDecidedOnce (A63): a request that was approved or refused is not decided again, and the family of a second decision is not
// stored. Families without a request decide none.
func requestDecidedOnce(t *testing.T, s store.Store) {
	expires := now.Add(time.Hour)
	decide := map[string]func(id, request string) error{
		"approved": func(id, request string) error {
			f := family(id)
			f.Code.RequestID = request
			return Done(s.Families.AddFamily(t.Context(), f))
		},
		"refused": func(_, request string) error { return Done(s.Families.DecideRequest(t.Context(), request, expires)) },
	}
	for first, decideFirst := range decide {
		for second, decideAgain := range decide {
			name := first + ", then " + second
			must(t, decideFirst("first "+name, name))
			mustBe(t, decideAgain("second "+name, name), Refused(store.Replayed))
			noFamily(t, s.Families, "second "+name)
			mustBe(t, decideAgain("third "+name, name), Refused(store.Replayed))
		}
	}
	_, err := s.Families.EndFamilies(t.Context(), store.FamilyFilter{UserID: "ada"}, theEnd)
	must(t, err)
	mustBe(t, decide["approved"]("late", "approved, then refused"), Refused(store.Replayed)) // revoked, and still decided
	noFamily(t, s.Families, "late")
	for _, id := range []string{"a", "b"} {
		must(t, decide["approved"](id, ""))
	}
}

// requestDecidedOnceInARace (A63): of concurrent decisions of one request exactly one succeeds.
func requestDecidedOnceInARace(t *testing.T, s store.Store) {
	for round := range 10 {
		request := fmt.Sprint("request ", round)
		errs := race(racers, func(i int) error {
			if i%4 == 0 {
				return Done(s.Families.DecideRequest(t.Context(), request, now.Add(time.Hour)))
			}
			f := family(fmt.Sprint(round, " ", i))
			f.Code.RequestID = request
			return Done(s.Families.AddFamily(t.Context(), f))
		})
		oneWinner(t, errs, Refused(store.Replayed))
		for i, err := range errs {
			if err != nil || i%4 == 0 {
				noFamily(t, s.Families, fmt.Sprint(round, " ", i))
			} else {
				readFamily(t, s.Families, fmt.Sprint(round, " ", i))
			}
		}
	}
}

// requestNamesAreBytes (T15): a request is what the bytes of its id are.
func requestNamesAreBytes(t *testing.T, s store.Store) {
	for i, id := range oddIDs {
		if i%2 == 0 {
			must(t, Done(s.Families.DecideRequest(t.Context(), id, now.Add(time.Hour))))
			continue
		}
		f := family(fmt.Sprint("f", i))
		f.Code.RequestID = id
		addFamilies(t, s.Families, f)
	}
	for _, id := range oddIDs {
		mustBe(t, Done(s.Families.DecideRequest(t.Context(), id, now.Add(time.Hour))), Refused(store.Replayed))
	}
}
