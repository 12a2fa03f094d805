package storetest

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// family returns a family of the declared user "ada" with an authorization code. Every field has a distinct value, except those that only
// later steps set.
func family(id string) *store.TokenFamily {
	return &store.TokenFamily{
		ID:    id,
		User:  store.FamilyUser{ID: "ada", Version: "version of ada", Declared: true},
		Grant: store.Grant{ClientID: "app", Origin: oauth.AuthorizationCode, Scopes: oauth.Scopes{"trusted", "read:<things>'&"}, Claims: `{"userinfo":{"é'":null}}`, Audience: []string{"https://api.example/é?a='1'", "urn:things"}},
		Actor: store.Actor{Subject: "boß 🧑‍💼", ClientID: `"back" office`},

		SignIn: store.SignIn{Provider: "corp é'", SessionID: "session of " + id, Proof: store.Proof{ACR: "1 é'", AMR: []string{"pwd", "otp é'"}}, Time: now.Add(-time.Hour)}, Note: "Firefox auf Ünix '\"\\ 🌍",
		Validity: store.Validity{CreatedAt: now.Add(-time.Minute), ExpiresAt: now.Add(time.Hour), TokenLifetime: store.MaxFamilyLifetime},
		Code: store.CodeBinding{
			RequestID: "request of " + id, RedirectURI: "https://app.example/cb?a='1'&b=%22é\"",
			Challenge: "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM", Nonce: "n-0S6_WzA2Mj 'é\"", Refreshable: true, ExpiresAt: now.Add(2 * time.Minute),
		},
	}
}

// familyOf returns a family of a stored user, in the user's version as it was read.
func familyOf(u *store.User, id string) *store.TokenFamily { return ownedBy(u, family(id)) }

// ownedBy returns the family as that of a user, in the version as it was read.
func ownedBy(u *store.User, f *store.TokenFamily) *store.TokenFamily {
	f.User.ID, f.User.Version, f.User.Declared = u.ID, u.Version, u.Declared
	return f
}

// refreshed returns a family without a code whose newest refresh token is the first.
func refreshed(id string) *store.TokenFamily {
	f := family(id)
	f.Origin, f.Code = oauth.PasswordGrant, store.CodeBinding{}
	f.Refresh.Generation, f.Refresh.RotatedAt = 1, now.Add(-time.Minute)
	return f
}

// addFamilies stores families, which must succeed.
func addFamilies(t *testing.T, s store.FamilyStore, families ...*store.TokenFamily) {
	t.Helper()
	for _, f := range families {
		if err := Done(s.AddFamily(t.Context(), f)); err != nil {
			t.Fatalf("adding family %q: %v", f.ID, err)
		}
	}
}

// readFamily returns a family, which must exist.
func readFamily(t *testing.T, s store.FamilyStore, id string) *store.TokenFamily {
	t.Helper()
	f, err := s.Family(t.Context(), id)
	if err != nil {
		t.Fatalf("reading family %q: %v", id, err)
	}
	return f
}

// noFamily ends the test if the family exists.
func noFamily(t *testing.T, s store.FamilyStore, id string) {
	t.Helper()
	mustBe(t, errOf(s.Family(t.Context(), id)), store.ErrNotFound)
}

// wantFamilies compares stored families with these.
func wantFamilies(t *testing.T, s store.FamilyStore, want ...*store.TokenFamily) {
	t.Helper()
	for _, f := range want {
		same(t, readFamily(t, s, f.ID), f)
	}
}

// sameFamilies compares families in order.
func sameFamilies(t *testing.T, got []*store.TokenFamily, want ...*store.TokenFamily) {
	t.Helper()
	same(t, got, want)
}

var familyChecks = []check{
	// An unknown id finds no family, and a step on it leaves nothing behind.
	{name: "FamilyUnknown", test: func(t *testing.T, s store.Store) {
		noFamily(t, s.Families, "f")
		mustBe(t, redeem(t, s.Families, "f", 1), Refused(store.Missing))
		mustBe(t, rotate(t, s.Families, "f", 0, store.Rotation{At: now}), Refused(store.Missing))
		must(t, s.Families.CountCodeFailure(t.Context(), "f"))
		mustBe(t, Done(s.Families.TouchFamily(t.Context(), "f", now)), Refused(store.Revoked))
		sameFamilies(t, ok(s.Families.FamiliesOf(t.Context(), "ada", time.Time{}))(t))
		noFamily(t, s.Families, "f")
		addFamilies(t, s.Families, family("f"))
		wantFamilies(t, s.Families, family("f"))
	}},
	// Every field comes back, times to the millisecond and zero times as zero.
	{name: "FamilyReadsBack", test: func(t *testing.T, s store.Store) {
		u := addUser(t, s, user("user Ω"))
		bare := &store.TokenFamily{ID: "bare", User: store.FamilyUser{ID: "ada", Declared: true}, Validity: store.Validity{ExpiresAt: now.Add(time.Hour)}}
		session := refreshed("session")
		session.Origin, session.ClientID, session.Refresh.Generation, session.Actor = store.BrowserSession, "", 0, store.Actor{}
		old := refreshed("old")
		old.Refresh.RotatedBy = "somebody"
		old.Origin, old.Refresh.Generation, old.Code.Refreshable = store.AdminCreated, 1<<40, false
		epoch := family("epoch") // 1970 is a time like any other, not the zero time
		epoch.SignIn.Time, epoch.CreatedAt, epoch.Code.ExpiresAt = time.Unix(0, 0), time.Unix(0, 0), time.Unix(0, 0)
		plain := family("plain")
		plain.Code = store.CodeBinding{RedirectURI: "com.example.app:/back", ExpiresAt: now}
		for _, want := range []*store.TokenFamily{family("full"), familyOf(u, "of a stored user"), bare, session, old, epoch, plain} {
			addFamilies(t, s.Families, want)
			wantFamilies(t, s.Families, want)
		}
	}},
	// T15: ids of families, users and clients are what their bytes are.
	{name: "FamilyIDsAreBytes", test: func(t *testing.T, s store.Store) {
		of := func(id string) *store.TokenFamily {
			return with(family(id), func(f *store.TokenFamily) { f.User.ID, f.ClientID = id, id })
		}
		namesAreBytes(t, func(id string) { addFamilies(t, s.Families, of(id)) }, func(id string) {
			wantFamilies(t, s.Families, of(id))
			sameFamilies(t, ok(s.Families.FamiliesOf(t.Context(), id, now))(t), of(id))
		}, func(id string) error { return errOf(s.Families.Family(t.Context(), id)) })
		// A step changes the family that it names and no other.
		must(t, Used(s.Families.RedeemCode(t.Context(), "%", store.Redemption{At: now, Generation: 1, ExpiresAt: now.Add(time.Hour), MaxFailures: 5})))
		must(t, s.Families.CountCodeFailure(t.Context(), "_"))
		ended := []string{"app", "caf\u00e9", "strasse", "1", "a_p"}
		for _, id := range ended {
			for _, which := range []store.FamilyFilter{{ID: id}, {UserID: id}, {ClientID: id}} {
				ok(s.Families.EndFamilies(t.Context(), which, theEnd))(t)
			}
		}
		for _, id := range oddIDs {
			f := readFamily(t, s.Families, id)
			if revoked := slices.Contains(ended, id); revoked == f.RevokedAt.IsZero() {
				t.Errorf("family %q was revoked at %v", id, f.RevokedAt)
			}
			if f.Code.SpentAt.IsZero() == (id == "%") || (f.Code.Failures > 0) != (id == "_") {
				t.Errorf("the code of %q was spent at %v, with %d failures", id, f.Code.SpentAt, f.Code.Failures)
			}
		}
	}},
	// A second family with an id is refused. It would revive a revoked one.
	{name: "FamilyAddedOnce", test: func(t *testing.T, s store.Store) {
		addFamilies(t, s.Families, family("f"))
		ok(s.Families.EndFamilies(t.Context(), store.FamilyFilter{ID: "f"}, theEnd))(t)
		second := refreshed("f")
		if err := Done(s.Families.AddFamily(t.Context(), second)); err == nil {
			t.Error("a second family of the id was added")
		}
		want := with(family("f"), func(f *store.TokenFamily) { f.RevokedAt = theEnd.At })
		wantFamilies(t, s.Families, want)
	}},
	// A reader sees the last step that was acknowledged before its query, or a later one, and never a part of one.
	{name: "FamilyIsReadAfterItsLastStep", races: func(t *testing.T, s store.Store) {
		const steps = 50
		at := func(generation int64) time.Time { return now.Add(time.Duration(generation) * time.Second) }
		after := func(generation int64) *store.TokenFamily {
			f := family("f")
			if generation > 0 {
				f.Code.SpentAt, f.ExpiresAt = at(1), now.AddDate(0, 1, 0)
				f.Refresh.Generation, f.Refresh.RotatedAt = generation, at(generation)
			}
			return f
		}
		addFamilies(t, s.Families, family("f"))
		var acknowledged atomic.Int64
		var over atomic.Bool
		all(t, 4, func(i int) error {
			if i == 0 {
				defer over.Store(true)
				err := Used(s.Families.RedeemCode(t.Context(), "f", store.Redemption{At: at(1), Generation: 1, ExpiresAt: after(1).ExpiresAt, MaxFailures: 5}))
				for generation := int64(1); err == nil && generation < steps; generation++ {
					acknowledged.Store(generation)
					err = rotate(t, s.Families, "f", generation, store.Rotation{At: at(generation + 1)})
				}
				return err
			}
			for !over.Load() {
				least := acknowledged.Load()
				f, err := s.Families.Family(t.Context(), "f")
				if err != nil {
					return err
				}
				if f.Refresh.Generation < least {
					return fmt.Errorf("after generation %d was acknowledged there is %d", least, f.Refresh.Generation)
				}
				same(t, f, after(f.Refresh.Generation))
			}
			return nil
		})
		wantFamilies(t, s.Families, after(steps))
	}},
}
