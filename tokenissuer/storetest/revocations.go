package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var kinds = []store.RevocationKind{
	store.RevokeToken, store.RevokeFamily, store.RevokeUser,
	store.RevokeClient, store.RevokeOrganisation, store.RevokeKey,
}

var revocationChecks = []check{
	// Every kind comes back with its times, and one id of two kinds is two revocations.
	{name: "RevokeReadsBack", test: func(t *testing.T, s store.Store) {
		var want []store.Revocation
		for i, kind := range kinds {
			r := store.Revocation{Kind: kind, ID: "same", ExpiresAt: now.Add(time.Duration(i+1) * time.Hour)}
			if i%2 == 0 {
				r.IssuedUntil = now.Add(time.Duration(i) * time.Minute)
			}
			want = append(want, r)
		}
		must(t, s.Revocations.Revoke(t.Context(), want[:3]...))
		must(t, s.Revocations.Revoke(t.Context(), want[3:]...))
		must(t, s.Revocations.Revoke(t.Context()))
		got := recorded(t, s.Revocations)
		wantSize(t, got, len(want))
		for _, w := range want {
			same(t, got[name(w)], w)
		}
	}},
	// Ids of revocations are compared byte for byte, like those of clients.
	{name: "RevokeNamesAreBytes", test: func(t *testing.T, s store.Store) {
		ids := []string{"a", "A", "a ", " a", "%", "_", "' OR 1=1--", "caf\u00e9", "cafe\u0301", "1", "01", "1.0"}
		for _, id := range ids {
			must(t, s.Revocations.Revoke(t.Context(), revocation(id)))
		}
		got := recorded(t, s.Revocations)
		wantSize(t, got, len(ids))
		for _, id := range ids {
			same(t, got["client "+id], revocation(id))
		}
	}},
	// Of two revocations of one id each member takes the wider value, in either order.
	{name: "RevokeWidens", test: func(t *testing.T, s store.Store) {
		early, late, never := now, now.Add(time.Hour), time.Time{}
		for _, c := range []struct {
			name                        string
			issuedA, issuedB, issued    time.Time
			expiresA, expiresB, expires time.Time
		}{
			{"same", early, early, early, late, late, late},
			{"later in both", early, late, late, early, late, late},
			{"later in one, earlier in the other", early, late, late, late, early, late},
			{"a limit and none", early, never, never, late, early, late},
			{"a later limit and none", late, never, never, early, late, late},
			{"no limit at all", never, never, never, early, late, late},
			{"an end and none", early, early, early, late, never, late},
		} {
			a := store.Revocation{Kind: store.RevokeUser, ID: c.name, IssuedUntil: c.issuedA, ExpiresAt: c.expiresA}
			b := store.Revocation{Kind: store.RevokeUser, ID: c.name, IssuedUntil: c.issuedB, ExpiresAt: c.expiresB}
			want := store.Revocation{Kind: store.RevokeUser, ID: c.name, IssuedUntil: c.issued, ExpiresAt: c.expires}
			must(t, s.Revocations.Revoke(t.Context(), a))
			must(t, s.Revocations.Revoke(t.Context(), b))
			same(t, recorded(t, s.Revocations)[name(want)], want)

			a.Kind, b.Kind, want.Kind = store.RevokeFamily, store.RevokeFamily, store.RevokeFamily
			must(t, s.Revocations.Revoke(t.Context(), b))
			must(t, s.Revocations.Revoke(t.Context(), a))
			same(t, recorded(t, s.Revocations)[name(want)], want)
		}
	}},
	// No concurrent caller's wider value is lost.
	{name: "RevokeWidensInARace", races: func(t *testing.T, s store.Store) {
		all(t, racers, func(i int) error {
			r := revocation("app")
			r.IssuedUntil = now.Add(time.Duration(i) * time.Second)
			r.ExpiresAt = now.Add(24*time.Hour - time.Duration(i)*time.Second)
			return s.Revocations.Revoke(t.Context(), r)
		})
		want := revocation("app")
		want.IssuedUntil, want.ExpiresAt = now.Add((racers-1)*time.Second), now.Add(24*time.Hour)
		same(t, recorded(t, s.Revocations)["client app"], want)
	}},
	// A call may name one id twice; the wider value wins.
	{name: "RevokeTwiceInOneCall", test: func(t *testing.T, s store.Store) {
		narrow, wide := revocation("app"), revocation("app")
		wide.IssuedUntil = time.Time{}
		must(t, s.Revocations.Revoke(t.Context(), narrow, wide, narrow))
		same(t, recorded(t, s.Revocations)["client app"], wide)
	}},
	// Revocations that expired before the given time are deleted, others stay, and readers continue from their position.
	{name: "DropRevocations", test: func(t *testing.T, s store.Store) {
		early, late := revocation("early"), revocation("late")
		early.ExpiresAt = now.Add(time.Hour)
		must(t, s.Revocations.Revoke(t.Context(), early, late))
		_, position, err := s.Revocations.Revocations(t.Context(), store.FeedPosition{})
		must(t, err)
		if more, err := s.Housekeeping.Drop(t.Context(), store.ExpiringRevocations, now.Add(2*time.Hour)); more || err != nil {
			t.Fatalf("after one of two was dropped there may be more: %v, %v", more, err)
		}
		got := recorded(t, s.Revocations)
		wantSize(t, got, 1)
		same(t, got[name(late)], late)
		must(t, s.Revocations.Revoke(t.Context(), revocation("new")))
		list, _, err := s.Revocations.Revocations(t.Context(), position)
		must(t, err)
		if len(list) != 1 || list[0].ID != "new" {
			t.Errorf("after the position there is %+v, want the new one", list)
		}
	}},
	// Each call deletes a bounded number, and no other writer waits long. In the end all that may be deleted are, those without an end first.
	{name: "F26DropRevocationsBitByBit", test: func(t *testing.T, s store.Store) {
		const expired, kept, batch = 600, 200, 500
		var list []store.Revocation
		for i := range expired + kept {
			r := revocation(fmt.Sprint("app ", i))
			switch {
			case i < 10:
				r.ExpiresAt = time.Time{}
			case i < expired:
				r.ExpiresAt = now.Add(time.Hour)
			}
			list = append(list, r)
		}
		must(t, s.Revocations.Revoke(t.Context(), list...))
		count := func() int64 {
			return ok(s.Housekeeping.Sizes(t.Context()))(t).Revocations
		}
		left := count()
		for more := true; more; {
			more = ok(s.Housekeeping.Drop(t.Context(), store.ExpiringRevocations, now.Add(2*time.Hour)))(t)
			before := left
			if left = count(); before-left > batch || more && left == before {
				t.Fatalf("one call dropped %d, and there may be more: %v", before-left, more)
			}
		}
		if listed := len(recorded(t, s.Revocations)); listed != kept || left != kept {
			t.Fatalf("%d revocations are left and %d listed, want %d", left, listed, kept)
		}
	}},
}
