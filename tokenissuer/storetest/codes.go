package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// maxFailures is how many wrong verifiers these tests allow for a code.
const maxFailures = 5

// redeem redeems the code of a family as the n-th caller. Every value that it sets identifies the caller.
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

var codeChecks = []check{
	// The four members that it sets change and no other, and no other family does. Generation 0 is valid: the exchange issued no refresh
	// token.
	{name: "RedeemCode", test: func(t *testing.T, s store.Store) {
		addFamilies(t, s.Families, family("f"), family("other"), family("not refreshable"))
		must(t, redeem(t, s.Families, "f", 1))
		wantFamilies(t, s.Families, redeemed(family("f"), 1))
		must(t, redeem(t, s.Families, "not refreshable", 0))
		wantFamilies(t, s.Families, redeemed(family("not refreshable"), 0), family("other"))

		// A code is valid whatever it is bound to, even without a request.
		bound := family("bound to little")
		bound.Code = store.CodeBinding{RedirectURI: "https://app.example/", ExpiresAt: now.Add(time.Minute)}
		addFamilies(t, s.Families, bound)
		must(t, redeem(t, s.Families, bound.ID, 2))
		wantFamilies(t, s.Families, redeemed(bound, 2))

		// The caller's clock decides whether a code has expired, because the caller may have cached another end. The end exactly is in time.
		edge, expired := family("edge"), family("expired")
		edge.Code.ExpiresAt = now.Add(3 * time.Second)
		expired.Code.ExpiresAt = edge.Code.ExpiresAt.Add(-time.Microsecond)
		addFamilies(t, s.Families, edge, expired)
		must(t, redeem(t, s.Families, edge.ID, 3))
		wantFamilies(t, s.Families, redeemed(edge, 3))
		mustBe(t, redeem(t, s.Families, expired.ID, 3), Refused(store.Expired))
		wantFamilies(t, s.Families, expired)
	}},
	// The second caller gets Replayed and changes nothing, however much time has passed and whatever happened to the family since. The record
	// shows the first redemption.
	{name: "T49CodeRedeemedAgain", test: func(t *testing.T, s store.Store) {
		addFamilies(t, s.Families, family("f"))
		must(t, redeem(t, s.Families, "f", 1))
		want := redeemed(family("f"), 1)
		for _, later := range []int{1, 2, 30, 86400} {
			mustBe(t, redeem(t, s.Families, "f", later), Refused(store.Replayed))
			wantFamilies(t, s.Families, want)
		}
		must(t, rotate(t, s.Families, "f", 1, store.Rotation{At: now.Add(time.Hour)}))
		want.Refresh.Generation, want.Refresh.RotatedAt = 2, now.Add(time.Hour)
		mustBe(t, redeem(t, s.Families, "f", 2), Refused(store.Replayed))
		wantFamilies(t, s.Families, want)

		ok(s.Families.EndFamilies(t.Context(), store.FamilyFilter{ID: "f"}, theEnd))(t)
		want.RevokedAt = theEnd.At
		mustBe(t, redeem(t, s.Families, "f", 3), Refused(store.Replayed))
		wantFamilies(t, s.Families, want)
	}},
	// 50 callers with one code → exactly one succeeds, and the others get Replayed.
	{name: "T51CodeRedeemedOnceInARace", races: func(t *testing.T, s store.Store) {
		for round := range 3 {
			id := fmt.Sprint("f", round)
			addFamilies(t, s.Families, family(id))
			errs := race(50, func(i int) error { return redeem(t, s.Families, id, i) })
			oneWinner(t, errs, Refused(store.Replayed))
			wantFamilies(t, s.Families, redeemed(family(id), slices.Index(errs, nil)))
		}
	}},
	// 8 callers each redeem the same 40 codes, on either of the stores of one place. Each code has one winner, and the family is as that one
	// left it.
	{name: "T52ManyCodesInARace", beside: func(t *testing.T, a, b store.Store) {
		stores := []store.Store{a, b}
		const callers, codes = 8, 40
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
			same(t, readFamily(t, stores[code%len(stores)].Families, id), redeemed(family(id), slices.Index(errs[code][:], nil)))
		}
	}},
	// A family without a code cannot be redeemed, even after wrong verifiers were counted.
	{name: "RedeemCodeNeverHad", test: func(t *testing.T, s store.Store) {
		addFamilies(t, s.Families, refreshed("f"))
		mustBe(t, redeem(t, s.Families, "f", 2), Refused(store.Missing))
		wantFamilies(t, s.Families, refreshed("f"))
		must(t, s.Families.CountCodeFailure(t.Context(), "f"))
		before := readFamily(t, s.Families, "f")
		mustBe(t, redeem(t, s.Families, "f", 2), Refused(store.Missing))
		wantFamilies(t, s.Families, before)
	}},
	// A code that was never redeemed ends with its family.
	{name: "RedeemCodeOfARevokedFamily", test: func(t *testing.T, s store.Store) {
		addFamilies(t, s.Families, family("f"))
		ok(s.Families.EndFamilies(t.Context(), store.FamilyFilter{UserID: "ada"}, theEnd))(t)
		mustBe(t, redeem(t, s.Families, "f", 1), Refused(store.Revoked))
		want := with(family("f"), func(f *store.TokenFamily) { f.RevokedAt = theEnd.At })
		wantFamilies(t, s.Families, want)
	}},
	// Failures are counted one by one and do not spend the code until the caller's limit. From then on it cannot be redeemed.
	{name: "T103CodeFailuresReachTheLimit", test: func(t *testing.T, s store.Store) {
		addFamilies(t, s.Families, family("f"), family("below"), family("other"))
		want := family("f")
		for want.Code.Failures < maxFailures {
			must(t, s.Families.CountCodeFailure(t.Context(), "f"))
			want.Code.Failures++
			wantFamilies(t, s.Families, want)
		}
		mustBe(t, redeem(t, s.Families, "f", 1), Refused(store.TooManyFailures))
		wantFamilies(t, s.Families, want)
		must(t, s.Families.CountCodeFailure(t.Context(), "f"))
		mustBe(t, redeem(t, s.Families, "f", 1), Refused(store.TooManyFailures)) // more than the limit is the limit, too
		want.Code.Failures++
		wantFamilies(t, s.Families, want)

		below := redeemed(family("below"), 1)
		for below.Code.Failures < maxFailures-1 {
			must(t, s.Families.CountCodeFailure(t.Context(), "below"))
			below.Code.Failures++
		}
		must(t, redeem(t, s.Families, "below", 1))
		wantFamilies(t, s.Families, below, family("other"))
	}},
	// No failure is lost, and once the last one is acknowledged the code cannot be redeemed.
	{name: "T103CodeFailuresInARace", races: func(t *testing.T, s store.Store) {
		addFamilies(t, s.Families, family("f"))
		all(t, racers, func(int) error { return s.Families.CountCodeFailure(t.Context(), "f") })
		want := with(family("f"), func(f *store.TokenFamily) { f.Code.Failures = racers })
		wantFamilies(t, s.Families, want)

		for round := range 8 {
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
	}},
	// A request that was approved or refused is not decided again, and the family of a second decision is not stored. Families without a
	// request decide none.
	{name: "A63RequestDecidedOnce", test: func(t *testing.T, s store.Store) {
		expires := now.Add(time.Hour)
		decide := map[string]func(id, request string) error{
			"approved": func(id, request string) error {
				return Done(s.Families.AddFamily(t.Context(), with(family(id), func(f *store.TokenFamily) { f.Code.RequestID = request })))
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
		ok(s.Families.EndFamilies(t.Context(), store.FamilyFilter{UserID: "ada"}, theEnd))(t)
		mustBe(t, decide["approved"]("late", "approved, then refused"), Refused(store.Replayed)) // revoked, and still decided
		noFamily(t, s.Families, "late")
		for _, id := range []string{"a", "b"} {
			must(t, decide["approved"](id, ""))
		}
	}},
	// Of concurrent decisions of one request exactly one succeeds.
	{name: "A63RequestDecidedOnceInARace", races: func(t *testing.T, s store.Store) {
		for round := range 3 {
			request := fmt.Sprint("request ", round)
			errs := race(racers, func(i int) error {
				if i%4 == 0 {
					return Done(s.Families.DecideRequest(t.Context(), request, now.Add(time.Hour)))
				}
				f := with(family(fmt.Sprint(round, " ", i)), func(f *store.TokenFamily) { f.Code.RequestID = request })
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
	}},
	// T15: a request is what the bytes of its id are.
	{name: "RequestNamesAreBytes", test: func(t *testing.T, s store.Store) {
		for i, id := range oddIDs {
			if i%2 == 0 {
				must(t, Done(s.Families.DecideRequest(t.Context(), id, now.Add(time.Hour))))
				continue
			}
			addFamilies(t, s.Families, with(family(fmt.Sprint("f", i)), func(f *store.TokenFamily) { f.Code.RequestID = id }))
		}
		for _, id := range oddIDs {
			mustBe(t, Done(s.Families.DecideRequest(t.Context(), id, now.Add(time.Hour))), Refused(store.Replayed))
		}
	}},
	// A refused step returns the first of its reasons and the unchanged family.
	{name: "RefusalsTell", test: func(t *testing.T, s store.Store) {
		late := now.AddDate(10, 0, 0)
		spend := func(f *store.TokenFamily) { must(t, redeem(t, s.Families, f.ID, 2)) }
		revoke := func(f *store.TokenFamily) { end(t, s.Families, store.FamilyFilter{ID: f.ID}) }
		guess := func(f *store.TokenFamily) {
			for range maxFailures {
				must(t, s.Families.CountCodeFailure(t.Context(), f.ID))
			}
		}
		for _, c := range []struct {
			name           string
			before         []func(*store.TokenFamily)
			at             time.Time
			redeem, rotate store.Outcome
		}{
			{name: "spent", before: []func(*store.TokenFamily){spend}, at: now, redeem: store.Replayed, rotate: store.Replayed},
			{name: "spent and revoked", before: []func(*store.TokenFamily){spend, revoke}, at: now, redeem: store.Replayed, rotate: store.Revoked},
			{name: "spent and late", before: []func(*store.TokenFamily){spend}, at: late, redeem: store.Replayed, rotate: store.Expired},
			{name: "revoked", before: []func(*store.TokenFamily){revoke}, at: now, redeem: store.Revoked, rotate: store.Missing},
			{name: "revoked and late", before: []func(*store.TokenFamily){revoke}, at: late, redeem: store.Revoked, rotate: store.Missing},
			{name: "late", at: late, redeem: store.Expired, rotate: store.Missing},
			{name: "late and guessed", before: []func(*store.TokenFamily){guess}, at: late, redeem: store.Expired, rotate: store.Missing},
			{name: "guessed", before: []func(*store.TokenFamily){guess}, at: now, redeem: store.TooManyFailures, rotate: store.Missing},
		} {
			f := family(c.name)
			addFamilies(t, s.Families, f)
			for _, step := range c.before {
				step(f)
			}
			want := readFamily(t, s.Families, f.ID)
			outcome, got, err := s.Families.RedeemCode(t.Context(), f.ID, store.Redemption{At: c.at, Generation: 7, ExpiresAt: late, MaxFailures: maxFailures})
			if must(t, err); outcome != c.redeem || got == nil {
				t.Fatalf("%s: redeeming is %v with %+v, want %v", c.name, outcome, got, c.redeem)
			}
			same(t, got, want)
			outcome, got, err = s.Families.RotateRefreshToken(t.Context(), f.ID, 1, store.Rotation{At: c.at})
			if must(t, err); outcome != c.rotate || got == nil {
				t.Fatalf("%s: rotating is %v with %+v, want %v", c.name, outcome, got, c.rotate)
			}
			same(t, got, want)
			wantFamilies(t, s.Families, want)
		}
	}},
}
